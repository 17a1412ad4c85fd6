#include "execute/project_copy.h"

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "record/configuration.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".ridge-copy-complete";

Error copy_error(const fs::path& path, const std::error_code& error) {
  return make_error(ErrorCode::kIo, "cannot copy {}: {}", path.string(), error.message());
}

// `skipped` is inside the project when a campaign lives there.
Status copy_tree(const fs::path& from, const fs::path& to, const fs::path& skipped) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path relative = it->path().lexically_relative(from);
    if (it->path().filename() == ".git" || it->path() == skipped) {
      it.disable_recursion_pending();
      continue;
    }
    if (it->is_symlink()) {
      const fs::path target = fs::weakly_canonical(it->path(), error);
      if (error || target.lexically_relative(from).string().starts_with("..")) continue;
      fs::copy_symlink(it->path(), to / relative, error);
    } else if (it->is_directory()) {
      fs::create_directories(to / relative, error);
    } else if (it->is_regular_file()) {
      fs::create_directories((to / relative).parent_path(), error);
      fs::copy_file(it->path(), to / relative, fs::copy_options::overwrite_existing, error);
    }
    if (error) return copy_error(it->path(), error);
  }
  return error ? Status(copy_error(from, error)) : ok_status();
}

}  // namespace

Status ProjectCopy::make() {
  std::error_code ignored;
  if (fs::exists(root_ / kMarker, ignored)) return ok_status();
  fs::remove_all(root_, ignored);  // a copy that a kill cut short
  RIDGE_CHECK_OK(make_directories(root_));
  RIDGE_CHECK_OK(copy_tree(project_.root, root_, fs::absolute(root_).parent_path().parent_path()));
  return write_file_durably(root_ / kMarker, "");
}

Status ProjectCopy::place(const record::Candidate& candidate) {
  RIDGE_TRY(sources, record::configured_sources(candidate));
  for (const record::SourceFile& source : sources) {
    const bool ours = std::find(project_.kernel.begin(), project_.kernel.end(), source.path) != project_.kernel.end();
    if (!ours) return invalid("{} is not one of the files that may change", source.path);
    const Result<std::string> old = read_file(root_ / source.path);
    if (old && *old == source.text) continue;
    RIDGE_CHECK_OK(write_file_durably(root_ / source.path, source.text));
  }
  return ok_status();
}

Result<ProcessResult> ProjectCopy::run(const project::Command& command, const ShouldStop& should_stop) const {
  ProcessSpec spec;
  spec.argv = command;
  spec.directory = root_;
  spec.timeout = project_.timeout;
  spec.should_stop = should_stop;
  return run_process(spec);
}

Result<ProcessResult> ProjectCopy::build(const ShouldStop& should_stop) const {
  if (project_.build.empty()) return ProcessResult{};
  return run(project::filled(project_.build, {"", "", root_.string()}), should_stop);
}
Result<ProcessResult> ProjectCopy::test(const ShouldStop& should_stop) const {
  return run(project::filled(project_.test, {"", "", root_.string()}), should_stop);
}
Result<ProcessResult> ProjectCopy::acceptance(const ShouldStop& should_stop) const {
  return run(project::filled(project_.acceptance, {"", "", root_.string()}), should_stop);
}

Result<std::string> ProjectCopy::artifact() const {
  if (!project_.artifact.empty()) {
    RIDGE_TRY(content, read_file(root_ / project_.artifact));
    return sha256(content);
  }
  std::string all;
  for (const std::string& path : project_.kernel) {
    RIDGE_TRY(content, read_file(root_ / path));
    all += sha256(content) + "  " + path + "\n";
  }
  return sha256(all);
}

Result<ProjectCopy::Measured> ProjectCopy::measure(const std::vector<std::string>& labels, bool fresh,
                                                   const ShouldStop& should_stop) const {
  RIDGE_TRY(directory, TempDir::create("ridge-bench"));  // a table that is there was written by this process
  const fs::path csv = directory.path() / "benchmark.csv";
  std::string shapes;
  for (const std::string& label : labels) shapes += (shapes.empty() ? "" : ",") + label;
  project::Command command = project::filled(project_.benchmark, {csv.string(), shapes, root_.string()});
  if (fresh) command.insert(command.end(), project_.fresh.begin(), project_.fresh.end());
  RIDGE_TRY(result, run(command, should_stop));
  const Result<std::string> text = read_file(csv);
  // An exit code of 1 with a table is how a benchmark says that a row failed; the rows say which.
  if (!text) {
    return make_error(ErrorCode::kToolFailed, "{} {} and wrote no table: {}", quote_command(command), result.describe(),
                      last_lines(result.error_output + result.output));
  }
  if (result.end != ProcessResult::End::kExited || result.exit_code > 1) {
    return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(command), result.describe(),
                      last_lines(result.error_output + result.output));
  }
  RIDGE_TRY(rows, project::read_bench_table(*text, project_, labels));
  const bool all_passed = std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.passed; });
  if (result.exit_code == 1 && all_passed) {
    return make_error(ErrorCode::kToolFailed, "{} exited with 1 although every row passes", quote_command(command));
  }
  return Measured{std::move(rows)};
}

Result<record::TrainingTrace> ProjectCopy::train(const ShouldStop& should_stop) const {
  RIDGE_TRY(directory, TempDir::create("ridge-training"));
  const fs::path csv = directory.path() / "training.csv";
  const project::Command command = project::filled(project_.training, {csv.string(), "", root_.string()});
  RIDGE_TRY(result, run(command, should_stop));
  if (!result.succeeded()) {
    return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(command), result.describe(),
                      last_lines(result.error_output + result.output));
  }
  RIDGE_TRY(text, read_file(csv));
  return project::read_training_trace(text);
}

Result<TestCounts> test_counts(const project::Project& project, const std::string& output) {
  std::smatch found;
  if (!std::regex_search(output, found, std::regex(project.test_summary))) {
    return make_error(ErrorCode::kToolFailed, "the test printed no summary like \"{}\"; it ends with {}",
                      project.test_summary, last_lines(output));
  }
  return TestCounts{std::atol(found[1].str().c_str()), std::atol(found[2].str().c_str())};
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kMost = 600;
  std::string tail = text.size() > kMost ? "..." + text.substr(text.size() - kMost) : text;
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == ' ')) tail.pop_back();
  return tail.empty() ? "nothing" : tail;
}

}  // namespace ridge::execute
