#include "execute/project_copy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/large_file.h"
#include "record/configuration.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using record::Outcome;

// The clock that a process can only stretch: it cannot have worked for longer than it ran, but for rounding.
constexpr std::size_t kLongestProfile = 64u << 20;
constexpr double kClockSlack = 1.02;

Error copy_error(const fs::path& path, const std::error_code& error) {
  return make_error(ErrorCode::kIo, "cannot copy {}: {}", path.string(), error.message());
}

// Whether a path is one of `only`, below one of them or a folder above one; of nothing, everything is.
bool is_wanted(const std::string& path, const std::vector<std::string>& only) {
  return only.empty() || std::ranges::any_of(only, [&](const std::string& one) {
           return path == one || path.starts_with(one + "/") || one.starts_with(path + "/");
         });
}

bool is_among(const std::string& file, const std::vector<std::string>& files) {
  return std::ranges::find(files, file) != files.end();
}

// `skipped` may be inside the project: a campaign that lives there, and what the project leaves out.
Status copy_tree(const fs::path& from, const fs::path& to, const std::vector<fs::path>& skipped,
                 const std::vector<std::string>& only) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path relative = it->path().lexically_relative(from);
    if (it->path().filename() == ".git" || std::ranges::find(skipped, it->path()) != skipped.end() ||
        !is_wanted(relative.generic_string(), only)) {
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
  if (seal_ && offence_.empty()) {
    RIDGE_TRY(changed, seal_->broken());
    if (changed.empty()) return ok_status();
  }
  offence_.clear();
  products_ = {};
  removed_.clear();
  seal_.reset();
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  RIDGE_CHECK_OK(make_directories(root_));
  std::vector<fs::path> skipped = {fs::absolute(root_).parent_path().parent_path()};
  for (const std::string& path : project_.leave_out) skipped.push_back(project_.root / path);
  RIDGE_CHECK_OK(copy_tree(project_.root, root_, skipped, project_.only));
  RIDGE_CHECK_OK(seal());
  source_ = seal_;
  return ok_status();
}

Status ProjectCopy::seal() {
  RIDGE_TRY(taken, FolderSeal::take(root_, project_.writes));
  seal_ = std::move(taken);
  return ok_status();
}

Status ProjectCopy::without_kernel() {
  for (const std::string& path : project_.kernel) {
    std::error_code failure;
    fs::remove(root_ / path, failure);
    if (failure) return make_error(ErrorCode::kIo, "cannot remove {}: {}", (root_ / path).string(), failure.message());
  }
  return seal();
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
  return seal();
}

// The first of the two copies that is not as it was sealed is an offence of the command that just ran.
Status ProjectCopy::check_seals() {
  for (ProjectCopy* copy : {this, other_}) {
    if (copy == nullptr || !copy->seal_) continue;
    RIDGE_TRY(changed, copy->seal_->broken());
    if (changed.empty()) continue;
    offence_ = fmt::format("{} of {} was changed by a command", changed,
                           copy == this ? "its own copy of the project" : "the other arm's copy of the project");
    return with_hint(make_error(ErrorCode::kConflict, "{}", offence_),
                     "where that is meant, name the file or its folder in commands.writes");
  }
  return ok_status();
}

Confinement ProjectCopy::confinement() const {
  Confinement view;
  view.root = Confinement::Root::kWhole;
  view.network = true;  // a device may be another machine
  view.readable = {"/usr", "/opt", project_.root};
  view.hidden = hidden_;
  view.writable = {root_};
  return view;
}

Result<ProcessResult> ProjectCopy::run(const project::Command& command, const ShouldStop& should_stop) {
  RIDGE_CHECK_OK(check_seals());
  ProcessSpec spec;
  spec.argv = command;
  spec.directory = root_;
  spec.timeout = project_.timeout;
  spec.should_stop = should_stop;
  spec.confinement = confinement();
  spec.every_descendant = true;
  RIDGE_TRY(result, run_process(spec));
  if (result.end == ProcessResult::End::kStopped)
    return make_error(ErrorCode::kConflict, "{} {}: a stop was asked for", quote_command(command), result.describe());
  RIDGE_CHECK_OK(check_seals());
  return result;
}

