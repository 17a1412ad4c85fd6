#include "evaluate/host_sanitize.h"

#include <array>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "record/json.h"

namespace ridge::evaluate {
namespace {

using record::Defence;
using record::Outcome;

constexpr std::array<const char*, 4> kTools = {"memcheck", "racecheck", "initcheck", "synccheck"};
constexpr int kFoundSomething = 86;  // the tool's exit code, unlike any of ours
constexpr double kTimeout = 120.0;

// The first line in which the tool says what it found.
std::string finding(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kMark = "========= ";
    if (line.starts_with(kMark) && line.find("COMPUTE-SANITIZER") == std::string::npos)
      return line.substr(kMark.size());
  }
  return "an error it does not describe";
}

// A small problem of the same kind, where the operator offers one that the plan takes.
Result<ops::Problem> reduced(const ops::Operator& op, const ops::Problem& problem) {
  if (!op.vary) return problem;
  return op.bind(op.vary(problem, ops::Variation::kReduced, secret_seed()));
}

}  // namespace

void sanitizer_lane(const Job& job, const Subject& subject, const ops::Operator& op, const ops::Problem& problem,
                    record::CheckRow& row) {
  std::string& lane = row.lanes["sanitizer"];
  const std::filesystem::path worker = job.harness.host_program.parent_path() / "ridge-worker";
  const std::string tool = find_program("compute-sanitizer");
  const auto folder = TempDir::create("ridge-sanitize");
  const Result<ops::Problem> small = reduced(op, problem);
  if (tool.empty() || !std::filesystem::exists(worker) || !folder || !small) {
    lane =
        tool.empty() ? "not run: no compute-sanitizer on the path" : "not run: no ridge-worker, space or small shape";
    return;
  }
  record::WorkerRequest request;
  request.task = record::WorkerTask::kPlainCall;
  request.candidates = {*subject.candidate};
  request.cases = {small->problem_case};
  request.protocol = job.request.protocol;
  request.cache_directory = job.request.cache_directory;
  const std::filesystem::path asked = folder->path() / "request.json";
  if (const Status written = write_file_durably(asked, record::to_line(request)); !written) {
    lane = "not run: " + written.error().text();
    return;
  }
  std::array<std::string, kTools.size()> found, trouble;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kTools.size(); ++i) {
      threads.emplace_back([&, i] {
        ProcessSpec spec;
        spec.argv = {tool,
                     "--tool",
                     kTools[i],
                     "--report-api-errors",
                     "no",
                     "--print-limit",
                     "1",
                     "--error-exitcode",
                     std::to_string(kFoundSomething),
                     worker.string(),
                     asked.string(),
                     (folder->path() / fmt::format("{}.json", kTools[i])).string()};
        spec.timeout = kTimeout;
        const Result<ProcessResult> ran = run_process(spec);
        if (!ran) {
          trouble[i] = ran.error().text();
        } else if (ran->end == ProcessResult::End::kExited && ran->exit_code == kFoundSomething) {
          found[i] = finding(ran->output + ran->error_output);
        } else if (!ran->succeeded()) {
          trouble[i] = ran->describe();
        }
      });
    }
  }
  lane.clear();
  for (std::size_t i = 0; i < kTools.size(); ++i) {
    const std::string what = !found[i].empty() ? found[i] : trouble[i].empty() ? "clean" : "not run: " + trouble[i];
    lane += fmt::format("{}{}: {}", i == 0 ? "" : "; ", kTools[i], what);
    if (found[i].empty() || row.outcome != Outcome::kPass) continue;
    row.outcome = Outcome::kWrong;
    row.gate = Defence::kSanitizer;
    row.detail = fmt::format("{} on {}: {}", kTools[i], small->problem_case.label(), found[i]);
  }
}

}  // namespace ridge::evaluate
