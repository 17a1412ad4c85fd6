#include "campaign/anchor.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/inside.h"
#include "base/json.h"
#include "base/large_file.h"
#include "base/signature.h"
#include "campaign/journal.h"
#include "campaign/manifest.h"
#include "execute/timestamp.h"
#include "record/json.h"
#include "record/signature.h"

namespace ridge::campaign {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKind = "ed25519-";

template <class Line>
struct LineFile {
  std::vector<Line> lines;
  std::size_t size = 0;        // of the complete lines
  std::size_t torn_bytes = 0;  // an unfinished last line: it never counted
};

// A file of one record per line; a missing one is empty.
template <class Line>
Result<LineFile<Line>> read_lines(const fs::path& path) {
  LineFile<Line> file;
  Result<std::string> text = read_file_up_to(path, kJournalBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return file;
  if (!text) return text.error();
  while (true) {
    const std::size_t end = text->find('\n', file.size);
    if (end == std::string::npos) break;
    Result<Line> line = record::parse_record<Line>(std::string_view(*text).substr(file.size, end - file.size), "line");
    if (!line) {
      Error error = in_context(fmt::format("{}: line {}", path.string(), file.lines.size() + 1), line.error());
      error.code = ErrorCode::kCorrupt;
      return error;
    }
    file.lines.push_back(std::move(*line));
    file.size = end + 1;
  }
  file.torn_bytes = text->size() - file.size;
  return file;
}

class LineWriter {
 public:
  // Cuts off what a crash left unfinished behind `size` bytes.
  static Result<LineWriter> open(const fs::path& path, std::size_t size, std::size_t torn_bytes) {
    RIDGE_TRY(sink, open_journal_file(path));
    if (torn_bytes > 0) RIDGE_CHECK_OK(sink->truncate(size));
    return LineWriter(std::move(sink), size);
  }
  Status append(const std::string& line) {
    RIDGE_CHECK_OK(sink_->append(size_, line + "\n"));
    size_ += line.size() + 1;
    return ok_status();
  }

 private:
  LineWriter(std::unique_ptr<JournalSink> sink, std::size_t size) : sink_(std::move(sink)), size_(size) {}
  std::unique_ptr<JournalSink> sink_;
  std::size_t size_;
};

class FileAnchor final : public Anchor {
 public:
  FileAnchor(SigningKey key, LineWriter file, std::string key_file)
      : key_(std::move(key)), file_(std::move(file)), key_file_(std::move(key_file)) {}

  Status sign(std::int64_t sequence, const std::string& hash) override {
    record::Signature line{sequence, hash, key_.public_key(), key_.sign(record::signed_text(sequence, hash)),
                           key_file_};
    RIDGE_CHECK_OK(file_.append(record::to_line(line)));
    key_file_.clear();
    return ok_status();
  }

 private:
  SigningKey key_;
  LineWriter file_;
  std::string key_file_;  // still to be noted; empty: it stands in the file
};

SignatureReport compare_signatures(const LineFile<record::Signature>& file, const std::vector<record::Event>& events,
                                   const std::string& key) {
  SignatureReport report{.key = key, .events = static_cast<std::int64_t>(events.size()), .torn_bytes = file.torn_bytes};
  std::multimap<std::int64_t, const record::Signature*> by_sequence;
  for (const record::Signature& line : file.lines) by_sequence.emplace(line.sequence, &line);
  for (const record::Event& event : events) {
    std::string problem = "is not signed";
    const auto [begin, end] = by_sequence.equal_range(event.sequence);
    for (auto it = begin; it != end; ++it) {
      const record::Signature& line = *it->second;
      if (line.hash != event.hash) {
        problem = "is not the line that was signed";
      } else if (is_signed(record::signed_text(event.sequence, event.hash), line.signature, key)) {
        problem.clear();
        break;
      } else {
        problem = line.key == key ? "has a signature that is wrong" : "is signed by another key, " + key_text(line.key);
      }
    }
    if (problem.empty()) {
      ++report.signed_events;
    } else if (report.first_bad == 0) {
      report.first_bad = event.sequence + 1;
      report.problem = problem;
    }
  }
  report.unused = static_cast<std::int64_t>(file.lines.size()) - report.signed_events;
  return report;
}

std::string last_key_file(const LineFile<record::Signature>& file) {
  for (auto line = file.lines.rbegin(); line != file.lines.rend(); ++line) {
    if (!line->key_file.empty()) return line->key_file;
  }
  return {};
}

}  // namespace

fs::path sign_key_file(const fs::path& given) {
  const char* named = std::getenv(kSignKeyVariable);
  return given.empty() && named != nullptr ? fs::path(named) : given;
}

std::string key_text(const std::string& public_key) { return std::string(kKind) + public_key; }

Result<std::optional<std::string>> signing_key_of(const record::CampaignSpec& spec) {
  if (!spec.extra.contains(kSigningKey)) return std::optional<std::string>();
  const std::string text = extra_text(spec, kSigningKey);
  const std::string digits = text.starts_with(kKind) ? text.substr(kKind.size()) : "";
  if (digits.size() != 64 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return with_hint(invalid("{} in manifest.yaml is \"{}\", which is no public key", kSigningKey, text),
                     "it is ed25519- and 64 hex digits; `ridge optimize --sign-key FILE` writes it");
  }
  return std::optional(digits);
}

std::string timestamp_command_of(const record::CampaignSpec& spec) { return extra_text(spec, kTimestampCommand); }

Status anchor_spec(record::CampaignSpec& spec, const fs::path& directory, const fs::path& key_file,
                   const std::string& timestamp_command) {
  if (!timestamp_command.empty()) {
    if (timestamp_command.find_first_of("\r\n") != std::string::npos)
      return invalid("the time-stamp command has two lines");
    spec.extra[kTimestampCommand] = yaml_text(timestamp_command);
  }
  if (key_file.empty()) return ok_status();
  if (lies_in(key_file, directory)) {
    return with_hint(invalid("the key {} lies in the campaign's own folder", key_file.string()),
                     "keep it where those who can write the campaign cannot read it");
  }
  RIDGE_TRY(key, SigningKey::read(key_file));
  spec.extra[kSigningKey] = key_text(key.public_key());
  return ok_status();
}

Result<std::unique_ptr<Anchor>> Anchor::open(const fs::path& directory, const record::CampaignSpec& spec,
                                             const std::vector<record::Event>& events, const fs::path& given) {
  RIDGE_TRY(named, signing_key_of(spec));
  if (!named) return std::unique_ptr<Anchor>();
  const fs::path path = directory / kSignaturesFile;
  RIDGE_TRY(file, read_lines<record::Signature>(path));
  const SignatureReport report = compare_signatures(file, events, *named);
  if (!report.ok()) {
    return with_hint(make_error(ErrorCode::kCorrupt, "{}: line {} {} ({})", (directory / "journal.jsonl").string(),
                                report.first_bad, report.problem, key_text(*named)),
                     "this campaign is anchored: put its journal and signatures.jsonl back as they were");
  }
  const fs::path chosen = sign_key_file(given), key_file = chosen.empty() ? fs::path(last_key_file(file)) : chosen;
  if (key_file.empty()) {
    return with_hint(make_error(ErrorCode::kConflict, "{} is signed by {}, and its private key is not known",
                                directory.string(), key_text(*named)),
                     fmt::format("name its file: {}=FILE", kSignKeyVariable));
  }
  Result<SigningKey> key = SigningKey::read(key_file);
  if (!key) return with_hint(key.error(), fmt::format("name the campaign's key: {}=FILE", kSignKeyVariable));
  if (key->public_key() != *named) {
    return with_hint(make_error(ErrorCode::kConflict, "{} is {}, and {} is signed by {}", key_file.string(),
                                key_text(key->public_key()), directory.string(), key_text(*named)),
                     fmt::format("name the campaign's own key: {}=FILE", kSignKeyVariable));
  }
  RIDGE_TRY(writer, LineWriter::open(path, file.size, file.torn_bytes));
  const std::string noted = fs::absolute(key_file).string();
  return std::unique_ptr<Anchor>(std::make_unique<FileAnchor>(std::move(*key), std::move(writer),
                                                              last_key_file(file) == noted ? std::string() : noted));
}

Result<SignatureReport> check_signatures(const fs::path& directory, const std::vector<record::Event>& events,
                                         const std::string& public_key) {
  RIDGE_TRY(file, read_lines<record::Signature>(directory / kSignaturesFile));
  return compare_signatures(file, events, public_key);
}

Result<TimestampReport> check_timestamps(const fs::path& directory, const std::vector<record::Event>& events) {
  RIDGE_TRY(file, read_lines<record::Timestamp>(directory / kTimestampsFile));
  TimestampReport report;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const record::Timestamp& stamp = file.lines[i];
    const bool known = stamp.sequence >= 0 && static_cast<std::size_t>(stamp.sequence) < events.size() &&
                       events[static_cast<std::size_t>(stamp.sequence)].hash == stamp.hash;
    ++(stamp.problem.empty() ? report.kept : report.failed);
    if (!known) {
      report.problems.push_back(fmt::format("{}: line {}: stamps a line {} that the journal does not have",
                                            kTimestampsFile, i + 1, stamp.sequence + 1));
    }
  }
  return report;
}

bool is_stamped(record::EventKind kind) {
  using record::EventKind;
  return kind == EventKind::kPrepared || kind == EventKind::kBaseline || kind == EventKind::kDecided ||
         kind == EventKind::kFinal || kind == EventKind::kReported || kind == EventKind::kPaused;
}

Status stamp_head(const fs::path& directory, const std::string& command, const record::Event& head, Clock& clock) {
  const fs::path path = directory / kTimestampsFile;
  RIDGE_TRY(file, read_lines<record::Timestamp>(path));
  record::Timestamp stamp{head.sequence, head.hash, {}, command, {}, {}, {}};
  const Result<std::string> answer = execute::ask_timestamp(command, head.hash);
  stamp.time = format_event_time(clock.unix_time());
  if (!answer) {
    stamp.problem = answer.error().message;
    if (!is_utf8(stamp.problem)) stamp.problem = "it failed, and what it wrote is no text";
  } else if (is_utf8(*answer)) {
    stamp.text = *answer;
  } else {
    stamp.hex = to_hex(*answer);
  }
  RIDGE_TRY(writer, LineWriter::open(path, file.size, file.torn_bytes));
  return writer.append(record::to_line(stamp));
}

}  // namespace ridge::campaign
