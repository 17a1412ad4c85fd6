#include "execute/make_executor.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "execute/local.h"
#include "execute/local_pool.h"
#include "execute/scripted.h"
#include "execute/slurm.h"
#include "execute/ssh.h"
#include "execute/unit_queue.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kForms =
    "local, local:GPU[,GPU...], slurm[:partition=NAME,gres=gpu:1,...], ssh:HOST[,HOST...] or scripted:FILE";

// What follows the colon: words, and NAME=VALUE.
struct SpecWords {
  std::vector<std::string> plain;
  std::map<std::string, std::string> named;

  std::string take(const std::string& name) {
    const auto found = named.find(name);
    if (found == named.end()) return {};
    std::string value = std::move(found->second);
    named.erase(found);
    return value;
  }
};

std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == ',') {
      words.back() += text[++i];
    } else if (text[i] == ',') {
      words.emplace_back();
    } else {
      words.back() += text[i];
    }
  }
  return words;
}

Result<SpecWords> words_of(std::string_view text) {
  SpecWords words;
  if (text.empty()) return words;
  for (const std::string& word : split_at_commas(text)) {
    const std::size_t equals = word.find('=');
    if (word.empty() || equals == 0) return invalid("\"{}\" has an empty option", text);
    if (equals == std::string::npos) {
      words.plain.push_back(word);
    } else if (!words.named.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
      return invalid("\"{}\" states {} twice", text, word.substr(0, equals));
    }
  }
  return words;
}

// What was not understood.
Status nothing_left(const SpecWords& words, std::string_view kind, std::string_view options) {
  const std::string word = !words.plain.empty()   ? words.plain.front()
                           : !words.named.empty() ? words.named.begin()->first
                                                  : std::string();
  if (word.empty()) return ok_status();
  return with_hint(invalid("{} has no option \"{}\"", kind, word), fmt::format("its options are {}", options));
}

// How many units at once an option states; without it, one.
Result<std::size_t> units_at_once(std::string_view option, const std::string& text, std::size_t most) {
  if (text.empty()) return std::size_t{1};
  std::size_t units = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), units);
  if (problem != std::errc() || end != text.data() + text.size() || units < 1 || units > most)
    return invalid("{}={}: 1 to {} units at once are possible", option, text, most);
  return units;
}

// Of the units that may share a job: those of `pack`, or as many as a job finds in the time for which it stays: half of
// what Slurm gives it, so that the last one has the other half.
constexpr double kStay = 600.0;  // seconds; below the limits that partitions have
constexpr std::size_t kMostOfAJob = 1000;
Result<JobSharing> sharing_of(const std::string& pack, const std::string& time) {
  JobSharing sharing{0, kStay};
  std::int64_t minutes = 0;
  const auto [end, problem] = std::from_chars(time.data(), time.data() + time.size(), minutes);
  if (problem == std::errc() && end == time.data() + time.size() && minutes > 0)
    sharing.stay = std::min(kStay, 30.0 * static_cast<double>(minutes));
  if (pack.empty()) return sharing;
  const auto [rest, wrong] = std::from_chars(pack.data(), pack.data() + pack.size(), sharing.most);
  if (wrong != std::errc() || rest != pack.data() + pack.size() || sharing.most < 1 || sharing.most > kMostOfAJob) {
    return with_hint(invalid("pack={}: a job takes 1 to {} units, one after the other", pack, kMostOfAJob),
                     "pack=1 gives every unit a job of its own; without it a job takes units for ten minutes");
  }
  return sharing;
}

// A made executor, or only the certainty that its name can be used: `setting` is null then. In any case the requests
// that it works on at once.
using Made = Result<std::unique_ptr<Executor>>;
struct Making {
  Clock& clock;
  const ExecutorSetting* setting = nullptr;
  std::size_t width = 1;
};
using MakeKind = Made (*)(std::string_view text, SpecWords words, Making& making);

QueueOptions queue_of(const ExecutorSetting& setting, const std::string& folder) {
  QueueOptions queue;
  const fs::path base = folder.empty() ? setting.cache_directory / "units" : fs::path(folder);
  queue.root = fs::absolute(base) / (setting.owner.empty() ? "commands" : setting.owner);
  if (!setting.scope) queue.root /= fmt::format("ask-{:016x}", secret_seed());  // goes with the executor
  queue.version = setting.version;
  queue.who = setting.owner.empty() ? "a command" : setting.owner;
  queue.wait_for_quiet = setting.wait_for_quiet;
  queue.one_device = setting.one_device;
  queue.on_note = setting.on_note;
  return queue;
}

Made make_local(std::string_view, SpecWords words, Making& making) {
  RIDGE_TRY(devices, devices_of(std::exchange(words.plain, {})));
  RIDGE_CHECK_OK(nothing_left(words, "local", "GPUs by number, as in local:0,1"));
  making.width = std::max<std::size_t>(devices.size(), 1);
  if (making.setting == nullptr) return std::unique_ptr<Executor>();
  if (devices.empty()) return make_local_executor(making.setting->worker_program);
  return make_local_pool(making.setting->worker_program, devices);
}

