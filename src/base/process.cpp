#include "base/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/descendants.h"
#include "base/error.h"

extern char** environ;

namespace ridge {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

struct Pipe {
  Fd read_end, write_end;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return make_error(ErrorCode::kIo, "cannot create a pipe: {}", std::strerror(errno));
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::vector<std::string> environment_of(const ProcessSpec& spec) {
  std::vector<std::string> entries;
  if (!spec.clear_environment) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      if (!spec.environment.contains(std::string(text.substr(0, text.find('='))))) entries.emplace_back(text);
    }
  }
  for (const auto& [name, value] : spec.environment) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

// Everything between clone and exec, where only system calls may be made.
struct Launch {
  const ProcessSpec& spec;
  const ConfinementPlan* plan = nullptr;
  const char* program = nullptr;
  char** argv = nullptr;
  char** envp = nullptr;
  const Pipe &input, &output, &errors, &failure, &status;
};

// What the child says when it could not become the program.
struct Refusal {
  int error_number = 0;
  bool confining = false;  // entering the name spaces was refused, not the program
  char step[48] = {};
};

[[noreturn]] void refuse(const Launch& launch, bool confining, const char* step) {
  Refusal refusal;
  refusal.error_number = errno;
  refusal.confining = confining;
  std::strncpy(refusal.step, step, sizeof refusal.step - 1);
  [[maybe_unused]] const ssize_t written = ::write(launch.failure.write_end.get(), &refusal, sizeof refusal);
  ::_exit(127);
}

[[noreturn]] void exec_program(const Launch& launch) {
  const ProcessSpec& spec = launch.spec;
  bool ready = ::dup2(launch.input.read_end.get(), 0) >= 0 && ::dup2(launch.output.write_end.get(), 1) >= 0 &&
               ::dup2(launch.errors.write_end.get(), 2) >= 0;
  const bool bare = launch.plan != nullptr && !launch.plan->directory().empty();
  const char* const directory = bare ? launch.plan->directory().c_str() : spec.directory.c_str();
  if (ready && *directory != '\0') ready = ::chdir(directory) == 0;
  if (ready && launch.plan != nullptr && !launch.plan->become_other_user()) refuse(launch, true, "another user");
  if (ready && spec.memory_limit_bytes != 0) {
    const rlimit limit{spec.memory_limit_bytes, spec.memory_limit_bytes};
    ready = ::setrlimit(RLIMIT_AS, &limit) == 0;
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);  // no descriptor of ours: Linux 5.11, else those without the flag stay
  if (ready) ::execve(launch.program, launch.argv, launch.envp);
  refuse(launch, false, "");
}

// The first process of the new name spaces: starts the program, waits for it, says how it ended, and ends. The kernel
// then kills all that the program left behind, whatever group or session that is in.
[[noreturn]] void be_first_process(const Launch& launch) {
  if (const char* const step = launch.plan->enter(); *step != '\0') refuse(launch, true, step);
  const pid_t program = ::_Fork();
  if (program < 0) refuse(launch, true, "a process in it");
  if (program == 0) exec_program(launch);
  const int status_fd = launch.status.write_end.get();
  ::dup2(status_fd, 0);  // and nothing else stays open here: the streams end with the program
  ::close_range(1, ~0u, 0);
  int wait_status = 0;
  while (true) {
    const pid_t ended = ::waitpid(-1, &wait_status, 0);
    if (ended == program || (ended < 0 && errno != EINTR)) break;
  }
  [[maybe_unused]] const ssize_t written = ::write(0, &wait_status, sizeof wait_status);
  ::_exit(0);
}

[[noreturn]] void run_child(const Launch& launch) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (launch.plan != nullptr) be_first_process(launch);
  exec_program(launch);
}

