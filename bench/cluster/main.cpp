// Simulates campaigns on clusters: the queue of units as the engine uses it, and its files, over a scripted cluster
// under a virtual clock. Prints one line of CSV for each scenario.
//
//   bench_cluster [--quick]      files go below TMPDIR; /dev/shm makes it a matter of minutes
//   bench_cluster --shared       short units: a job for each, and jobs that share them
//   bench_cluster --slurm FOLDER RIDGE VERSION     the processor time of the engine for a unit on the Slurm of this
//   machine
//   bench_cluster --builds FOLDER RIDGE VERSION SOURCE     builds of a kernel for gemm as its jobs, over builds beside
//   us
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "execute/make_executor.h"
#include "execute/scripted.h"
#include "execute/scripted_cluster.h"
#include "execute/slurm.h"
#include "execute/unit_queue.h"

namespace {

using namespace ridge;
using execute::QueueOptions;
using execute::ScriptedScheduler;
using execute::UnitQueue;

struct Scenario {
  std::size_t nodes = 1000, units = 100000, in_flight = 2000;
  double mean_seconds = 300;
  double failures_per_hour = 0.01;
  bool requeue = true;
  bool shared = false;  // jobs as many as nodes, which take one unit after the other
};

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Exponential, from the digest that names the unit: the same in every run.
double duration_of(const std::string& key, double mean) {
  const double uniform = (static_cast<double>(std::stoull(key.substr(0, 12), nullptr, 16)) + 0.5) * 0x1p-48;
  return -mean * std::log(uniform);
}

// Answers at once: what a unit computes is no part of the simulation.
class Instant final : public execute::Executor {
 public:
  Result<record::WorkerResponse> run(const record::WorkerRequest&, const execute::OnProgress&,
                                     const execute::ShouldStop&) override {
    return record::WorkerResponse{};
  }
};

// The processes on the nodes, by batch and number of their jobs.
class Processes {
 public:
  explicit Processes(Clock& clock) : clock_(clock) {}
  std::optional<std::string> take(const std::filesystem::path& root, const std::string& batch, std::size_t number,
                                  const std::string& node, bool first) {
    std::unique_ptr<Process>& there = there_[{batch, number}];
    if (first) {
      there = std::make_unique<Process>(host_on(root, node));
      auto job = execute::UnitJob::open(root, batch, number, there->host);
      if (!job) std::exit(5);
      there->job = std::move(*job);
    }
    auto key = there->job->take();
    if (!key) std::exit(5);
    if (!*key) there_.erase({batch, number});
    return *key;
  }
  Status work(const std::string& batch, std::size_t number) { return there_.at({batch, number})->job->work(); }
  execute::UnitHost host_on(const std::filesystem::path& root, const std::string& node) {
    return {"simulated", root, {node, node, "simulated", ""}, clock_, [](const record::UnitOrder&) {
              return std::make_unique<Instant>();
            }};
  }

 private:
  struct Process {
    explicit Process(execute::UnitHost on) : host(std::move(on)) {}
    execute::UnitHost host;
    std::optional<execute::UnitJob> job;
  };
  Clock& clock_;
  std::map<std::pair<std::string, std::size_t>, std::unique_ptr<Process>> there_;
};

struct Outcome {
  std::uint64_t results = 0, errors = 0, doubled = 0;
  double seconds = 0, until_tail = 0, busy_until_tail = 0;
  double engine_cpu = 0, simulated_cpu = 0;
};

Outcome simulate(const Scenario& scenario, ScriptedScheduler*& scheduler_out, UnitQueue*& queue_out) {
  static std::unique_ptr<ScriptedScheduler> scheduler;
  static std::unique_ptr<UnitQueue> queue;
  static VirtualClock clock;
  clock = VirtualClock();
  Outcome outcome;
  const Result<TempDir> folder = TempDir::create("ridge-simulation");
  if (!folder) std::exit(5);
  double on_nodes = 0;
  execute::ScriptedClusterOptions options;
  options.nodes = scenario.nodes;
  options.failures_per_hour = scenario.failures_per_hour;
  options.requeue = scenario.requeue;
  options.duration = [&](const std::string& key) { return duration_of(key, scenario.mean_seconds); };
  Processes processes(clock);
  if (scenario.shared) {
    options.jobs = scenario.nodes;
    options.sharing = {.most = 0, .stay = 600};
    options.take = [&](const auto& root, const auto& batch, std::size_t number, const auto& node, bool first) {
      const double begun = cpu_seconds();
      auto key = processes.take(root, batch, number, node, first);
      on_nodes += cpu_seconds() - begun;
      return key;
    };
  }
  options.execute = [&](const auto& root, const auto& batch, std::size_t number, const std::string& node) {
    const double begun = cpu_seconds();
    const Status done = scenario.shared ? processes.work(batch, number)
                                        : execute::run_job(root, batch, number, processes.host_on(root, node));
    if (!done) ++outcome.errors;
    on_nodes += cpu_seconds() - begun;
  };
  queue.reset();
  scheduler = std::make_unique<ScriptedScheduler>(clock, std::move(options));
  QueueOptions queue_options;
  queue_options.root = folder->path() / "units";
  queue_options.version = "simulated";
  queue_options.most_in_flight = scenario.in_flight;
  auto opened = UnitQueue::open(scheduler->client(), clock, std::move(queue_options));
  if (!opened) std::exit(5);
  queue = std::move(*opened);
  const double begun = cpu_seconds();
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < scenario.units; ++i) {
    record::WorkerRequest request;
    request.task = record::WorkerTask::kBuild;
    request.samples = static_cast<std::int64_t>(i);
    keys.push_back(*queue->add(request, "simulation"));
  }
  std::size_t left = keys.size();
  while (left > 0) {
    if (!queue->step()) std::exit(5);
    for (const std::string& key : queue->take_ended()) {
      const auto ended = queue->take(key);
      ++(ended->result ? outcome.results : outcome.errors);
      queue->forget(key);
      --left;
    }
    // The tail, in which there are fewer units than nodes, is the end of any list of jobs.
    if (queue->waiting() == 0 && queue->in_flight() < scenario.nodes && outcome.until_tail == 0) {
      outcome.until_tail = clock.monotonic();
      outcome.busy_until_tail = scheduler->account().busy;
    }
    if (left > 0) clock.advance(queue->pause());
  }
  outcome.seconds = clock.monotonic();
  outcome.simulated_cpu = on_nodes;
  outcome.engine_cpu = cpu_seconds() - begun - on_nodes;
  outcome.doubled = outcome.results > scenario.units ? outcome.results - scenario.units : 0;
  scheduler_out = scheduler.get();
  queue_out = queue.get();
  return outcome;
}

