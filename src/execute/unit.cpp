#include "execute/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostAttempts = 1'000'000;  // of a record that is believed
constexpr std::int64_t kMostOfABatch = 100'000;    // units or jobs, likewise
constexpr std::string_view kLeft = "left-";

std::string objection_to_attempt(std::int64_t attempt) {
  return attempt >= 1 && attempt <= kMostAttempts ? std::string() : fmt::format("attempt {} is none", attempt);
}

ErrorCode unit_error_code(const std::string& name) {
  for (const ErrorCode code : {ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kUnsupported,
                               ErrorCode::kIo, ErrorCode::kTimeout, ErrorCode::kConflict, ErrorCode::kCorrupt}) {
    if (name == to_string(code)) return code;
  }
  return ErrorCode::kToolFailed;
}

// Of the first line of a file that begins with `prefix`, what follows the colon; without a prefix the whole line.
std::string line_of(const char* path, std::string_view prefix) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(prefix)) continue;
    const std::size_t colon = prefix.empty() ? std::string::npos : line.find(':');
    return std::string(trimmed(std::string_view(line).substr(colon == std::string::npos ? 0 : colon + 1)));
  }
  return {};
}

fs::path name_beside(const fs::path& path) {
  return path.parent_path() / fmt::format("{}.{:016x}", path.filename().string(), secret_seed());
}

Status write_beside(const fs::path& mine, std::string_view content) {
  std::ofstream file(mine, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (file) return ok_status();
  const int why = errno;
  std::error_code ignored;
  fs::remove(mine, ignored);
  return make_error(ErrorCode::kIo, "cannot write {}: {}", mine.string(), std::strerror(why));
}

// Makes `path` another name of the file `mine`, which goes; false: there is a file of that name.
Result<bool> link_new(const fs::path& mine, const fs::path& path) {
  const bool first = ::link(mine.c_str(), path.c_str()) == 0;
  const int why = errno;
  std::error_code ignored;
  fs::remove(mine, ignored);
  if (!first && why != EEXIST)
    return make_error(ErrorCode::kIo, "cannot put {} in place: {}", path.string(), std::strerror(why));
  return first;
}

std::optional<std::size_t> number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool all = problem == std::errc() && end == text.data() + text.size();
  return all && number < static_cast<std::size_t>(kMostOfABatch) ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string unit_key(const record::WorkerRequest& request, std::string_view scope) {
  record::WorkerRequest content = request;
  content.time_limit = 0;
  content.cache_directory.clear();
  return sha256(fmt::format("{}\n{}", scope, record::to_line(content)));
}

fs::path UnitFolder::started(const std::string& key, std::int64_t attempt) const {
  return unit(key) / fmt::format("started-{}.json", attempt);
}
fs::path UnitFolder::failed(const std::string& key, std::int64_t attempt) const {
  return unit(key) / fmt::format("failed-{}.json", attempt);
}

Result<std::string> UnitFolder::open() const {
  for (const fs::path& folder : {done(), root_ / "units", root_ / "batches"}) RIDGE_CHECK_OK(make_directories(folder));
  RIDGE_CHECK_OK(write_once(nonce(), fmt::format("{:016x}{:016x}\n", secret_seed(), secret_seed())));
  RIDGE_TRY(text, read_file(nonce()));
  return std::string(trimmed(text));
}

Result<double> UnitFolder::clock_offset(Clock& clock) const {
  const fs::path probe = root_ / fmt::format("clock-{:016x}", secret_seed());
  RIDGE_CHECK_OK(write_note(probe, "probe\n"));
  struct stat facts {};
  const bool known = ::stat(probe.c_str(), &facts) == 0;
  const std::int64_t now = clock.unix_time();
  std::error_code ignored;
  fs::remove(probe, ignored);
  if (!known) return make_error(ErrorCode::kIo, "{} went while it was looked at", probe.string());
  return static_cast<double>(facts.st_mtim.tv_sec - now);
}

Result<bool> write_once(const fs::path& path, std::string_view content) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return false;
  const fs::path mine = name_beside(path);
  RIDGE_CHECK_OK(write_file_durably(mine, content));
  RIDGE_TRY(first, link_new(mine, path));
  RIDGE_CHECK_OK(sync_directory(path.parent_path()));
  return first;
}

Status write_note(const fs::path& path, std::string_view content) {
  RIDGE_CHECK_OK(make_directories(path.parent_path()));
  const fs::path mine = name_beside(path);
  RIDGE_CHECK_OK(write_beside(mine, content));
  std::error_code failure;
  fs::rename(mine, path, failure);
  if (!failure) return ok_status();
  return make_error(ErrorCode::kIo, "cannot put {} in place: {}", path.string(), failure.message());
}