Result<ProcessResult> ProjectCopy::build(const ShouldStop& should_stop, const Products* allowed) {
  if (project_.build.empty()) return ProcessResult{};
  const FolderSeal placed = *seal_;
  removed_.clear();
  seal_.reset();  // a build makes files
  RIDGE_TRY(result, run(project::filled(project_.build, {"", "", root_.string()}), should_stop));
  const auto is_kernel = [&](const std::string& file) { return is_among(file, project_.kernel); };
  RIDGE_TRY(since_placed, placed.changed());
  RIDGE_TRY(changed, source_->changed());
  RIDGE_TRY(added, source_->added());
  std::erase_if(since_placed, [&](const std::string& file) { return !is_kernel(file); });
  std::erase_if(changed, [&](const std::string& file) { return is_kernel(file) || file == project_.artifact; });
  std::erase(added, project_.artifact);
  products_ = {changed, added};
  if (allowed != nullptr) {
    std::erase_if(changed, [&](const std::string& file) { return is_among(file, allowed->changed); });
    since_placed.insert(since_placed.end(), changed.begin(), changed.end());
    std::erase_if(added, [&](const std::string& file) { return is_among(file, allowed->added); });
    RIDGE_CHECK_OK(source_->remove(added));
    removed_ = std::move(added);
  }
  RIDGE_CHECK_OK(seal());
  if (since_placed.empty()) return result;
  offence_ = fmt::format("{} of its own copy of the project was changed by its build", since_placed.front());
  return with_hint(make_error(ErrorCode::kConflict, "{}", offence_),
                   "where that is meant, name the file or its folder in commands.writes");
}
Result<ProcessResult> ProjectCopy::test(const ShouldStop& should_stop) {
  return run(project::filled(project_.test, {"", "", root_.string()}), should_stop);
}
Result<ProcessResult> ProjectCopy::acceptance(const ShouldStop& should_stop) {
  return run(project::filled(project_.acceptance, {"", "", root_.string()}), should_stop);
}

Result<std::string> ProjectCopy::artifact() const {
  if (!project_.artifact.empty()) {
    RIDGE_TRY(content, read_file_up_to(root_ / project_.artifact, kCodeFileBytes));
    return sha256(content);
  }
  std::string all;
  for (const std::string& path : project_.kernel) {
    RIDGE_TRY(content, read_file(root_ / path));
    all += sha256(content) + "  " + path + "\n";
  }
  return sha256(all);
}

// One launch of every shape, or as many as the project says, cannot have taken longer than the process.
Status ProjectCopy::check_claim(const Measured& measured) {
  double claimed = 0;
  for (const project::BenchTableRow& row : measured.rows) claimed += row.seconds();
  claimed *= std::max(project_.launches, 1.0);
  if (claimed <= kClockSlack * measured.wall) return ok_status();
  offence_ = fmt::format("its table claims {} of work, and the process that wrote it ran for {}",
                         format_duration(claimed), format_duration(measured.wall));
  return make_error(ErrorCode::kConflict, "{}", offence_);
}

// In a process that cannot import the kernel: its exit code says whether the outputs are right (0) or wrong (1).
Status ProjectCopy::check_outputs(const project::Fill& fill, const ShouldStop& should_stop, ProjectCopy& reference,
                                  Measured& measured) {
  project::Fill own = fill;
  own.root = reference.root_.string();
  const project::Command command = project::filled(project_.reference, own);
  RIDGE_TRY(result, reference.run(command, should_stop));
  if (result.succeeded()) return ok_status();
  using End = ProcessResult::End;
  const std::string said = last_lines(result.output + result.error_output);
  if (result.end == End::kExited && result.exit_code == 1) {
    measured.outcome = Outcome::kWrong;
    measured.detail = "the reference process says: " + said;
  } else {  // on what the kernel's process left in {out}
    measured.outcome = result.end == End::kTimedOut ? Outcome::kHang : Outcome::kCrash;
    measured.detail = fmt::format("the reference process {}: {}", result.describe(), said);
  }
  return ok_status();
}