void report(const Scenario& scenario) {
  ScriptedScheduler* scheduler = nullptr;
  UnitQueue* queue = nullptr;
  const Outcome outcome = simulate(scenario, scheduler, queue);
  const auto& account = scheduler->account();
  const auto& counts = queue->counts();
  const double nodes = static_cast<double>(scenario.nodes), units = static_cast<double>(scenario.units);
  const double work = account.busy + account.lost;
  fmt::print("{},{},{},{},{},{},{},{},{:.0f},{:.4f},{:.4f},{:.5f},{},{},{},{},{},{:.3f},{:.3f}\n", scenario.nodes,
             scenario.units, scenario.mean_seconds, scenario.failures_per_hour, scenario.requeue ? "yes" : "no",
             scenario.in_flight, outcome.results, outcome.errors, outcome.seconds,
             outcome.busy_until_tail / (nodes * std::max(outcome.until_tail, 1.0)),
             account.busy / (nodes * outcome.seconds), account.lost / work, account.failures, counts.attempts,
             counts.submissions, counts.polls, account.largest_answer, 1e3 * outcome.engine_cpu / units,
             outcome.engine_cpu / outcome.seconds);
  std::fflush(stdout);
}

void report_short_units() {
  for (const double mean : {30.0, 10.0, 3.0, 1.0}) {
    for (const bool shared : {false, true}) {
      fmt::print("{},", shared ? "shared" : "one each");
      report({.nodes = 100, .units = 10000, .in_flight = 1000, .mean_seconds = mean, .shared = shared});
    }
  }
}

