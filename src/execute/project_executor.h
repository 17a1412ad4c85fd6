// Carries out what a campaign asks by the commands of a project that is not Ridgeline's.
//
// Two private copies of the project's folder, one with the incumbent and one with the candidate. Each is built by the
// project's own build, tested by its own test, and measured by its own benchmark, in alternating processes:
// incumbent, candidate, candidate, incumbent or the other way round, every one a fresh process on fresh tensors. What a
// process printed about itself never counts; the table that it wrote is read row by row, and cannot claim more time
// than the process ran. A command that changes a file of either copy ends the evaluation as CHEAT (project_copy.h).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "execute/executor.h"
#include "project/bench_csv.h"
#include "project/project.h"

namespace ridge::execute {

struct ProjectOptions {
  std::filesystem::path workspace;  // holds the two copies; made when missing
  // Whether the sessions so far settle the question of a request; asked after each. The statistics are not known here.
  std::function<bool(const record::WorkerRequest&, const std::vector<record::Session>&)> settled;
  std::vector<std::filesystem::path> hidden =
      {};  // what the project's commands must not see: caches, keys, the campaign
  // Where candidates are built in a part of a project: all of it, in which a candidate must build and pass the test,
  // too.
  std::optional<project::Project> whole = std::nullopt;
};

std::unique_ptr<Executor> make_project_executor(project::Project project, ProjectOptions options);

// One thing that must really work before a campaign starts.
struct HandoffCheck {
  std::string what, detail;
  bool works = false, unavailable = false;  // unavailable: a program that this machine lacks
};
// Copies the project, builds it, runs its test, its benchmark once per mode, and reads what it wrote. Stops at the
// first that does not work, because the later ones rest on it. `compile_only`: as far as its build, on a machine
// without the device.
std::vector<HandoffCheck> check_handoff(const project::Project& project, const std::filesystem::path& workspace,
                                        const OnProgress& on_progress = {}, const ShouldStop& should_stop = {},
                                        bool compile_only = false);

// What the project's own table holds: one build and one process of its benchmark, in a private copy.
struct LookAtTable {
  project::TableContents contents;
  std::vector<project::BenchTableRow> rows;
  std::string text;
};
Result<LookAtTable> look_at_table(const project::Project& project, const std::filesystem::path& workspace,
                                  const ShouldStop& should_stop = {});

// A candidate may take this much longer on fresh tensors than on reused ones, beside what the incumbent shows. What a
// cache that remembers tensors saves is far more.
inline constexpr double kFreshTolerance = 1.25;

// A count of evaluations whose candidate passed the test in the whole project, too.
inline constexpr const char* kPassedWhole = "whole_project_passed";

// The timing engine of project campaigns, as it stands in every evaluation.
inline constexpr const char* kProjectTiming = "project-command";

}  // namespace ridge::execute
