#include "knowledge/memory.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "knowledge/folder_lock.h"
#include "record/archive.h"
#include "record/iteration_file.h"

namespace fs = std::filesystem;

namespace ridge::knowledge {
namespace {

constexpr std::size_t kMostDirections = 3;

// "v7" to 7.
std::optional<std::int64_t> number_of(std::string_view version) {
  std::int64_t number = 0;
  if (version.size() < 2 || version.front() != 'v' || (version[1] == '0' && version.size() > 2)) return std::nullopt;
  const auto [end, failure] = std::from_chars(version.data() + 1, version.data() + version.size(), number);
  const bool digits = version[1] >= '0' && version[1] <= '9';
  return digits && failure == std::errc() && end == version.data() + version.size() ? std::optional(number)
                                                                                    : std::nullopt;
}

void check_number(std::vector<std::string>& out, const char* name, const std::optional<double>& value, double low,
                  double high) {
  if (value && !(std::isfinite(*value) && *value > low && *value <= high)) {
    out.push_back(fmt::format("{} is {}, which is not above {} and at most {}", name, *value, low, high));
  }
}

// The place "performance.latency_us" inside a record, made where it is missing.
Json* place(Json& root, std::string_view path) {
  Json* at = &root;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    if (!at->is_object()) return nullptr;
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return at;
}

Result<record::Iteration> assigned(const record::Iteration& iteration, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    return with_hint(invalid("\"{}\" is not FIELD=VALUE", assignment), "for instance performance.latency_us=12.5");
  const std::string path = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  // As JSON first; a text that happens to look like a number ("1234567" as a hash) is then tried as what it is.
  std::optional<Error> error;
  for (const Result<Json>& value : {parse_json(text), Result<Json>(Json(text))}) {
    if (!value) continue;
    Json whole = record::to_json(iteration);
    Json* at = place(whole, path);
    if (at == nullptr) return invalid("{} is inside a value that has no fields", path);
    *at = *value;
    Result<record::Iteration> changed = record::from_json<record::Iteration>(whole, iteration.version);
    if (changed) return changed;
    if (!error) error = changed.error();
  }
  return *error;
}

}  // namespace

namespace {

// Numbers that no measurement gives, and a record under another name: nothing may rest on such a record.
std::vector<std::string> impossible(const record::Iteration& it) {
  std::vector<std::string> out;
  if (!number_of(it.version)) out.push_back(fmt::format("version is \"{}\", not v<number>", it.version));
  const record::IterationPerformance& p = it.performance;
  check_number(out, "performance.latency_us", p.latency_us, 0, 1e12);
  check_number(out, "performance.tflops", p.tflops, 0, 1e6);
  check_number(out, "performance.bandwidth_gbps", p.bandwidth_gbps, 0, 1e6);
  check_number(out, "performance.compute_utilisation", p.compute_utilisation, 0, 1);
  check_number(out, "performance.memory_utilisation", p.memory_utilisation, 0, 1);
  check_number(out, "performance.speedup_over_previous", p.speedup_over_previous, 0, 1e6);
  check_number(out, "correctness.rel_err", it.correctness.rel_err, -1e-300, 1e300);
  for (const auto& [shape, latency] : p.latency_us_by_shape)
    check_number(out, ("performance.latency_us_by_shape." + shape).c_str(), latency, 0, 1e12);
  for (const record::IsaMetricProgress& m : it.isa_metric_progress) {
    if (!std::isfinite(m.target) || !std::isfinite(m.current))
      out.push_back("isa_metric_progress of " + m.metric + " is not finite");
  }
  return out;
}

}  // namespace

std::vector<std::string> problems(const record::Iteration& it) {
  std::vector<std::string> out = impossible(it);
  const record::IterationPerformance& p = it.performance;
  const bool passed = it.quality_gate.result == record::IterationStatus::kPass;
  if (passed && !p.latency_us) out.push_back("the gate passed, but there is no performance.latency_us");
  if (passed && it.correctness.status != record::IterationStatus::kPass)
    out.push_back("the gate passed, but correctness did not");
  if (!passed && it.quality_gate.failure_reason.empty())
    out.push_back("the gate did not pass, and quality_gate.failure_reason is empty");
  if (it.open_directions.size() > kMostDirections)
    out.push_back(fmt::format("{} open_directions, at most {}", it.open_directions.size(), kMostDirections));
  const std::string& hash = it.git_commit_hash;
  if (!hash.empty() &&
      (hash.size() < 4 || hash.size() > 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    out.push_back(fmt::format("git_commit_hash \"{}\" is not 4 to 64 hex digits", hash));
  }
  return out;
}

Result<record::Iteration> with_fields(record::Iteration iteration, const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) {
    RIDGE_TRY(changed, assigned(iteration, assignment));
    iteration = std::move(changed);
  }
  return iteration;
}

Result<Memory> Memory::open(const fs::path& workspace) {
  std::error_code missing;
  if (!fs::is_directory(workspace / "memory", missing)) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} has no memory", workspace.string()),
                     "ridge memory init --workspace " + workspace.string());
  }
  return Memory(workspace / "memory");
}