double seconds_of(int who) {
  rusage used{};
  ::getrusage(who, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

// Units that ask for the list of operators: of this process and of sbatch, squeue and their like, per unit.
int on_slurm(const char* folder, const char* ridge, const char* version) {
  fmt::print("units,results,seconds,submissions,polls,engine_ms_per_unit,slurm_commands_ms_per_unit\n");
  for (const std::size_t units : {1, 10, 100, 200}) {
    auto cluster = execute::make_slurm({.program = ridge, .words = {}});
    if (!cluster) return fmt::print(stderr, "{}\n", cluster.error().text()), 3;
    SystemClock clock;
    QueueOptions options;
    options.root = std::filesystem::path(folder) / fmt::format("units-{}", units);
    options.version = version;
    auto queue = UnitQueue::open(std::move(*cluster), clock, std::move(options));
    if (!queue) return fmt::print(stderr, "{}\n", queue.error().text()), 5;
    const double self = seconds_of(RUSAGE_SELF), children = seconds_of(RUSAGE_CHILDREN), begun = clock.monotonic();
    for (std::size_t i = 0; i < units; ++i) {
      record::WorkerRequest request;
      request.task = record::WorkerTask::kOperators;
      request.samples = static_cast<std::int64_t>(i);
      if (!(*queue)->add(request, "measured")) return 5;
    }
    std::size_t results = 0;
    for (std::size_t ended = 0; ended < units;) {
      if (!(*queue)->step()) return 5;
      for (const std::string& key : (*queue)->take_ended()) {
        const auto outcome = (*queue)->take(key);
        if (outcome->error) fmt::print(stderr, "{}\n", outcome->error->text());
        results += outcome->result ? 1 : 0;
        ++ended;
      }
      ::usleep(static_cast<useconds_t>(1e6 * (*queue)->pause()));
    }
    const auto& counts = (*queue)->counts();
    fmt::print("{},{},{:.1f},{},{},{:.2f},{:.2f}\n", units, results, clock.monotonic() - begun, counts.submissions,
               counts.polls, 1e3 * (seconds_of(RUSAGE_SELF) - self) / static_cast<double>(units),
               1e3 * (seconds_of(RUSAGE_CHILDREN) - children) / static_cast<double>(units));
    std::fflush(stdout);
  }
  return 0;
}

// Requests to build the same kernel under names that nothing was built for before.
std::vector<record::WorkerRequest> builds_of(const std::string& source, const std::string& cache, std::size_t count) {
  std::vector<record::WorkerRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    record::Candidate candidate;
    candidate.op = "gemm";
    candidate.name = "built";
    candidate.sources = {{"kernel.cpp", fmt::format("{}\n// {:016x}\n", source, secret_seed())}};
    record::WorkerRequest request;
    request.task = record::WorkerTask::kBuild;
    request.cases = {*record::parse_case("gemm m=64 n=64 k=64")};
    request.candidates = {std::move(candidate)};
    request.cache_directory = cache;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::size_t built(const std::vector<Result<record::WorkerResponse>>& answers) {
  return static_cast<std::size_t>(std::ranges::count_if(answers, [](const Result<record::WorkerResponse>& one) {
    return one && one->error.empty() && one->builds.size() == 1 && !one->builds[0].artifact.empty();
  }));
}

// Builds beside this process, two at a time, and as jobs of Slurm on a node of two processors: jobs that share them,
// and a job for each. In turns, three times.
int builds(const std::string& folder, const std::string& ridge, const std::string& version,
           const std::string& source_file, std::size_t count) {
  const auto source = read_file(source_file);
  if (!source) return fmt::print(stderr, "{}\n", source.error().text()), 3;
  SystemClock clock;
  execute::ExecutorSetting setting;
  setting.worker_program = std::filesystem::path(ridge).parent_path() / "ridge-worker";
  setting.ridge_program = ridge, setting.version = version;
  setting.cache_directory = folder;
  // Two devices beside us, whose numbers say nothing to a compiler.
  const std::string places[] = {"local:0,1", "slurm:jobs=1000", "slurm:jobs=2", "slurm:jobs=1000,pack=1"};
  fmt::print("where,builds,built,seconds,processor_seconds_here\n");
  for (int round = 0; round < 3; ++round) {
    for (const std::string& place : places) {
      const auto executor = execute::make_executor(place, clock, setting);
      if (!executor) return fmt::print(stderr, "{}\n", executor.error().text()), 3;
      const std::vector<record::WorkerRequest> requests = builds_of(*source, folder, count);
      const double begun = clock.monotonic(), used = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN);
      const std::vector<Result<record::WorkerResponse>> answers = (*executor)->run_all(requests);
      fmt::print("{},{},{},{:.1f},{:.1f}\n", place.find(',') == std::string::npos ? place : '"' + place + '"',
                 requests.size(), built(answers), clock.monotonic() - begun,
                 seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN) - used);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "--slurm") return on_slurm(argv[2], argv[3], argv[4]);
  if (argc == 7 && std::string_view(argv[1]) == "--builds")
    return builds(argv[2], argv[3], argv[4], argv[5], std::strtoul(argv[6], nullptr, 10));
  const bool shared = argc > 1 && std::string_view(argv[1]) == "--shared";
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  fmt::print(
      "{}nodes,units,mean_seconds,failures_per_hour,requeue,in_flight,results,errors,seconds,busy_until_tail,busy,"
      "lost_share,node_failures,attempts,submissions,polls,largest_answer,engine_ms_per_unit,engine_share\n",
      shared ? "jobs," : "");
  if (shared) return report_short_units(), 0;
  if (quick) {
    report({.nodes = 50, .units = 1000, .in_flight = 100, .mean_seconds = 60});
    return 0;
  }
  report({});
  for (const double failures : {0.0, 0.1}) report({.units = 20000, .failures_per_hour = failures});
  report({.units = 20000, .requeue = false});
  for (const std::size_t nodes : {10, 100}) report({.nodes = nodes, .units = 50 * nodes, .in_flight = 2 * nodes});
  for (const std::size_t in_flight : {1000, 1100, 4000}) report({.units = 10000, .in_flight = in_flight});
  for (const double mean : {60.0, 10.0, 3.0}) report({.units = 10000, .mean_seconds = mean});
  return 0;
}
