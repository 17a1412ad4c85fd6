// What is measured, on the device: a candidate's program, or an implementation of the library.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/module.h"
#include "device/cuda/plan.h"
#include "evaluate/cuda/program.h"
#include "evaluate/subject.h"
#include "ops/op.h"

namespace ridge::evaluate::cuda {

class DeviceSubject {
 public:
  // One problem with the strides it will have.
  struct Prepared {
    std::vector<std::size_t> workspace_bytes;
    std::optional<device::cuda::PreparedPlan> plan;  // of a candidate
    std::string refused;                             // why the case lies outside what is declared; empty: it does not
  };
  using Launches = std::function<Status(device::cuda::StreamHandle)>;

  static Attempt<std::unique_ptr<DeviceSubject>> load(const device::cuda::Device& device, const Subject& subject);

  Attempt<Prepared> prepare(const ops::Problem& problem, const std::vector<TensorView>& views) const;
  // Everything but the launches themselves is done here. The result must not outlive its arguments.
  Attempt<Launches> bind(const ops::Problem& problem, const Prepared& prepared, const ops::Arguments& arguments,
                         const std::vector<void*>& workspaces) const;

  // An implementation may set itself up in its first call, which then must not be held by a gate.
  [[nodiscard]] bool is_library() const { return implementation_ != nullptr; }

 private:
  DeviceSubject(const device::cuda::Device& device) : device_(device) {}
  const device::cuda::Device& device_;
  const ops::Implementation* implementation_ = nullptr;
  int configuration_ = -1;
  std::shared_ptr<const Program> program_;
  std::optional<device::cuda::Module> module_;
};

// Maps a fault that the driver reported to an outcome of the subject that ran last.
Failure failure_of_fault(const std::string& detail);

}  // namespace ridge::evaluate::cuda
