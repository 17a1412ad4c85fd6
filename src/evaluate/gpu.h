// What the tasks ask of GPUs. In a build without the CUDA backend every answer says so. Nothing here initialises CUDA
// in this process: what measures is forked, and a context does not survive that.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "evaluate/tasks.h"

namespace ridge::evaluate {

// What implementations are asked with (Implementation::supports).
Result<ops::DeviceInfo> gpu_device_info();

Result<std::unique_ptr<MeasurementBackend>> make_gpu_measurement_backend(const Job& job, const ops::Operator& op);

// Candidates of the backend cuda, compiled for the GPU that is here, or for the newest known without one.
Result<std::vector<BuiltSubject>> build_for_gpu(const Job& job, std::span<const record::Candidate> candidates);

// What the first GPU can do at best (cuda/ceilings.h). CUDA is initialised in this process: nothing else can be
// measured in it afterwards.
Status gpu_ceilings(const Job& job, record::WorkerResponse& response);

std::vector<record::CheckRow> check_gpu_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                                const std::vector<ops::Problem>& problems,
                                                const std::function<void(std::size_t)>& progress);

}  // namespace ridge::evaluate