// One captured stream: keeps up to a limit, hands complete lines to a listener.
class Capture {
 public:
  Capture(Fd fd, std::size_t limit, std::function<void(std::string_view)> on_line)
      : fd_(std::move(fd)), limit_(limit), on_line_(std::move(on_line)) {
    ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
  }
  [[nodiscard]] bool open() const { return fd_.open(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  void drain() {
    char buffer[1 << 16];
    while (fd_.open()) {
      const ssize_t count = ::read(fd_.get(), buffer, sizeof buffer);
      if (count > 0) {
        accept({buffer, static_cast<std::size_t>(count)});
      } else if (count < 0 && errno == EINTR) {
        continue;
      } else {
        if (count == 0 || errno != EAGAIN) fd_.close();
        return;
      }
    }
  }
  std::string take() {
    if (on_line_ && !line_.empty()) on_line_(line_);
    return std::move(text_);
  }

 private:
  void accept(std::string_view bytes) {
    if (text_.size() < limit_) text_.append(bytes.substr(0, limit_ - text_.size()));
    if (!on_line_) return;
    for (const char c : bytes) {
      if (c == '\n') {
        on_line_(line_);
        line_.clear();
      } else if (line_.size() < (1u << 20)) {
        line_ += c;
      }
    }
  }

  Fd fd_;
  std::size_t limit_;
  std::function<void(std::string_view)> on_line_;
  std::string text_, line_;
};

// Feeds standard input without blocking; a program that never reads it must not hang us.
void feed(Fd& fd, std::string_view& rest) {
  while (fd.open() && !rest.empty()) {
    const ssize_t written = ::write(fd.get(), rest.data(), rest.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) fd.close();
      return;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (rest.empty()) fd.close();
}

struct Watch {
  pid_t pid;
  Fd& input;
  std::string_view rest;
  Capture& output;
  Capture& errors;
};

// Pumps the streams until the program ended or a limit was hit; returns how it ended.
ProcessResult::End pump(const ProcessSpec& spec, Watch& watch, SteadyClock::time_point start, int& wait_status) {
  using End = ProcessResult::End;
  End end = End::kExited;
  bool killed = false;
  while (true) {
    pollfd polls[3] = {{watch.output.open() ? watch.output.fd() : -1, POLLIN, 0},
                       {watch.errors.open() ? watch.errors.fd() : -1, POLLIN, 0},
                       {watch.input.open() ? watch.input.get() : -1, POLLOUT, 0}};
    const bool any_open = watch.output.open() || watch.errors.open();
    ::poll(polls, 3, any_open ? 20 : 2);
    if (watch.input.open()) feed(watch.input, watch.rest);
    watch.output.drain();
    watch.errors.drain();
    if (::waitpid(watch.pid, &wait_status, WNOHANG) == watch.pid) break;
    if (!killed && seconds_since(start) > spec.timeout) end = End::kTimedOut;
    if (!killed && spec.should_stop && spec.should_stop()) end = End::kStopped;
    if (!killed && end != End::kExited) {
      ::kill(-watch.pid, SIGKILL);
      killed = true;
    }
  }
  ::kill(-watch.pid, SIGKILL);  // whatever the program left behind in its group
  watch.output.drain();
  watch.errors.drain();
  return end;
}

// A name with a slash means the directory the program runs in, as it would to a shell there.
std::string program_of(const ProcessSpec& spec) {
  const std::filesystem::path name = spec.argv[0];
  if (spec.directory.empty() || name.is_absolute() || !name.has_parent_path()) return find_program(spec.argv[0]);
  return find_program(std::filesystem::absolute(spec.directory / name).string());
}

// One attempt. `not_confined` of the result: the machine refused the plan, and the program did not run.
Result<ProcessResult> run_once(const ProcessSpec& spec, const std::string& program, const ConfinementPlan* plan) {
  RIDGE_TRY(input, make_pipe());
  RIDGE_TRY(output, make_pipe());
  RIDGE_TRY(errors, make_pipe());
  RIDGE_TRY(failure, make_pipe());
  RIDGE_TRY(status, make_pipe());
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables = environment_of(spec);
  std::vector<char*> argv = pointers(arguments), envp = pointers(variables);

  ::signal(SIGPIPE, SIG_IGN);
  std::optional<Descendants> descendants;
  if (spec.every_descendant && plan == nullptr) descendants.emplace();
  const SteadyClock::time_point start = SteadyClock::now();
  const pid_t pid = plan != nullptr ? plan->clone_process() : ::fork();
  if (pid == 0) {
    run_child({spec, plan, program.c_str(), argv.data(), envp.data(), input, output, errors, failure, status});
  }
  ProcessResult result;
  if (pid < 0 && plan != nullptr) {
    result.not_confined = fmt::format("no name spaces: {}", std::strerror(errno));
    return result;
  }
  if (pid < 0) return make_error(ErrorCode::kIo, "cannot start {}: {}", spec.argv[0], std::strerror(errno));
  ::setpgid(pid, pid);
  input.read_end.close();
  output.write_end.close();
  errors.write_end.close();
  failure.write_end.close();
  status.write_end.close();

  Refusal refusal;
  if (::read(failure.read_end.get(), &refusal, sizeof refusal) == static_cast<ssize_t>(sizeof refusal)) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const char* const why = std::strerror(refusal.error_number);
    if (!refusal.confining) return make_error(ErrorCode::kIo, "cannot start {}: {}", quote_command(spec.argv), why);
    result.not_confined = fmt::format("{} was refused: {}", refusal.step, why);
    return result;
  }
  ::fcntl(input.write_end.get(), F_SETFL, O_NONBLOCK);
  Capture captured_output(std::move(output.read_end), spec.output_limit_bytes, nullptr);
  Capture captured_errors(std::move(errors.read_end), spec.output_limit_bytes, spec.on_error_line);
  Watch watch{pid, input.write_end, spec.standard_input, captured_output, captured_errors};
  int wait_status = 0;
  result.end = pump(spec, watch, start, wait_status);
  if (descendants) descendants->kill_all();
  result.wall = seconds_since(start);
  result.output = captured_output.take();
  result.error_output = captured_errors.take();
  int told = 0;  // by the first process of the name spaces; without a word it was itself killed
  if (plan != nullptr && ::read(status.read_end.get(), &told, sizeof told) == static_cast<ssize_t>(sizeof told)) {
    wait_status = told;
  }
  if (result.end == ProcessResult::End::kExited) {
    if (WIFSIGNALED(wait_status)) {
      result.end = ProcessResult::End::kSignalled;
      result.signal = WTERMSIG(wait_status);
    } else {
      result.exit_code = WEXITSTATUS(wait_status);
    }
  }
  return result;
}

}  // namespace

Result<ProcessResult> run_process(const ProcessSpec& spec) {
  if (spec.argv.empty()) return invalid("no program was named");
  const std::string program = program_of(spec);
  if (program.empty()) {
    return make_error(ErrorCode::kNotFound, "program {} was not found in {}", spec.argv[0],
                      spec.argv[0].find('/') == std::string::npos ? "PATH" : spec.directory.string());
  }
  if (!spec.confinement) return run_once(spec, program, nullptr);
  const ConfinementPlan plan(*spec.confinement);
  Result<ProcessResult> confined = run_once(spec, program, &plan);
  if (!confined || confined->not_confined.empty()) return confined;
  RIDGE_TRY(plain, run_once(spec, program, nullptr));
  plain.not_confined = std::move(confined->not_confined);
  return plain;
}

std::string ProcessResult::describe() const {
  switch (end) {
    case End::kExited: return fmt::format("exited with {}", exit_code);
    case End::kSignalled: return fmt::format("killed by signal {} ({})", signal, ::strsignal(signal));
    case End::kTimedOut: return "timed out after " + format_duration(wall);
    case End::kStopped: return "stopped after " + format_duration(wall);
  }
  return "ended";
}

std::string quote_command(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    if (!line.empty()) line += ' ';
    bool plain = !word.empty();
    for (const char c : word) {
      plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-_./=+:,@%", c) != nullptr);
    }
    if (plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::string find_program(std::string_view name) {
  const std::string text(name);
  if (text.find('/') != std::string::npos) return ::access(text.c_str(), X_OK) == 0 ? text : std::string();
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string candidate = std::string(rest.substr(0, colon)) + "/" + text;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) return {};
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace ridge