Result<Memory> Memory::init(const fs::path& workspace) {
  RIDGE_CHECK_OK(make_directories(workspace / "memory"));
  return Memory(workspace / "memory");
}

Result<std::vector<std::string>> Memory::versions() const {
  std::vector<std::int64_t> numbers;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory_, failed)) {
    if (entry.path().extension() != ".json") continue;
    if (const auto number = number_of(entry.path().stem().string())) numbers.push_back(*number);
  }
  if (failed) return make_error(ErrorCode::kIo, "cannot read {}: {}", directory_.string(), failed.message());
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> names;
  for (const std::int64_t number : numbers) names.push_back("v" + std::to_string(number));
  return names;
}

Result<const record::Iteration*> Memory::load(const std::string& version) const {
  struct stat now = {};
  Cached& cached = cache_[version];
  if (::stat(file(version).c_str(), &now) == 0 && cached.inode == now.st_ino && cached.size == now.st_size &&
      cached.seconds == now.st_mtim.tv_sec && cached.nanoseconds == now.st_mtim.tv_nsec)
    return &cached.iteration;
  const Result<std::string> text = read_file(file(version));
  if (!text && text.error().code == ErrorCode::kNotFound)
    return with_hint(make_error(ErrorCode::kNotFound, "there is no {}", version),
                     "ridge memory summary lists the versions");
  if (!text) return with_hint(text.error(), "move it out of the memory folder");
  auto iteration = record::read_iteration(*text, version + ".json");
  if (!iteration) return in_context(version + ".json", iteration.error());
  cached = {now.st_ino, now.st_size, now.st_mtim.tv_sec, now.st_mtim.tv_nsec, std::move(*iteration)};
  return &cached.iteration;
}

Result<std::vector<const record::Iteration*>> Memory::sound(bool with_masked) const {
  RIDGE_TRY(names, versions());
  std::vector<const record::Iteration*> found;
  for (const std::string& name : names) {
    if (!fault_of(name).empty()) continue;
    RIDGE_TRY(iteration, load(name));
    if (with_masked || !iteration->masked) found.push_back(iteration);
  }
  return found;
}

Result<std::vector<record::Iteration>> Memory::list(bool with_masked) const {
  RIDGE_TRY(all, sound(with_masked));
  std::vector<record::Iteration> found;
  found.reserve(all.size());
  for (const record::Iteration* one : all) found.push_back(*one);
  return found;
}

std::string Memory::fault_of(const std::string& version) const {
  const Result<const record::Iteration*> loaded = load(version);
  if (!loaded) return loaded.error().message;
  const record::Iteration& iteration = **loaded;
  if (iteration.version != version) return fmt::format("{}.json: says it is {}", version, iteration.version);
  const std::vector<std::string> wrong = impossible(iteration);
  return wrong.empty() ? std::string() : fmt::format("{}.json: {}", version, fmt::join(wrong, "; "));
}

Result<std::vector<std::string>> Memory::set_aside() const {
  RIDGE_TRY(names, versions());
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    if (std::string fault = fault_of(name); !fault.empty()) reasons.push_back(std::move(fault));
  }
  return reasons;
}

Result<std::string> Memory::text(const std::string& version, bool with_masked) const {
  RIDGE_TRY(iteration, read(version, with_masked));
  RIDGE_TRY(original, read_file(file(version)));
  return record::iteration_text(iteration, original);
}

Result<record::Iteration> Memory::read(const std::string& version, bool with_masked) const {
  if (!number_of(version)) return invalid("\"{}\" is not a version such as v3", version);
  RIDGE_TRY(iteration, load(version));
  if (iteration->masked && !with_masked) {
    return with_hint(make_error(ErrorCode::kConflict, "{} is masked", version),
                     "ridge memory unmask " + version + ", or read it with --masked");
  }
  return *iteration;
}

Result<std::string> Memory::next_version() const {
  RIDGE_TRY(names, versions());
  return names.empty() ? std::string("v0") : "v" + std::to_string(*number_of(names.back()) + 1);
}

Status Memory::store(const record::Iteration& iteration, std::string_view original) const {
  const std::vector<std::string> wrong = problems(iteration);
  if (!wrong.empty()) return invalid("{}: {}", iteration.version, fmt::join(wrong, "; "));
  std::error_code missing;
  if (original.empty() && fs::exists(file(iteration.version), missing)) {
    RIDGE_TRY(before, read_file(file(iteration.version)));
    return write_file_durably(file(iteration.version), record::iteration_text(iteration, before));
  }
  return write_file_durably(file(iteration.version), record::iteration_text(iteration, original));
}

