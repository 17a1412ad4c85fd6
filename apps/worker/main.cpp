// ridge-worker REQUEST.json RESPONSE.json: does one request of record/worker.h and ends. Everything that loads an
// operator, a compiler or a device happens in here, so that a crash costs one request.
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>

#include "base/files.h"
#include "evaluate/run.h"
#include "record/json.h"

namespace {

using namespace ridge;

std::filesystem::path beside_this_program(const char* name) {
  std::error_code failure;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failure);
  return self.parent_path() / name;
}

void print_progress(const record::Progress& progress) {
  fmt::print(stderr, "{}{}\n", record::kProgressPrefix, record::to_line(progress));
  std::fflush(stderr);
}

Result<record::WorkerResponse> answer(const char* path) {
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(request, record::parse_record<record::WorkerRequest>(text, "request"));
  return evaluate::run(request, {beside_this_program("ridge-host"), print_progress});
}

double processor_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used = {};
    if (::getrusage(who, &used) != 0) continue;
    for (const timeval& time : {used.ru_utime, used.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr,
               "usage: ridge-worker REQUEST.json RESPONSE.json\n"
               "Started by ridge; the two files are described in src/record/worker.h.\n");
    return 64;
  }
  ::signal(SIGPIPE, SIG_IGN);
  Result<record::WorkerResponse> response = answer(argv[1]);
  if (!response) {
    record::WorkerResponse refused;
    refused.error = response.error().message;
    refused.error_hint = response.error().hint;
    response = refused;
  }
  response->cpu_seconds = processor_seconds();
  const Status written = write_file_durably(argv[2], record::to_line(*response));
  if (!written) fmt::print(stderr, "{}\n", written.error().text());
  return written ? 0 : 1;
}
