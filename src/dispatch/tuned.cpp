#include "dispatch/tuned.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <sstream>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "dispatch/probe.h"
#include "record/tuned_folder.h"

namespace ridge::dispatch {
namespace {

namespace fs = std::filesystem;

std::int64_t bucket(std::int64_t size) {
  if (size < 3) return size;
  std::int64_t power = 1;
  while (power <= size / 2) power *= 2;
  // Between powers of two p and 2p lies 1.5 p; the borders are the geometric means.
  const double relative = static_cast<double>(size) / static_cast<double>(power);
  if (relative < std::sqrt(1.5)) return power;
  return relative < std::sqrt(3.0) ? power + power / 2 : 2 * power;
}

std::string key_of(const std::string& device, const record::Case& bucket) { return device + "\n" + bucket.text(); }

std::vector<fs::path> table_folders() {
  std::vector<fs::path> folders = places_in("RIDGE_TUNED_DIR");
  folders.push_back(record::tuned_folder(default_cache_directory()));
  return folders;
}

constexpr std::string_view kBetweenVersions = "; ";

// "cuda_cublaslt 130100": where a library lies is no version of it.
std::string version_of(const ops::Implementation& one) {
  std::string text = one.name;
  std::istringstream words(one.version ? one.version() : std::string());
  for (std::string word; words >> word;) {
    if (word.find('/') == std::string::npos) text += " " + word;
  }
  return text;
}

// Whether the line was measured with the version of its implementation that there is now.
bool version_holds(const record::TunedChoice& choice, const ops::Operator& op) {
  const auto one = ops::find_implementation(op, choice.implementation);
  if (!one) return false;
  const std::string_view listed = choice.libraries;
  const std::string now = version_of(**one);
  for (std::size_t at = 0; at < listed.size();) {
    const std::size_t end = std::min(listed.find(kBetweenVersions, at), listed.size());
    if (listed.substr(at, end - at) == now) return true;
    at = end + kBetweenVersions.size();
  }
  return false;
}

// For explain(): what the line says of its measurement, and whether things have changed since.
std::string note_of(const record::TunedChoice& choice, const ops::DeviceInfo& device) {
  std::string note;
  if (choice.latency > 0) note = fmt::format("{:.4g} us a call when tuned", 1e6 * choice.latency);
  if (choice.ratio > 1) {
    note += fmt::format("{}{:.3f} times as fast as {}", note.empty() ? "" : ", ", choice.ratio, choice.over);
  }
  if (choice.driver != device.driver) {
    note += fmt::format("{}under driver {}, now {}", note.empty() ? "" : "; ",
                        choice.driver.empty() ? "unknown" : choice.driver, device.driver);
  }
  if (!choice.limits.empty()) note += fmt::format("{}at {}", note.empty() ? "" : "; ", choice.limits);
  return note;
}

// What probes found, once per process, implementation and bucket.
class Probes {
 public:
  std::optional<std::string> wrong(const ops::Operator& op, const ops::Implementation& one, const ops::Problem& problem,
                                   const std::string& bucket) {
    // Memory of a GPU is not compared here: what was tuned there was checked when it was measured.
    if (one.backend != Backend::kCpu) return std::nullopt;
    const std::scoped_lock lock(mutex_);
    const auto [at, fresh] = known_.try_emplace(one.name + "\n" + bucket);
    if (fresh) at->second = probe(op, one, problem, Stream::cpu());
    return at->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::optional<std::string>> known_;
};

}  // namespace

record::Case bucket_of(const ops::Operator& op, const ops::Problem& problem) {
  record::Case rounded = problem.problem_case;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (op.params[i].of_content)
      std::erase_if(rounded.params, [&](const record::Param& one) { return one.name == op.params[i].name; });
    if (op.params[i].kind != record::ParamKind::kWhole) continue;
    rounded.set(op.params[i].name, std::to_string(bucket(problem.values[i])));
  }
  return rounded;
}

std::string library_versions(const ops::Operator& op, Backend backend) {
  std::string versions;
  for (const ops::Implementation& one : op.implementations) {
    if (one.backend != backend) continue;
    if (!versions.empty()) versions += kBetweenVersions;
    versions += version_of(one);
  }
  return versions;
}

bool is_fresh(const record::TunedChoice& choice, const ops::Operator& op, const ops::DeviceInfo& device,
              std::string_view limits) {
  return choice.libraries == library_versions(op, device.backend) && choice.driver == device.driver &&
         choice.limits == limits;
}

void TunedTable::add(record::TunedChoice choice) {
  std::string key = key_of(choice.device, choice.bucket);
  choices_.insert_or_assign(std::move(key), std::move(choice));
}

Status TunedTable::add_files(std::span<const EmbeddedFile> files) {
  for (const EmbeddedFile& file : files) {
    if (!file.path.ends_with(".jsonl")) continue;
    RIDGE_TRY(choices, record::parse_tuned(file.text, file.path));
    for (record::TunedChoice& choice : choices) add(std::move(choice));
  }
  return ok_status();
}

Status TunedTable::add_folder(const fs::path& folder) {
  std::error_code missing;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    RIDGE_TRY(text, read_file(file));
    RIDGE_TRY(choices, record::parse_tuned(text, file.string()));
    for (record::TunedChoice& choice : choices) add(std::move(choice));
  }
  return ok_status();
}

