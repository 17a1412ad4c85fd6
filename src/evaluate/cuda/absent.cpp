// The GPU side of the tasks in a build without the CUDA backend.
#include "base/error.h"
#include "evaluate/gpu.h"

namespace ridge::evaluate {
namespace {

Error absent() {
  return with_hint(make_error(ErrorCode::kUnsupported, "this build has no CUDA backend"),
                   "configure with the CUDA toolkit's headers installed (RIDGE_CUDA_BACKEND=ON says what is missing)");
}

}  // namespace

Result<ops::DeviceInfo> gpu_device_info() { return absent(); }

Result<std::unique_ptr<MeasurementBackend>> make_gpu_measurement_backend(const Job&, const ops::Operator&) {
  return absent();
}

Result<std::vector<BuiltSubject>> build_for_gpu(const Job&, std::span<const record::Candidate>) { return absent(); }

Status gpu_ceilings(const Job&, record::WorkerResponse&) { return absent(); }

Status plain_call(const Job&, record::WorkerResponse&) { return absent(); }

Status kernels(const Job&, record::WorkerResponse&) { return absent(); }

std::vector<record::CheckRow> check_gpu_subject(const Job&, const Subject&, const ops::Operator&,
                                                const std::vector<ops::Problem>&,
                                                const std::function<void(std::size_t)>&) {
  record::CheckRow row;
  row.label = "gpu";
  row.outcome = record::Outcome::kHarnessFault;
  row.detail = absent().text();
  return {row};
}

}  // namespace ridge::evaluate
