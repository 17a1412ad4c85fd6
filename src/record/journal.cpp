#include "record/journal.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/large_file.h"
#include "record/journal_prefix.h"
#include "record/json.h"

namespace ridge::record {
namespace {

const std::string kNoPrevious(64, '0');

}  // namespace

Error broken_journal(std::size_t line, std::size_t offset, std::string_view what) {
  return with_hint(
      Error{ErrorCode::kCorrupt, fmt::format("journal line {} (byte {}): {}", line, offset, what), {}},
      "the file was edited or damaged after it was written: restore it from a copy, or go back to its last "
      "good line with `ridge campaign repair`");
}

std::string event_hash(const Event& event) {
  Event unsigned_event = event;
  unsigned_event.hash.clear();
  return sha256(to_line(unsigned_event));
}

JournalPrefix read_prefix(std::string_view text, const JournalPlace& behind) {
  JournalPrefix journal;
  std::string previous = behind.events > 0 ? behind.last_hash : kNoPrevious;
  std::int64_t sequence = behind.events;
  while (journal.bytes < text.size()) {
    const std::size_t end = text.find('\n', journal.bytes);
    if (end == std::string_view::npos) break;
    if (end - journal.bytes > kUsualFileBytes) {
      journal.problem = fmt::format("it has {} bytes, and a line has at most {}", end - journal.bytes, kUsualFileBytes);
      break;
    }
    Result<Event> event = parse_record<Event>(text.substr(journal.bytes, end - journal.bytes), "event");
    if (!event) {
      journal.problem = event.error().message;
    } else if (event->sequence != sequence) {
      journal.problem = fmt::format("sequence {} where {} was expected", event->sequence, sequence);
    } else if (event->previous != previous) {
      journal.problem = "does not follow the line before it";
    } else if (event->hash != event_hash(*event)) {
      journal.problem = "content does not match its hash";
    }
    if (!journal.problem.empty()) break;
    previous = event->hash;
    ++sequence;
    journal.events.push_back(std::move(*event));
    journal.bytes = end + 1;
    journal.ends.push_back(journal.bytes);
  }
  return journal;
}

Result<JournalText> parse_journal(std::string_view text) {
  JournalPrefix good = read_prefix(text);
  if (!good.problem.empty()) return broken_journal(good.events.size() + 1, good.bytes, good.problem);
  return JournalText{std::move(good.events), text.size() - good.bytes};
}

Result<JournalText> read_journal(const std::filesystem::path& path) {
  RIDGE_TRY(text, read_file_up_to(path, kJournalBytes));
  Result<JournalText> journal = parse_journal(text);
  if (!journal) return in_context(path.string(), journal.error());
  return journal;
}

}  // namespace ridge::record