const record::TunedChoice* TunedTable::find(const ops::Operator& op, const ops::Problem& problem,
                                            const ops::DeviceInfo& device) const {
  const auto found = choices_.find(key_of(device.name, bucket_of(op, problem)));
  if (found == choices_.end() || !version_holds(found->second, op)) return nullptr;
  return &found->second;
}

namespace {

Preference read_tables() {
  auto table = std::make_shared<TunedTable>();
  if (const Status read = table->add_files(shipped_tables()); !read)
    warn_once("tuned table left out: " + read.error().text());
  for (const fs::path& folder : table_folders()) {
    if (const Status read = table->add_folder(folder); !read) warn_once("tuned table left out: " + read.error().text());
  }
  return preference_of(std::move(table));
}

// What the tables of this machine prefer, once they are read.
struct Installed {
  std::mutex mutex;
  Preference preference;
};

Installed& installed() {
  static Installed* const instance = new Installed;  // never deleted: calls may come during static destruction
  return *instance;
}

}  // namespace

const TunedTable& shipped_table() {
  static const TunedTable* const table = [] {
    auto* read = new TunedTable;  // never deleted: calls may come during static destruction
    static_cast<void>(read->add_files(shipped_tables()));
    return read;
  }();
  return *table;
}

Preference preference_of(std::shared_ptr<const TunedTable> table) {
  return [table = std::move(table), probes = std::make_shared<Probes>()](const ops::Problem& problem,
                                                                         const ops::DeviceInfo& device) -> Preferred {
    if (table->size() == 0) return {};
    const auto op = ops::find_operator(problem.problem_case.op);
    const record::TunedChoice* choice = op ? table->find(**op, problem, device) : nullptr;
    if (choice == nullptr) return {};
    const auto one = ops::find_implementation(**op, choice->implementation);
    Preferred answer(choice->implementation);
    answer.note = note_of(*choice, device);
    if (!choice->configuration.empty()) answer.implementation += "/" + choice->configuration;
    if (!one || ops::why_not(**one, problem, device)) return answer;  // the walk says why it cannot
    if (const auto wrong = probes->wrong(**op, **one, problem, choice->bucket.text())) {
      answer.refused = "tuned, but refused: its results leave the error model: " + *wrong;
    }
    return answer;
  };
}

Preference installed_preference() {
  const std::scoped_lock lock(installed().mutex);
  Preference& known = installed().preference;
  if (!known) known = read_tables();
  return known;
}

void read_installed_again() {
  const std::scoped_lock lock(installed().mutex);
  installed().preference = {};
}

Result<int> remove_kept_tables() { return record::remove_tuned(default_cache_directory()); }

}  // namespace ridge::dispatch
