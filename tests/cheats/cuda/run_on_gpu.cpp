// Runs the corpus of CUDA candidates on this machine's GPU: every cheat must be caught by its gate, every honest kernel
// must pass, and with a defence switched off the cheat that proves it must slip through. Of the gates that watch the
// instrument itself the cheat is a broken instrument: caches not displaced, clocks that report another span.
//
//   cuda_cheats FOLDER CACHE [--csv FILE] [--only NAME]... [--no-mutants] [--in-process]
//
// Exit status 77 where there is no GPU. --in-process runs plain calls of the items named by --only in this very
// process, for compute-sanitizer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "evaluate/cuda/build_apart.h"
#include "evaluate/cuda/check.h"
#include "evaluate/cuda/program.h"
#include "evaluate/host_fork.h"
#include "items.h"

namespace {

using namespace ridge;
using cheats::CudaItem;
using evaluate::Defences;
using evaluate::Failure;
using record::Defence;
using record::Outcome;
namespace gpu = evaluate::cuda;

struct Options {
  std::filesystem::path folder, cache, csv;
  std::vector<std::string> only;
  bool mutants = true, in_process = false;
};

struct Built {
  std::shared_ptr<const gpu::Program> program;
  std::string error;
};

std::vector<Built> build_all(const std::vector<CudaItem>& items, const std::string& arch,
                             const toolchain::BuildOptions& options) {
  std::vector<gpu::DeviceJob> jobs;
  for (const CudaItem& item : items) jobs.push_back({&item.candidate, {}, {}});
  auto builds = gpu::build_apart(jobs, arch, options);
  if (!builds) {
    fmt::print(stderr, "{}\n", builds.error().text());
    std::exit(1);
  }
  std::vector<Built> all(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto plan = record::launch_plan(items[i].candidate);
    all[i].error = !plan ? plan.error().text() : (*builds)[i].error;
    if (!all[i].error.empty()) continue;
    all[i].program =
        std::make_shared<gpu::Program>(gpu::Program{(*builds)[i].cubin, *plan, items[i].candidate.defines});
  }
  return all;
}

// What became of an item, in a form that travels.
struct Found {
  Outcome outcome = Outcome::kPass;
  Defence gate = Defence::kNone;
  char detail[512] = {};
  std::int64_t calls = 0;
  double seconds = 0, latency = 0, hit_fraction = 0;