Result<bool> take_unit(const UnitFolder& folder, const std::string& batch, std::size_t number, std::int64_t job) {
  const fs::path path = folder.taken(batch) / std::to_string(number);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return false;
  const fs::path mine = name_beside(path);
  RIDGE_CHECK_OK(write_beside(mine, record::to_line(record::UnitTaker{job})));
  return link_new(mine, path);
}

std::optional<std::int64_t> taker_of(const UnitFolder& folder, const std::string& batch, std::size_t number) {
  const Result<std::string> text = read_file(folder.taken(batch) / std::to_string(number));
  if (!text) return std::nullopt;
  const auto taker = record::parse_record<record::UnitTaker>(*text, "taker");
  return taker && taker->job >= -1 ? std::optional(taker->job) : std::nullopt;
}

Result<BatchNotes> notes_of(const UnitFolder& folder, const std::string& batch) {
  BatchNotes notes;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder.taken(batch), failure)) {
    const std::string name = entry.path().filename().string();
    const bool left = name.starts_with(kLeft);
    const auto number = number_in(std::string_view(name).substr(left ? kLeft.size() : 0));
    if (number) (left ? notes.left : notes.taken).insert(*number);
  }
  if (!failure || failure == std::errc::no_such_file_or_directory) return notes;
  return make_error(ErrorCode::kIo, "cannot list {}: {}", folder.taken(batch).string(), failure.message());
}

std::optional<record::UnitBatch> batch_of(const UnitFolder& folder, const std::string& name) {
  const Result<std::string> text = read_file(folder.batch(name) / "batch.json");
  if (!text) return std::nullopt;
  auto batch = record::parse_record<record::UnitBatch>(*text, "batch");
  const bool sound =
      batch && objection_to(*batch).empty() &&
      std::ranges::all_of(batch->units, [](const record::UnitTurn& turn) { return objection_to(turn).empty(); });
  return sound ? std::optional(std::move(*batch)) : std::nullopt;
}

bool is_unit_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
}

std::string objection_to(const record::UnitResult& result) {
  for (const auto& [name, seconds] : {std::pair("took", result.took), {"waited", result.waited}}) {
    if (!std::isfinite(seconds) || seconds < 0) return fmt::format("{} {} s is no time", name, seconds);
  }
  if (!std::isfinite(result.clock_offset)) return fmt::format("clock_offset {} s is no time", result.clock_offset);
  return objection_to_attempt(result.attempt);
}

std::string objection_to(const record::UnitSubmission& job) {
  if (!is_unit_name(job.batch)) return fmt::format("\"{}\" is no name of a batch", job.batch);
  if (job.index < 0) return fmt::format("number {} is none", job.index);
  if (job.time < 0) return fmt::format("time {} is none", job.time);
  return objection_to_attempt(job.attempt);
}

std::string objection_to(const record::UnitTurn& turn) {
  if (!is_unit_name(turn.key)) return fmt::format("\"{}\" is no name of a unit", turn.key);
  return objection_to_attempt(turn.attempt);
}

std::string objection_to(const record::UnitBatch& batch) {
  for (const auto& [name, number] : {std::pair("jobs", batch.jobs), {"most", batch.most}}) {
    if (number < 0 || number > kMostOfABatch) return fmt::format("{} {} is no number of them", name, number);
  }
  if (!std::isfinite(batch.stay) || batch.stay < 0) return fmt::format("stay {} s is no time", batch.stay);
  return {};
}

Error error_of(const record::UnitFailure& failure) {
  Error error = make_error(unit_error_code(failure.code), "on {}: {}", failure.place.node, failure.message);
  error.hint = failure.hint;
  return error;
}

record::UnitPlace this_place(const std::string& node) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  record::UnitPlace place;
  place.host = name.data();
  place.node = node.empty() ? place.host : node;
  place.processor = line_of("/proc/cpuinfo", "model name");
  place.driver = line_of("/sys/module/nvidia/version", "");
  return place;
}

std::string difference_of(const record::UnitPlace& a, const record::UnitPlace& b) {
  if (a.host != b.host) return fmt::format("host {} and {}", a.host, b.host);
  if (a.processor != b.processor) return fmt::format("processor {} and {}", a.processor, b.processor);
  if (a.driver != b.driver) return fmt::format("GPU driver {} and {}", a.driver, b.driver);
  return {};
}

}  // namespace ridge::execute
