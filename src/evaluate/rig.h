// What the tasks of a worker need of a backend, one row each: a third backend is a folder that fills one.
//
// A row is a table of functions and no object: a worker asks one backend per request, and what holds state (a device
// process, placements) is made by `measurement`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "evaluate/tasks.h"

namespace ridge::evaluate {

struct Rig {
  Backend backend;
  // What implementations are asked with (Implementation::supports).
  Result<ops::DeviceInfo> (*device)();
  // Builds candidates of this backend. The subjects point at them.
  Result<std::vector<BuiltSubject>> (*build)(const Job& job, std::span<const record::Candidate> candidates);
  // Opens and watches subjects.
  Result<std::unique_ptr<MeasurementBackend>> (*measurement)(const Job& job, const ops::Operator& op);
  // Full checks of the problems that the subject takes, one row each.
  std::vector<record::CheckRow> (*check)(const Job& job, const Subject& subject, const ops::Operator& op,
                                         const std::vector<ops::Problem>& problems,
                                         const std::function<void(std::size_t)>& progress);
  // What the device can do at best.
  Status (*ceilings)(const Job& job, record::WorkerResponse& response);
};

// An error names the backends that have one.
Result<const Rig*> rig_of(Backend backend);

// The processor's row, by task.
Result<ops::DeviceInfo> cpu_device_info();
Result<std::vector<BuiltSubject>> build_for_cpu(const Job& job, std::span<const record::Candidate> candidates);
Result<std::unique_ptr<MeasurementBackend>> make_cpu_measurement_backend(const Job& job, const ops::Operator& op);
std::vector<record::CheckRow> check_cpu_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                                const std::vector<ops::Problem>& problems,
                                                const std::function<void(std::size_t)>& progress);
Status cpu_ceilings(const Job& job, record::WorkerResponse& response);

}  // namespace ridge::evaluate
