#include "context.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/environment.h"
#include "base/text.h"
#include "say.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

std::atomic<int> interruption_count{0};

void on_signal(int) {
  // The second one means now: the journal is intact at every moment.
  if (interruption_count.fetch_add(1) >= 1) ::_exit(kInterrupted);
}

fs::path beside_this_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

// The shipped data: RIDGE_DATA_DIR, <prefix>/share/ridge, or the source tree this was built from.
fs::path data_directory() {
  if (const char* own = std::getenv("RIDGE_DATA_DIR"); own != nullptr && *own != '\0') return own;
  std::error_code ignored;
  const fs::path installed = beside_this_program().parent_path() / "share" / "ridge";
  return fs::exists(installed, ignored) ? installed : fs::path(RIDGE_SOURCE_DIR) / "data";
}

// --cache-dir, RIDGE_CACHE_DIR, XDG_CACHE_HOME/ridge, ~/.cache/ridge.
fs::path cache_directory() {
  // Absolute: a worker has another working directory.
  return fs::absolute(globals().cache_directory.empty() ? default_cache_directory()
                                                        : fs::path(globals().cache_directory));
}

// Folders of the user's own knowledge pages: RIDGE_KNOWLEDGE_PATH, with colons between them.
std::vector<fs::path> own_knowledge() {
  std::vector<fs::path> folders;
  const char* named = std::getenv("RIDGE_KNOWLEDGE_PATH");
  for (const std::string& one : split(named == nullptr ? "" : named, ':')) {
    if (!one.empty()) folders.emplace_back(one);
  }
  return folders;
}

// As the library compiles a configuration (cmake/ridge_ops.cmake): without what only this machine has.
std::vector<std::string> library_flags(const std::string& instructions) {
  std::vector<std::string> flags;
#if defined(__x86_64__)
  flags = {"-march=x86-64"};
#endif
  const char* more = instructions == "avx512" ? RIDGE_AVX512_FLAGS : instructions == "avx2" ? RIDGE_AVX2_FLAGS : "";
  for (std::string& flag : split(more, ' ')) {
    if (!flag.empty()) flags.push_back(std::move(flag));
  }
  return flags;
}

std::string round_line(const record::RoundSummary& round) {
  // On one line of a terminal; the report has the whole reason.
  const std::string line = fmt::format("round {:<3} {:<12} {}: {}", round.round, record::name_of(round.state),
                                       round.hypothesis.title, round.reason);
  return painted_lines(cut_to(line, terminal_width(stderr)), stderr);
}

// One line that is rewritten while a step lasts; notes and closed rounds are lines that stay.
void show_on_standard_error(service::Context& context) {
  const auto line = std::make_shared<std::unique_ptr<ProgressLine>>();
  const auto shown = [line]() -> ProgressLine& {
    if (!*line) *line = std::make_unique<ProgressLine>();
    return **line;
  };
  context.on_progress = [shown](const record::Progress& progress) { shown().show(progress); };
  context.on_settled = [line] { line->reset(); };
  context.on_note = [shown](std::string_view text) { shown().note(text); };
  context.on_round = [shown](const record::RoundSummary& round) { shown().note(round_line(round)); };
}

}  // namespace

int interruptions() { return interruption_count.load(); }

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

service::Context make_context() {
  service::Context context;
  context.worker_program = beside_this_program() / "ridge-worker";
  context.data_directory = data_directory();
  context.cache_directory = cache_directory();
  context.knowledge = own_knowledge();
  context.library_sources = fs::path(RIDGE_SOURCE_DIR) / "src";
  context.kernel_builds = RIDGE_KERNEL_BUILDS;
  context.version = RIDGE_VERSION;
  context.library_flags = library_flags;
  context.stops = interruptions;
  show_on_standard_error(context);
  return context;
}

}  // namespace ridge::cli