Result<record::Iteration> Memory::create(record::Iteration iteration, Clock& clock, std::string_view original) const {
  RIDGE_TRY(lock, FolderLock::take(directory_));
  if (iteration.version.empty()) {
    RIDGE_TRY(next, next_version());
    iteration.version = next;
  }
  std::error_code missing;
  if (fs::exists(file(iteration.version), missing))
    return make_error(ErrorCode::kConflict, "{} exists already", iteration.version);
  if (iteration.timestamp.empty()) iteration.timestamp = format_minute(clock.unix_time());
  RIDGE_CHECK_OK(store(iteration, original));
  return iteration;
}

Result<record::Iteration> Memory::update(const std::string& version,
                                         const std::vector<std::string>& assignments) const {
  RIDGE_TRY(lock, FolderLock::take(directory_));
  RIDGE_TRY(old, read(version));
  RIDGE_TRY(iteration, with_fields(std::move(old), assignments));
  if (iteration.version != version)
    return invalid("the version of a record is the name of its file: {} stays", version);
  if (iteration.masked) return invalid("mask a record with ridge memory mask, which protects v0 and the best");
  RIDGE_CHECK_OK(store(iteration));
  return iteration;
}

Result<std::string> Memory::best() const {
  RIDGE_TRY(all, sound(false));
  const record::Iteration* best = nullptr;
  for (const record::Iteration* it : all) {
    if (it->quality_gate.result != record::IterationStatus::kPass || !it->performance.latency_us) continue;
    if (best == nullptr || *it->performance.latency_us < *best->performance.latency_us) best = it;
  }
  return best == nullptr ? std::string() : best->version;
}

Status Memory::set_masked(const std::string& version, bool masked) const {
  RIDGE_TRY(lock, FolderLock::take(directory_));
  RIDGE_TRY(iteration, read(version, true));
  RIDGE_TRY(best_version, best());
  if (masked && version == "v0") return make_error(ErrorCode::kConflict, "v0 is the baseline and is never masked");
  if (masked && version == best_version)
    return make_error(ErrorCode::kConflict, "{} is the best version and is never masked", version);
  iteration.masked = masked;
  return store(iteration);
}

Status Memory::locked(const std::function<Status()>& work) const {
  RIDGE_TRY(lock, FolderLock::take(directory_));
  return work();
}

Result<record::MemoryRestart> Memory::restart(std::int64_t seed, Clock& clock) const {
  RIDGE_TRY(lock, FolderLock::take(directory_));
  RIDGE_TRY(all, list());
  record::MemoryRestart entry;
  RIDGE_TRY(best_version, best());
  RIDGE_TRY(next, next_version());
  entry.timestamp = format_minute(clock.unix_time());
  entry.seed = seed;
  entry.best = best_version;
  entry.next_version = next;
  // Each version draws its place by seed and name alone, so that the choice can be made again.
  std::vector<std::pair<std::string, record::Iteration*>> drawn;
  for (record::Iteration& it : all) {
    if (it.version == "v0" || it.version == best_version) {
      entry.kept.push_back(it.version);
    } else {
      drawn.emplace_back(sha256(fmt::format("{}:{}", seed, it.version)), &it);
    }
  }
  std::sort(drawn.begin(), drawn.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::size_t half = std::min(drawn.size(), (all.size() + 1) / 2);
  for (std::size_t i = 0; i < drawn.size(); ++i)
    (i < half ? entry.masked : entry.kept).push_back(drawn[i].second->version);
  const Result<std::string> old = read_file(directory_ / "restarts.jsonl");
  RIDGE_CHECK_OK(
      write_file_durably(directory_ / "restarts.jsonl", (old ? *old : std::string()) + record::to_line(entry) + "\n"));
  for (std::size_t i = 0; i < half; ++i) {
    drawn[i].second->masked = true;
    RIDGE_CHECK_OK(store(*drawn[i].second));
  }
  return entry;
}

Result<std::vector<std::string>> Memory::validate() const {
  std::vector<std::string> out;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    const std::string name = path.filename().string(), version = path.stem().string();
    if (!number_of(version)) {
      out.push_back(name + ": not named v<number>.json; no reader looks at it");
      continue;
    }
    const Result<const record::Iteration*> loaded = load(version);
    if (!loaded) {
      out.push_back(loaded.error().message);
      continue;
    }
    const record::Iteration& iteration = **loaded;
    if (iteration.version != version) out.push_back(fmt::format("{}: says it is {}", name, iteration.version));
    for (const std::string& problem : problems(iteration)) out.push_back(name + ": " + problem);
  }
  return out;
}

}  // namespace ridge::knowledge
