#include "evaluate/cuda/build_apart.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "evaluate/host_fork.h"
#include "measure/machine.h"
#include "record/json.h"

namespace ridge::evaluate::cuda {
namespace {

namespace fs = std::filesystem;

constexpr double kStartLimit = 60.0;  // on top of the builds: NVRTC's libraries are large

// What one job leaves for the process that asked: machine code, evidence, and what went wrong, each in a file.
struct Files {
  fs::path cubin, evidence, error, fault;
  Files(const fs::path& folder, std::size_t job)
      : cubin(folder / fmt::format("{}.cubin", job)),
        evidence(folder / fmt::format("{}.json", job)),
        error(folder / fmt::format("{}.error", job)),
        fault(folder / fmt::format("{}.fault", job)) {}
};

Result<toolchain::DeviceBuild> build(const DeviceJob& job, const std::string& arch,
                                     const toolchain::BuildOptions& options) {
  RIDGE_TRY(compiler, toolchain::find_device_compiler());
  if (job.candidate != nullptr) {
    return toolchain::build_device_candidate(*job.candidate, arch, *compiler, options, job.macros);
  }
  toolchain::DeviceCode code = job.code;
  code.arch = arch;
  return toolchain::build_device(code, *compiler, options);
}

Status leave(const Files& files, const Result<toolchain::DeviceBuild>& built) {
  if (!built) return write_file_durably(files.fault, built.error().text());
  RIDGE_CHECK_OK(write_file_durably(files.evidence, record::to_line(built->evidence)));
  RIDGE_CHECK_OK(write_file_durably(files.error, built->error));
  return write_file_durably(files.cubin, built->cubin);
}

Result<toolchain::DeviceBuild> take(const Files& files) {
  if (fs::exists(files.fault)) {
    RIDGE_TRY(why, read_file(files.fault));
    return make_error(ErrorCode::kToolFailed, "{}", why);
  }
  toolchain::DeviceBuild built;
  RIDGE_TRY(evidence, read_file(files.evidence));
  RIDGE_TRY(parsed, record::parse_record<record::BuildEvidence>(evidence, "build evidence"));
  RIDGE_TRY(error, read_file(files.error));
  RIDGE_TRY(cubin, read_file(files.cubin));
  built.evidence = std::move(parsed);
  built.error = std::move(error);
  built.cubin = std::move(cubin);
  return built;
}

}  // namespace

Result<std::vector<toolchain::DeviceBuild>> build_apart(const std::vector<DeviceJob>& jobs, const std::string& arch,
                                                        const toolchain::BuildOptions& options) {
  RIDGE_TRY(folder, TempDir::create("ridge-device-build"));
  const auto build_all = [&](int socket) {
    in_parallel(jobs.size(), measure::usable_cpus().size(),
                [&](std::size_t i) { (void)leave(Files(folder.path(), i), build(jobs[i], arch, options)); });
    const char done = 1;
    send_message(socket, &done, sizeof done);
  };
  RIDGE_TRY(process, ForkedProcess::start(build_all));
  char done = 0;
  const double limit = kStartLimit + options.timeout * static_cast<double>(jobs.size());
  if (process.receive(&done, sizeof done, limit) != ForkedProcess::Received::kMessage) {
    return make_error(ErrorCode::kToolFailed, "the process that compiles device code did not finish {} builds",
                      jobs.size());
  }
  std::vector<toolchain::DeviceBuild> built;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    RIDGE_TRY(one, take(Files(folder.path(), i)));
    built.push_back(std::move(one));
  }
  return built;
}

}  // namespace ridge::evaluate::cuda
