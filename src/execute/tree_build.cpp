#include "execute/tree_build.h"

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "execute/project_copy.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr double kBuildLimit = 7200, kCheckLimit = 3600;  // seconds
constexpr int kSkipped = 77;

// Programs whose progress is on standard output: the shell moves it to where lines are read as they come.
Result<ProcessResult> run_aloud(const std::vector<std::string>& argv, const fs::path& folder, double limit,
                                const TreeCommand& command) {
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", "exec \"$@\" 1>&2", "sh"};
  spec.argv.insert(spec.argv.end(), argv.begin(), argv.end());
  spec.directory = folder;
  spec.timeout = limit;
  spec.every_descendant = true;
  spec.on_error_line = command.on_line;
  spec.should_stop = command.should_stop;
  return run_process(spec);
}

}  // namespace

Result<fs::path> configured_build(const fs::path& tree) {
  fs::path build = tree / "build";
  const Result<std::string> cache = read_file(build / "CMakeCache.txt");
  if (!cache) return make_error(ErrorCode::kNotFound, "{} is no folder that CMake configured", build.string());
  constexpr std::string_view kHome = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  const std::size_t at = cache->find(kHome);
  const std::size_t begin = at == std::string::npos ? cache->size() : at + kHome.size();
  const fs::path home = cache->substr(begin, cache->find('\n', begin) - begin);
  std::error_code ignored;
  if (fs::equivalent(home, tree, ignored)) return build;
  return make_error(ErrorCode::kNotFound, "{} was configured for the tree {}", build.string(), home.string());
}

Status build_targets(const fs::path& build, const std::vector<std::string>& targets, const TreeCommand& command) {
  std::vector<std::string> argv = {"cmake", "--build", build.string(), "--target"};
  argv.insert(argv.end(), targets.begin(), targets.end());
  RIDGE_TRY(ended, run_aloud(argv, build, kBuildLimit, command));
  if (ended.succeeded()) return ok_status();
  return make_error(ErrorCode::kToolFailed, "{} {}:\n{}", quote_command(argv), ended.describe(),
                    last_lines(ended.error_output));
}

Status check_kernel_builds(const fs::path& tree, const std::string& names, const TreeCommand& command) {
  const fs::path check = tree / "tools/check_kernels.py";
  const std::vector<std::string> argv = {"python3", check.string(), names};
  RIDGE_TRY(ended, run_aloud(argv, tree, kCheckLimit, command));
  if (ended.succeeded()) return ok_status();
  const bool skipped = ended.end == ProcessResult::End::kExited && ended.exit_code == kSkipped;
  return make_error(skipped ? ErrorCode::kUnsupported : ErrorCode::kToolFailed, "{} {}:\n{}", quote_command(argv),
                    ended.describe(), last_lines(ended.error_output));
}

}  // namespace ridge::execute