Result<ProjectCopy::Measured> ProjectCopy::measure(const std::vector<std::string>& labels, bool fresh,
                                                   const ShouldStop& should_stop, ProjectCopy* reference) {
  RIDGE_TRY(directory, TempDir::create("ridge-bench"));  // a table that is there was written by this process
  const fs::path csv = directory.path() / "benchmark.csv";
  std::string shapes;
  for (const std::string& label : labels) shapes += (shapes.empty() ? "" : ",") + label;
  const project::Fill fill{csv.string(), shapes, root_.string(), (directory.path() / "outputs").string(),
                           fmt::format("{}", secret_seed() >> 33)};
  project::Command command = project::filled(project_.benchmark, fill);
  if (fresh) command.insert(command.end(), project_.fresh.begin(), project_.fresh.end());
  RIDGE_TRY(result, run(command, should_stop));
  RIDGE_TRY(measured, measured_of(result, command, csv, labels));
  if (measured.outcome != Outcome::kPass) return measured;
  RIDGE_CHECK_OK(check_claim(measured));
  if (reference != nullptr) RIDGE_CHECK_OK(check_outputs(fill, should_stop, *reference, measured));
  return measured;
}

// What one process of the benchmark came to. An exit code of 1 with a table is how a benchmark says that a row failed;
// the rows say which.
Result<ProjectCopy::Measured> ProjectCopy::measured_of(const ProcessResult& result, const project::Command& command,
                                                       const fs::path& csv, const std::vector<std::string>& labels) {
  using End = ProcessResult::End;
  const Result<std::string> text = read_file(csv);
  Measured measured;
  measured.wall = result.wall;
  if (text) measured.table = *text;
  const auto failed = [&](Outcome outcome, std::string detail) {
    measured.outcome = outcome;
    measured.detail = std::move(detail);
    return measured;
  };
  if (!text && text.error().code != ErrorCode::kNotFound) return failed(Outcome::kWrong, text.error().message);
  if (!text || result.end != End::kExited || result.exit_code > 1) {
    return failed(result.end == End::kTimedOut ? Outcome::kHang : Outcome::kCrash,
                  fmt::format("{} {}{}: {}", quote_command(command), result.describe(),
                              text ? "" : " and wrote no table", last_lines(result.error_output + result.output)));
  }
  Result<std::vector<project::BenchTableRow>> rows = project::read_bench_table(*text, project_, labels);
  if (!rows) return failed(Outcome::kWrong, rows.error().message);
  measured.rows = std::move(*rows);
  const bool all_passed = std::ranges::all_of(measured.rows, [](const auto& row) { return row.passed; });
  if (result.exit_code == 1 && all_passed)
    return failed(Outcome::kWrong, quote_command(command) + " exited with 1 although every row passes");
  return measured;
}

Result<ProjectCopy::Measured> ProjectCopy::measure_in_order(const std::vector<std::string>& labels, bool fresh,
                                                            const ShouldStop& should_stop, ProjectCopy* reference) {
  RIDGE_TRY(measured, measure(labels, fresh, should_stop, reference));
  if (measured.outcome == Outcome::kPass) return measured;
  return make_error(ErrorCode::kToolFailed, "{}", measured.detail);
}

Result<record::TrainingTrace> ProjectCopy::train(const ShouldStop& should_stop) {
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

Result<std::string> ProjectCopy::profile(const std::vector<std::string>& labels, const ShouldStop& should_stop) {
  RIDGE_TRY(directory, TempDir::create("ridge-profile"));
  const fs::path csv = directory.path() / "profile.csv";
  const project::Fill fill{csv.string(), fmt::format("{}", fmt::join(labels, ",")), root_.string()};
  const project::Command command = project::filled(project_.profile, fill);
  RIDGE_TRY(result, run(command, should_stop));
  if (!result.succeeded()) {
    return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(command), result.describe(),
                      last_lines(result.error_output + result.output));
  }
  Result<std::string> text = read_file_up_to(csv, kLongestProfile);
  return text ? text : Result<std::string>(in_context(quote_command(command) + " wrote no report", text.error()));
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
