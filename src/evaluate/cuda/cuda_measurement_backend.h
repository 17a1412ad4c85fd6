// The measurement of one GPU: every subject in a process of its own that owns a context. A session gets a fresh
// process, or one that has loaded its module anew and moved to new memory; no process serves more than a few sessions.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/cuda/backend.h"
#include "evaluate/cuda/device_process.h"
#include "evaluate/cuda/gpu.h"
#include "evaluate/measurement_backend.h"

namespace ridge::evaluate::cuda {

struct CudaHarness {
  record::Protocol protocol;
  Defences defences;
  device::cuda::GpuInfo gpu;
  std::shared_ptr<const CheckImages> images;
};

class CudaMeasurementBackend final : public MeasurementBackend {
 public:
  explicit CudaMeasurementBackend(CudaHarness harness) : harness_(std::move(harness)) {}

  OpenResult open(const Subject& subject, const ops::Operator& op, const std::vector<ops::Problem>& problems) override;
  std::unique_ptr<Watch> watch() override;

  [[nodiscard]] const CudaHarness& harness() const { return harness_; }
  [[nodiscard]] SubjectRunnerSpec spec_of(const Subject& subject, const ops::Operator& op,
                                          const std::vector<ops::Problem>& problems) const;
  // The device after a kernel that hung or failed: whether the next process gets a working one. A device that does not
  // come back is unusable for the rest of the job, and everything else is a fault of the harness.
  Verdict recover();
  // A process of this measurement lost its context.
  void note_failure() { doubtful_ = true; }
  // A fault of the harness, with the processes on the device that are not ours and may have caused it.
  [[nodiscard]] Failure explained(Failure failure) const;
  // Counts a process among ours, not among strangers.
  void own(const DeviceProcess& process) { own_.insert(process.pid()); }

 private:
  friend class CudaLauncher;
  friend class CudaWatch;
  // A process between two sessions.
  struct Idle {
    std::string key;  // subject and problems
    int sessions = 0;
    DeviceProcess process;
  };
  void give_back(Idle idle);

  CudaHarness harness_;
  std::vector<Idle> idle_;
  std::set<std::int64_t> own_;        // ids of all processes ever started
  class CudaWatch* watch_ = nullptr;  // of the session in progress
  bool doubtful_ = false;             // a kernel hung or failed since the device was last seen working
  std::string unusable_;
};

}  // namespace ridge::evaluate::cuda
