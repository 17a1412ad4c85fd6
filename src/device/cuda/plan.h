// Runs a launch plan (record/launch_plan.h): finds and checks its kernels, binds addresses, launches.
//
//   record::LaunchPlan  --resolve-->  record::ResolvedPlan  --prepare-->  PreparedPlan  --bind-->  BoundPlan
//   text of a candidate               numbers for one case                checked on a GPU         ready to launch
//
// Binding encodes tensor maps and lays out arguments; launching a BoundPlan is the launches and nothing else.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/call_list.h"
#include "device/cuda/module.h"
#include "device/cuda/tensor_map.h"
#include "record/expression.h"
#include "record/launch_plan.h"

namespace ridge::device::cuda {

class BoundPlan {
 public:
  // Other addresses, in the plan's order: encodes the tensor maps again and writes the arguments in place. No
  // allocation.
  [[nodiscard]] Status rebind(std::span<void* const> operands, std::span<void* const> workspaces);
  // Other scalars of the call, in the plan's order: writes the arguments that follow them, where any differs from the
  // last. No allocation.
  void set_scalars(std::span<const double> scalars);
  // Enqueues every step in order. No allocation, no synchronisation; safe while a graph is captured.
  [[nodiscard]] Status launch(StreamHandle stream) const;
  // Whether its one kernel also runs lists of calls, so that launch_in() may take it.
  [[nodiscard]] bool has_list() const { return steps_.size() == 1 && steps_[0].parameter_bytes != 0; }
  // Adds its call to those that wait. The arguments may be written anew at once.
  [[nodiscard]] Status launch_in(CallList& list) const;

 private:
  friend class PreparedPlan;
  struct Step {
    Kernel kernel, list;
    LaunchShape shape;
    std::vector<void*> arguments;     // into `storage`
    std::size_t parameter_bytes = 0;  // of a kernel with a list
  };
  struct Clear {
    bool in_workspace = false;
    std::size_t index = 0, bytes = 0;
    void* data = nullptr;
  };
  // A number inside the arguments that follows the scalars.
  struct Formula {
    std::byte* target = nullptr;
    std::size_t bytes = 0;
    record::OpenExpression expression;
  };
  struct Map {
    std::string name;
    TensorMapRequest request;
    bool in_workspace = false;
    std::size_t index = 0;
    TensorMap encoded;
  };
  // An address or a map inside the arguments.
  struct Patch {
    std::byte* target = nullptr;
    record::ResolvedArgument::Kind kind = record::ResolvedArgument::Kind::kOperand;
    std::size_t index = 0;
  };
  std::size_t operand_count_ = 0, workspace_count_ = 0;
  std::vector<Clear> clears_;
  std::vector<Map> maps_;
  std::vector<Step> steps_;
  std::vector<Patch> patches_;
  std::vector<double> scalars_;  // that the formulas hold
  std::vector<Formula> formulas_;
  std::vector<std::unique_ptr<std::byte[]>> storage_;
};

class PreparedPlan {
 public:
  // Where the plan's kernels come from, by symbol.
  using FindKernel = std::function<Result<Kernel>(const record::ResolvedKernel&)>;
  // Errors name the kernel, the value and the limit: an unknown symbol, a block, grid, cluster or shared memory that
  // does not fit the GPU or the kernel's registers, parameters whose number or sizes differ from the kernel's.
  static Result<PreparedPlan> prepare(const FindKernel& find, const record::ResolvedPlan& plan, const GpuInfo& gpu);
  static Result<PreparedPlan> prepare(const Module& module, const record::ResolvedPlan& plan, const GpuInfo& gpu);

  // Bytes the caller must provide for each workspace, in the plan's order; 0 needs no memory.
  [[nodiscard]] const std::vector<std::size_t>& workspace_bytes() const { return workspace_bytes_; }
  // Kernels that will be launched (steps whose `when` holds and whose grid is not empty).
  [[nodiscard]] const std::vector<Kernel>& kernels() const { return kernels_; }

  // Addresses in the plan's order. They may be anything the kernels can reach; content is not looked at.
  [[nodiscard]] Result<BoundPlan> bind(std::span<void* const> operands, std::span<void* const> workspaces) const;
  // What bind() makes, before any address is known: rebind() must come before launch().
  [[nodiscard]] BoundPlan lay_out() const;

 private:
  record::ResolvedPlan plan_;
  std::vector<std::size_t> workspace_bytes_;
  std::vector<Kernel> kernels_, lists_;  // of the steps that are launched; those of their lists, where there are any
};

}  // namespace ridge::device::cuda
