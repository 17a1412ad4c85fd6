// A private copy of a project's folder, and the commands that run in it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "execute/executor.h"
#include "execute/folder_seal.h"
#include "project/bench_csv.h"
#include "project/project.h"
#include "project/training.h"

namespace ridge::execute {

// Everything in a copy but what a command may write is the same in every process: it is sealed after the build, and
// looked at before and after each command. Commands run in name spaces of their own, where the machine has them, and
// all that they start ends with them.
class ProjectCopy {
 public:
  // `hidden`: folders and files that the commands must not see.
  ProjectCopy(const project::Project& project, std::filesystem::path root,
              std::vector<std::filesystem::path> hidden = {})
      : project_(project), root_(std::move(root)), hidden_(std::move(hidden)) {}

  // A copy whose seal must hold as well whenever a command of this one has run.
  void guard(ProjectCopy& other) { other_ = &other; }

  // Copies the project's folder if this object did not, or what it copied was tampered with, without .git and without
  // links that lead outside.
  Status make();
  // Removes the files of the kernel: what runs here cannot import it.
  Status without_kernel();
  // Makes the in-scope files those of a candidate, with the values of its tunables in them; others are left alone.
  Status place(const record::Candidate& candidate);
  // What a build makes: files of the project that it changes, and files that it adds.
  struct Products {
    std::vector<std::string> changed, added;
  };
  // `allowed`: a file of the project that the build changes must be one of these, and a file that it adds as well or it
  // is removed; null: whatever it makes is its product.
  Result<ProcessResult> build(const ShouldStop& should_stop, const Products* allowed = nullptr);
  // Of the last build, and the files that it added and that were removed.
  [[nodiscard]] const Products& products() const { return products_; }
  [[nodiscard]] const std::vector<std::string>& removed() const { return removed_; }
  Result<ProcessResult> test(const ShouldStop& should_stop);
  Result<ProcessResult> acceptance(const ShouldStop& should_stop);
  // SHA-256 of what the build made, or of the in-scope files when nothing is built.
  [[nodiscard]] Result<std::string> artifact() const;

  // One process of the benchmark, and the table that it wrote. What became of the process, or of the reference process
  // on its outputs, is its outcome: HANG, CRASH (also without a table), or WRONG: a table that is refused or cannot be
  // read, or what the reference process says against the outputs.
  // A row whose Check is not PASS is none of these. An Error is a fault of this machine, or of what ran in it.
  struct Measured {
    std::vector<project::BenchTableRow> rows;  // none of a table that is refused
    std::string table;                         // as the benchmark wrote it
    double wall = 0;                           // seconds of the process, by our clock
    record::Outcome outcome = record::Outcome::kPass;
    std::string detail = {};  // what is wrong with it
  };
  // `reference`: a copy without the kernel, whose process checks what this one left in {out}; null: none.
  Result<Measured> measure(const std::vector<std::string>& labels, bool fresh, const ShouldStop& should_stop,
                           ProjectCopy* reference = nullptr);
  // The same, and a process that failed is an Error: where there is no candidate that it could be charged to.
  Result<Measured> measure_in_order(const std::vector<std::string>& labels, bool fresh, const ShouldStop& should_stop,
                                    ProjectCopy* reference = nullptr);
  // One process of the training command, and the trace that it wrote.
  Result<record::TrainingTrace> train(const ShouldStop& should_stop);
  // One process of the profile command, and the report that it wrote.
  Result<std::string> profile(const std::vector<std::string>& labels, const ShouldStop& should_stop);

  // What a command did that no honest one does: the file it changed, or the time it claims. Stays until make().
  [[nodiscard]] const std::string& offence() const { return offence_; }

 private:
  // An Error where a user's stop ended it: that says nothing of what ran.
  Result<ProcessResult> run(const project::Command& command, const ShouldStop& should_stop);
  [[nodiscard]] Confinement confinement() const;
  Status check_seals();
  Status seal();
  Status check_claim(const Measured& measured);
  Status check_outputs(const project::Fill& fill, const ShouldStop& should_stop, ProjectCopy& reference,
                       Measured& measured);
  Result<Measured> measured_of(const ProcessResult& result, const project::Command& command,
                               const std::filesystem::path& csv, const std::vector<std::string>& labels);

  const project::Project& project_;
  std::filesystem::path root_;
  std::vector<std::filesystem::path> hidden_;
  ProjectCopy* other_ = nullptr;
  std::optional<FolderSeal> source_, seal_;  // as it was copied, and as it must be now
  Products products_;
  std::vector<std::string> removed_;
  std::string offence_;
};

// "how many passed, how many failed" out of what a test printed; an error when the summary is not there.
struct TestCounts {
  long passed = 0, failed = 0;
};
Result<TestCounts> test_counts(const project::Project& project, const std::string& output);

// The end of a text, for messages.
std::string last_lines(const std::string& text);

}  // namespace ridge::execute
