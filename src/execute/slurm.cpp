#include "execute/slurm.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace ridge::execute {
namespace {

constexpr double kAnswerLimit = 60.0;  // seconds that a question to the controller may take

// Reasons of squeue for which a job waits for ever.
constexpr std::array<std::string_view, 10> kNeverStarts = {
    "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints",           "AccountNotAllowed", "QOSNotAllowed",
    "InvalidAccount",     "InvalidQOS",         "DependencyNeverSatisfied", "JobHoldMaxRequeue", "InactiveLimit"};

// What sbatch says about a request that it will never take, and the way out.
struct SbatchRefusal {
  std::string_view says, hint;
};
constexpr SbatchRefusal kSbatchRefusals[] = {
    {"nvalid partition", "`sinfo` lists the partitions: slurm:partition=NAME"},
    {"Invalid account", "`sacctmgr show associations user=$USER` lists yours: slurm:account=NAME"},
    {"Invalid qos", "slurm:qos=NAME names another one"},
    {"Invalid generic resource", "`sinfo -o %G` lists what the nodes have: slurm:gres=gpu:1"},
    {"Requested node configuration is not available", "no node has all of it: `sinfo -Nl -o '%N %c %m %f %G'`"},
    {"Requested time limit is invalid", "slurm:time=MINUTES, at most the partition's limit (`sinfo -o '%P %l'`)"},
    {"Invalid feature specification", "`sinfo -o %f` lists the features: slurm:constraint=NAME"},
    {"Invalid node name", "the machine that the campaign measures on is not in this cluster"}};

// What a program of Slurm complains about, its lines after each other and without its own name before each.
std::string complaint_of(const ProcessResult& ended) {
  std::string text;
  for (const std::string& line : split(ended.error_output, '\n')) {
    const std::size_t mark = line.find("error: ");
    const std::string_view said = trimmed(std::string_view(line).substr(mark == std::string::npos ? 0 : mark + 7));
    if (!said.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", said);
  }
  return text.empty() ? ended.describe() : text.substr(0, 500);
}

Result<std::string> ask_slurm(std::vector<std::string> argv, std::string input = {}) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.standard_input = std::move(input);
  spec.timeout = kAnswerLimit;
  spec.output_limit_bytes = 64u << 20;
  RIDGE_TRY(ended, run_process(spec));
  if (ended.succeeded()) return std::move(ended.output);
  const bool silent = ended.end == ProcessResult::End::kTimedOut || is_unreachable(ended.error_output);
  Error error = make_error(silent ? ErrorCode::kTimeout : ErrorCode::kInvalidArgument, "{}: {}", spec.argv[0],
                           complaint_of(ended));
  for (const SbatchRefusal& one : kSbatchRefusals) {
    if (ended.error_output.find(one.says) != std::string::npos) error.hint = one.hint;
  }
  return error;
}

// "%N" of a waiting job is empty, and that of an array task names one node: units have one each.
ClusterJob job_of(const std::vector<std::string>& fields, std::size_t task) {
  ClusterJob job;
  job.id = std::string(trimmed(fields[0]));
  job.batch = fields[1];
  job.index = task;
  job.state = fields[2] == "RUNNING" || fields[2] == "COMPLETING" ? JobState::kRunning : JobState::kWaiting;
  job.node = fields[3];
  job.reason = fields[4] == "None" ? "" : fields[4];
  job.hopeless = job.state == JobState::kWaiting &&
                 std::find(kNeverStarts.begin(), kNeverStarts.end(), job.reason) != kNeverStarts.end();
  return job;
}

std::string field_of(std::string_view line, std::string_view name) {
  const std::size_t at = (" " + std::string(line)).find(fmt::format(" {}=", name));
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 1;
  return std::string(line.substr(begin, line.find_first_of(" \n", begin) - begin));
}

class Slurm final : public Cluster {
 public:
  explicit Slurm(SlurmOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::string name() const override { return "Slurm"; }
  [[nodiscard]] std::size_t width() const override { return options_.jobs; }
  [[nodiscard]] std::size_t capacity() const override { return options_.jobs; }
  [[nodiscard]] JobSharing sharing() const override { return options_.sharing; }

  Status submit(const ClusterBatch& batch) override {
    const std::filesystem::path folder = batch.root / "batches" / batch.name;
    std::vector<std::string> argv = {"sbatch",
                                     "--parsable",
                                     "--job-name=" + batch.name,
                                     fmt::format("--array=0-{}", batch.jobs - 1),
                                     "--chdir=" + folder.string(),
                                     "--output=log-%a.txt",
                                     "--open-mode=append",
                                     "--requeue"};
    if (!batch.node.empty()) argv.push_back("--nodelist=" + batch.node);
    argv.insert(argv.end(), options_.words.begin(), options_.words.end());
    // The names of files are in the script and not in a command line of sbatch, which gives some characters a meaning.
    const std::string script =
        fmt::format("#!/bin/sh\nexec {} \"$SLURM_ARRAY_TASK_ID\" --node \"$SLURMD_NODENAME\"\n",
                    quote_command({options_.program.string(), "unit", batch.root.string(), batch.name}));
    const Result<std::string> taken = ask_slurm(std::move(argv), script);
    return taken ? ok_status() : Status(taken.error());
  }

  Result<std::vector<ClusterJob>> jobs(const std::string& prefix) override {
    RIDGE_TRY(output, ask_slurm({"squeue", "--me", "--noheader", "--array", "--format=%i|%j|%T|%N|%r"}));
    return parse_squeue(output, prefix);
  }

  Status cancel(const std::vector<std::string>& ids) override {
    std::vector<std::string> argv = {"scancel", "--quiet"};
    argv.insert(argv.end(), ids.begin(), ids.end());
    const Result<std::string> done = ask_slurm(std::move(argv));
    return done ? ok_status() : Status(done.error());
  }

  JobFate fate(const std::string& id) override {
    const Result<std::string> output = ask_slurm({"scontrol", "--oneliner", "show", "job", id});
    if (!output) return {"the controller does not know it any more", false, {}};
    return parse_fate(*output);
  }

 private:
  SlurmOptions options_;
};

}  // namespace

bool is_unreachable(std::string_view message) {
  constexpr std::string_view kSigns[] = {"Unable to contact slurm controller",
                                         "Socket timed out",
                                         "Connection refused",
                                         "Zero Bytes were transmitted",
                                         "Slurm backup controller in standby",
                                         "Unable to establish",
                                         "Transport endpoint",
                                         "Resource temporarily unavailable"};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](std::string_view sign) { return message.find(sign) != std::string_view::npos; });
}