Made make_scripted(std::string_view text, SpecWords, Making& making) {
  if (text.empty()) return with_hint(invalid("scripted names no file"), "scripted:FILE, a line for each answer");
  if (making.setting == nullptr) return std::unique_ptr<Executor>();
  RIDGE_TRY(script, read_file(std::string(text)));
  std::map<record::WorkerTask, std::vector<record::WorkerResponse>> answers;
  for (const std::string& line : split(script, '\n')) {
    if (trimmed(line).empty()) continue;
    RIDGE_TRY(answer, record::parse_record<record::ScriptedAnswer>(line, std::string(text)));
    answers[answer.task].push_back(std::move(answer.response));
  }
  auto executor = std::make_unique<ScriptedExecutor>();
  for (auto& [task, list] : answers) {
    executor->on(task, [list = std::move(list), next = std::size_t{0}](const record::WorkerRequest&) mutable {
      return Result<record::WorkerResponse>(list[std::min(next++, list.size() - 1)]);  // the last one repeats
    });
  }
  return std::unique_ptr<Executor>(std::move(executor));
}

// Options of slurm that are words of sbatch.
struct SbatchWord {
  const char *option, *flag;
};
constexpr SbatchWord kSbatchWords[] = {
    {"partition", "--partition"}, {"account", "--account"},    {"qos", "--qos"}, {"constraint", "--constraint"},
    {"gres", "--gres"},           {"time", "--time"},          {"mem", "--mem"}, {"cpus", "--cpus-per-task"},
    {"nodelist", "--nodelist"},   {"container", "--container"}};

Made make_slurm_kind(std::string_view, SpecWords words, Making& making) {
  SlurmOptions options;
  const auto time = words.named.find("time");
  RIDGE_TRY(sharing, sharing_of(words.take("pack"), time == words.named.end() ? std::string() : time->second));
  options.sharing = sharing;
  for (const SbatchWord& one : kSbatchWords) {
    if (std::string value = words.take(one.option); !value.empty())
      options.words.push_back(fmt::format("{}={}", one.flag, value));
  }
  if (std::erase(words.plain, "exclusive") > 0) options.words.emplace_back("--exclusive");
  const std::string folder = words.take("folder"), program = words.take("ridge");
  RIDGE_TRY(jobs, units_at_once("jobs", words.take("jobs"), 1000));
  options.jobs = making.width = jobs;
  RIDGE_CHECK_OK(nothing_left(words, "slurm",
                              "partition, account, qos, constraint, gres, time (minutes), mem, cpus, nodelist, "
                              "container, exclusive, jobs, pack, folder and ridge"));
  const ExecutorSetting* const setting = making.setting;
  if (setting == nullptr) return std::unique_ptr<Executor>();
  options.program = program.empty() ? setting->ridge_program : fs::path(program);
  RIDGE_TRY(cluster, make_slurm(std::move(options)));
  return make_cluster_executor(std::move(cluster), making.clock,
                               {queue_of(*setting, folder), setting->scope, setting->pause});
}

Made make_ssh_kind(std::string_view text, SpecWords words, Making& making) {
  SshOptions options;
  options.hosts = std::exchange(words.plain, {});
  if (options.hosts.empty()) return with_hint(invalid("ssh:{} names no machine", text), "ssh:HOST[,HOST...]");
  options.folder = words.take("folder");
  options.config = words.take("config");
  if (std::string program = words.take("ridge"); !program.empty()) options.program = std::move(program);
  RIDGE_TRY(slots, units_at_once("slots", words.take("slots"), 256));
  options.slots = slots;
  RIDGE_CHECK_OK(nothing_left(words, "ssh", "folder, ridge, config and slots"));
  making.width = options.hosts.size() * slots;
  const ExecutorSetting* const setting = making.setting;
  if (setting == nullptr) return std::unique_ptr<Executor>();
  QueueOptions queue = queue_of(*setting, {});
  if (options.folder.empty()) options.folder = ".cache/ridge/units";
  options.folder += "/" + queue.root.filename().string();
  options.temporary = !setting->scope;
  RIDGE_TRY(cluster, make_ssh(std::move(options), queue.root));
  return make_cluster_executor(std::move(cluster), making.clock, {std::move(queue), setting->scope, setting->pause});
}

struct ExecutorKind {
  std::string_view name;
  MakeKind make;
};
constexpr ExecutorKind kKinds[] = {
    {"local", make_local}, {"slurm", make_slurm_kind}, {"ssh", make_ssh_kind}, {"scripted", make_scripted}};

Made make_kind(std::string_view spec, Making& making) {
  const std::size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  const std::string_view text = colon == std::string_view::npos ? std::string_view() : spec.substr(colon + 1);
  for (const ExecutorKind& kind : kKinds) {
    if (kind.name != name) continue;
    RIDGE_TRY(words, name == "scripted" ? Result<SpecWords>(SpecWords{}) : words_of(text));
    return kind.make(text, std::move(words), making);
  }
  return with_hint(invalid("\"{}\" is no place to run", spec), fmt::format("possible: {}", kForms));
}

}  // namespace

Made make_executor(std::string_view spec, Clock& clock, const ExecutorSetting& setting) {
  Making making{clock, &setting};
  return make_kind(spec, making);
}

Status check_executor(std::string_view spec) {
  const Result<std::size_t> known = width_of(spec);
  return known ? ok_status() : Status(known.error());
}

Result<std::size_t> width_of(std::string_view spec) {
  SystemClock clock;
  Making making{clock};
  const Made made = make_kind(spec, making);
  if (!made) return made.error();
  return making.width;
}

bool is_local(std::string_view spec) { return is_default(spec) || spec.starts_with("local:"); }

bool has_fixed_devices(std::string_view spec) { return is_local(spec) || spec.starts_with("ssh:"); }

bool is_default(std::string_view spec) { return spec.empty() || spec == "local"; }

}  // namespace ridge::execute
