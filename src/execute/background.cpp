#include "execute/background.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "base/text.h"

extern char** environ;

namespace ridge::execute {
namespace {

constexpr std::size_t kMostOfLog = 600;  // bytes of it in an error

struct SpawnSettings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  explicit SpawnSettings(const std::filesystem::path& log) {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

std::string end_of(const std::filesystem::path& log) {
  const Result<std::string> text = read_file(log);
  if (!text) return {};
  const std::string_view all = trimmed(*text);
  return std::string(all.size() > kMostOfLog ? all.substr(all.size() - kMostOfLog) : all);
}

}  // namespace

Status start_in_background(const std::vector<std::string>& argv, const std::filesystem::path& log, double seconds) {
  RIDGE_CHECK_OK(make_directories(log.parent_path()));
  std::vector<char*> arguments;
  for (const std::string& one : argv) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  const SpawnSettings settings(log);
  pid_t child = 0;
  if (const int code =
          ::posix_spawnp(&child, arguments[0], &settings.files, &settings.attributes, arguments.data(), environ);
      code != 0)
    return make_error(ErrorCode::kToolFailed, "cannot start {}: {}", quote_command(argv), std::strerror(code));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok_status();
      return make_error(ErrorCode::kToolFailed, "{} ended at once: {}", quote_command(argv), end_of(log));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::thread([child] { ::waitpid(child, nullptr, 0); }).detach();  // its end is taken note of, so that it can go
  return ok_status();
}

}  // namespace ridge::execute