std::vector<ClusterJob> parse_squeue(std::string_view output, std::string_view prefix) {
  std::vector<ClusterJob> jobs;
  for (const std::string& line : split(output, '\n')) {
    const std::vector<std::string> fields = split(line, '|');
    if (fields.size() != 5 || !fields[1].starts_with(prefix)) continue;
    const std::size_t mark = fields[0].find('_');
    if (mark == std::string::npos) continue;
    std::size_t task = 0;
    const char* const end = fields[0].data() + fields[0].size();
    if (std::from_chars(fields[0].data() + mark + 1, end, task).ec != std::errc()) continue;
    jobs.push_back(job_of(fields, task));
  }
  return jobs;
}

JobFate parse_fate(std::string_view output) {
  const std::string state = field_of(output, "JobState"), code = field_of(output, "ExitCode");
  const std::string node = field_of(output, "NodeList");
  JobFate fate;
  fate.text = fmt::format("{}, exit code {}", state.empty() ? "state unknown" : state, code);
  if (state == "TIMEOUT" || state == "DEADLINE") {
    fate.for_good = true;
    fate.hint = "Slurm's own limit ended it: slurm:time=MINUTES raises it";
  } else if (state == "OUT_OF_MEMORY") {
    fate.for_good = true;
    fate.hint = "slurm:mem=SIZE asks for more memory";
  } else if (code == "127:0" || code == "126:0") {
    fate.for_good = true;
    fate.hint = fmt::format("ridge is not there on {}: slurm:ridge=PATH names it", node);
  } else if (code == "3:0") {
    fate.for_good = true;
    fate.hint = fmt::format("the folder of the units is not shared with {}: slurm:folder=DIR names one that is", node);
  } else if (code == "5:0" || code == "0:53") {
    fate.hint = fmt::format("{} could not write into the folder of the units: is its disk full?", node);
  }
  return fate;
}

Result<std::unique_ptr<Cluster>> make_slurm(SlurmOptions options) {
  for (const char* program : {"sbatch", "squeue", "scancel", "scontrol"}) {
    if (!find_program(program).empty()) continue;
    return with_hint(make_error(ErrorCode::kUnsupported, "there is no {} on the path: Slurm is not here", program),
                     "run it on a machine that submits to the cluster, or measure elsewhere: local, ssh:HOST");
  }
  return std::unique_ptr<Cluster>(std::make_unique<Slurm>(std::move(options)));
}

}  // namespace ridge::execute