  void fail(Outcome what, Defence which, const std::string& text) {
    outcome = what;
    gate = which;
    const std::size_t length = std::min(text.size(), sizeof detail - 1);
    std::memcpy(detail, text.data(), length);
  }
};

struct World {
  device::cuda::GpuInfo info;
  const ops::Operator* op = nullptr;
  std::shared_ptr<const gpu::CheckImages> images;
};

Found examine(const World& world, const CudaItem& item, const Built& built, const Defences& defences) {
  Found found;
  const auto start = std::chrono::steady_clock::now();
  const auto done = [&] {
    found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return found;
  };
  if (built.program == nullptr) {
    found.fail(Outcome::kCompile, Defence::kBuild, built.error);
    return done();
  }
  if (defences.on(Defence::kDeviceCalls)) {
    if (const auto call = gpu::device_call(built.program->cubin)) {
      found.fail(Outcome::kCheat, Defence::kDeviceCalls, "calls " + *call + " on the device");
      return done();
    }
  }
  record::Protocol protocol;
  protocol.call_timeout = 2.0;
  gpu::CudaMeasurementBackend measurement({protocol, defences, world.info, world.images});
  const auto problem = world.op->bind(item.problem);
  if (!problem) {
    found.fail(Outcome::kHarnessFault, Defence::kNone, problem.error().text());
    return done();
  }
  const std::vector<ops::Problem> problems = {*problem};
  evaluate::Subject subject;
  subject.name = item.name;
  subject.program = built.program;
  const std::vector<record::CheckRow> rows = gpu::check_on_gpu({.measurement = measurement,
                                                                .subject = subject,
                                                                .op = *world.op,
                                                                .problems = problems,
                                                                .seed = secret_seed(),
                                                                .deterministic = item.deterministic});
  found.calls = rows[0].verified_calls;
  if (rows[0].outcome != Outcome::kPass) {
    found.fail(rows[0].outcome, rows[0].gate, rows[0].detail);
    return done();
  }
  auto opened = measurement.open(subject, *world.op, problems);
  evaluate::Verdict verdict = opened ? evaluate::passed() : evaluate::Verdict(opened.error());
  if (opened) {
    evaluate::Launcher& launcher = **opened;
    for (std::int64_t i = 0; i < item.launches && verdict.ok(); ++i) {
      const evaluate::LaunchResult launched = launcher.launch(0, evaluate::Depth::kQuick);
      if (launched) {
        found.latency = launched->latency;
      } else {
        verdict = launched.error();
      }
    }
    if (verdict.ok()) verdict = launcher.finish();
    found.calls += launcher.verification(0).calls;
    const auto facts = launcher.facts();
    if (const auto hits = facts.find("l2_hit_fraction"); hits != facts.end()) found.hit_fraction = hits->second;
  }
  if (!verdict) found.fail(verdict.error().outcome, verdict.error().gate, verdict.error().detail);
  return done();
}

struct Job {
  const CudaItem* item;
  const Built* built;
  Defences defences;
  std::string mutant;                   // the gate that is off; empty: none
  std::string spoiled = {};             // what is wrong with the instrument
  Defence watched_by = Defence::kNone;  // the gate that must notice
  Found found = {};
  bool passed = false;
};

bool as_expected(const Job& job) {
  if (job.watched_by != Defence::kNone) {
    return job.found.outcome == Outcome::kHarnessFault && job.found.gate == job.watched_by;
  }
  if (!job.mutant.empty()) return job.found.outcome == Outcome::kPass;
  const auto contains = [](const auto& list, auto value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  if (!contains(job.item->outcomes, job.found.outcome)) return false;
  return job.item->honest || contains(job.item->shows, job.found.gate) || job.found.gate == job.item->gate;
}

// Timing does not matter for what is wrong, so these run side by side, each in a process of its own.
void run_side_by_side(const World& world, std::vector<Job>& jobs, std::size_t at_once) {
  std::vector<std::pair<std::size_t, evaluate::ForkedProcess>> running;
  std::size_t next = 0;
  while (next < jobs.size() || !running.empty()) {
    while (next < jobs.size() && running.size() < at_once) {
      Job& job = jobs[next];
      auto forked = evaluate::ForkedProcess::start([&](int socket) {
        const Found found = examine(world, *job.item, *job.built, job.defences);
        evaluate::send_message(socket, &found, sizeof found);
      });
      if (!forked) {
        job.found.fail(Outcome::kHarnessFault, Defence::kNone, forked.error().text());
        ++next;
        continue;
      }
      running.emplace_back(next++, std::move(*forked));
    }
    auto& [index, process] = running.front();
    Found found;
    if (process.receive(&found, sizeof found, 180.0) == evaluate::ForkedProcess::Received::kMessage) {
      jobs[index].found = found;
    } else {
      jobs[index].found.fail(Outcome::kHarnessFault, Defence::kNone, "the runner of this item did not answer");
    }
    running.erase(running.begin());
  }
}

int in_process(const World& world, const std::vector<CudaItem>& items, const std::vector<Built>& built) {
  int failed = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    gpu::SubjectRunnerSpec spec;
    spec.subject.name = items[i].name;
    spec.subject.program = built[i].program;
    spec.op = world.op;
    auto problem = world.op->bind(items[i].problem);
    if (!problem || built[i].program == nullptr) return 2;
    spec.problems = {*problem};
    spec.timed = false;
    spec.images = world.images;
    auto opened = gpu::DeviceSubjectRunner::open(std::move(spec));
    if (!opened) {
      fmt::print("{}: {}\n", items[i].name, opened.error().detail);
      return 2;
    }
    if (const evaluate::Verdict verdict = (*opened)->plain_call(0); !verdict) {
      fmt::print("{}: {} {}\n", items[i].name, record::name_of(verdict.error().outcome), verdict.error().detail);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

// An honest kernel under an instrument that is broken in one way: its gate must stop it, and without the gate it
// passes. The floor is seen only where the clocks are not compared, because no clock agrees with a span that short.
std::vector<Job> broken_instruments(const CudaItem& item, const Built& built) {
  Defences warm, slow, fast, forged;
  warm.displaces_caches = false;
  slow.event_scale = 1.5;
  fast.event_scale = 1e-3;
  forged.device_clock_scale = 0.1;
  struct Fault {
    const char* name;
    Defence gate;
    Defences defences;
  };
  const Defences unclocked = fast.without(Defence::kClock);
  std::vector<Job> jobs;
  for (const auto& [name, gate, defences] : {Fault{"caches not displaced", Defence::kCold, warm},
                                             {"events half as long again", Defence::kClock, slow},
                                             {"events a thousandth", Defence::kFloor, unclocked}}) {
    jobs.push_back({&item, &built, defences, {}, name, gate});
    jobs.push_back({&item, &built, defences.without(gate), std::string(record::name_of(gate)), name});
  }
  return jobs;
}

std::string csv_line(const Job& job) {
  std::string detail = job.found.detail;
  std::replace(detail.begin(), detail.end(), '"', '\'');
  std::replace(detail.begin(), detail.end(), '\n', ' ');
  return fmt::format("{},{},{},{},{},{},{:.6g},{:.3g},{:.2f},\"{}\"\n", job.item->name,
                     !job.spoiled.empty() ? job.spoiled
                     : job.item->honest   ? "honest"
                                          : "cheat",
                     job.mutant.empty() ? "-" : job.mutant, record::name_of(job.found.outcome),
                     record::name_of(job.found.gate), job.passed ? "as expected" : "UNEXPECTED", job.found.latency,
                     job.found.hit_fraction, job.found.seconds, detail);
}

int run(const Options& options) {
  const auto* const op = *ops::find_operator("gemm");
  const auto info = gpu::ask_gpu(0);
  if (!info) {
    fmt::print(stderr, "skipped: {}\n", info.error().text());
    return 77;
  }
  toolchain::BuildOptions build_options;
  build_options.cache_directory = options.cache;
  const auto images = gpu::check_images(*op, info->arch, build_options);
  if (!images) {
    fmt::print(stderr, "{}\n", images.error().text());
    return 1;
  }
  std::vector<CudaItem> items = cheats::cuda_items(options.folder);
  if (!options.only.empty()) {
    std::erase_if(items, [&](const CudaItem& item) {
      return std::find(options.only.begin(), options.only.end(), item.name) == options.only.end();
    });
  }
  const std::vector<Built> built = build_all(items, info->arch, build_options);
  const World world{*info, op, *images};
  if (options.in_process) return in_process(world, items, built);
  // Side by side the clocks disagree, because the device is shared.
  const Defences shared = Defences().without(Defence::kClock).without(Defence::kCold);
  std::vector<Job> cheats, honest;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool by_value = items[i].sanitizer.empty();  // of a race only the sanitizer is sure
    if (by_value) {
      (items[i].honest ? honest : cheats).push_back({&items[i], &built[i], items[i].honest ? Defences() : shared, {}});
    }
    if (!options.mutants || !items[i].proves) continue;
    const auto part = std::find_if(evaluate::kParts.begin(), evaluate::kParts.end(),
                                   [&](const auto& one) { return one.first == items[i].part; });
    const bool whole = part == evaluate::kParts.end();
    Defences fewer = whole ? shared.without(items[i].gate) : shared.without(part->first);
    for (const Defence gate : items[i].off_too) fewer = fewer.without(gate);
    cheats.push_back({&items[i], &built[i], fewer, std::string(whole ? record::name_of(items[i].gate) : part->second)});
  }
  const auto steady = std::find_if(items.begin(), items.end(), [](const auto& item) { return item.name == "tiled"; });
  if (options.mutants && steady != items.end()) {
    const std::vector<Job> broken =
        broken_instruments(*steady, built[static_cast<std::size_t>(steady - items.begin())]);
    honest.insert(honest.end(), broken.begin(), broken.end());
  }
  run_side_by_side(world, cheats, 8);
  run_side_by_side(world, honest, 1);
  cheats.insert(cheats.end(), honest.begin(), honest.end());
  std::string csv = "name,kind,defence_off,outcome,gate,verdict,latency_seconds,l2_hit_fraction,seconds,detail\n";
  int unexpected = 0;
  for (Job& job : cheats) {
    job.passed = as_expected(job);
    unexpected += job.passed ? 0 : 1;
    csv += csv_line(job);
    if (!job.passed) {
      fmt::print("UNEXPECTED {}{}: {} {}: {}\n", job.item->name,
                 (job.spoiled.empty() ? "" : fmt::format(" ({})", job.spoiled)) +
                     (job.mutant.empty() ? "" : fmt::format(" with {} off", job.mutant)),
                 record::name_of(job.found.outcome), record::name_of(job.found.gate), job.found.detail);
    }
  }
  if (!options.csv.empty()) {
    if (std::FILE* file = std::fopen(options.csv.c_str(), "w")) {
      std::fputs(csv.c_str(), file);
      std::fclose(file);
    }
  }
  fmt::print("cuda_cheats on {}: {} runs, {} unexpected\n", info->name, cheats.size(), unexpected);
  return unexpected == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<std::string> places;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--csv" && i + 1 < words.size()) {
      options.csv = words[++i];
    } else if (words[i] == "--only" && i + 1 < words.size()) {
      options.only.push_back(words[++i]);
    } else if (words[i] == "--no-mutants") {
      options.mutants = false;
    } else if (words[i] == "--in-process") {
      options.in_process = true;
    } else {
      places.push_back(words[i]);
    }
  }
  if (places.size() != 2) {
    fmt::print(stderr, "usage: cuda_cheats FOLDER CACHE [--csv FILE] [--only NAME]... [--no-mutants] [--in-process]\n");
    return 64;
  }
  options.folder = places[0];
  options.cache = places[1];
  return run(options);
}
