// A private copy of a project's folder, and the commands that run in it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/process.h"
#include "execute/executor.h"
#include "project/bench_csv.h"
#include "project/project.h"
#include "project/training.h"

namespace ridge::execute {

class ProjectCopy {
 public:
  ProjectCopy(const project::Project& project, std::filesystem::path root)
      : project_(project), root_(std::move(root)) {}

  // Copies the project's folder if that was not done, without .git and without links that lead outside.
  Status make();
  // Makes the in-scope files those of a candidate, with the values of its tunables in them; others are left alone.
  Status place(const record::Candidate& candidate);
  Result<ProcessResult> build(const ShouldStop& should_stop) const;
  Result<ProcessResult> test(const ShouldStop& should_stop) const;
  Result<ProcessResult> acceptance(const ShouldStop& should_stop) const;
  // SHA-256 of what the build made, or of the in-scope files when nothing is built.
  [[nodiscard]] Result<std::string> artifact() const;

  // One process of the benchmark, and the table that it wrote. An error in the process or the table is an Error.
  struct Measured {
    std::vector<project::BenchTableRow> rows;
  };
  Result<Measured> measure(const std::vector<std::string>& labels, bool fresh, const ShouldStop& should_stop) const;
  // One process of the training command, and the trace that it wrote.
  Result<record::TrainingTrace> train(const ShouldStop& should_stop) const;

 private:
  Result<ProcessResult> run(const project::Command& command, const ShouldStop& should_stop) const;
  const project::Project& project_;
  std::filesystem::path root_;
};

// "how many passed, how many failed" out of what a test printed; an error when the summary is not there.
struct TestCounts {
  long passed = 0, failed = 0;
};
Result<TestCounts> test_counts(const project::Project& project, const std::string& output);

// The end of a text, for messages.
std::string last_lines(const std::string& text);

}  // namespace ridge::execute
