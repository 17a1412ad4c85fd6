// Launches prepared by a thread, so that a warm call takes no lock and allocates nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "ops/call_key.h"
#include "ops/op.h"

namespace ridge::ops {

// Preparing compiles, loads and may allocate on the device, which no graph can record: the first call of a case must
// not be captured.
template <class Prepared>
class PreparedCalls {
 public:
  template <class Make>  // Result<Prepared>(const device::cuda::Device&)
  Result<Prepared*> get(const Problem& problem, std::span<const TensorView> operands, const Stream& stream,
                        Make&& make) {
    const CallKey key = launch_key(problem, operands, stream);
    if (const auto* const found = known_.find(key)) return found->get();
    RIDGE_TRY(device, device::cuda::Device::open(stream.device));
    RIDGE_CHECK_OK(device->make_current());
    RIDGE_TRY(capturing, device::cuda::is_capturing(device::cuda::handle_of(stream)));
    if (capturing) {
      return with_hint(
          make_error(ErrorCode::kConflict, "{}: its first call compiles and loads a kernel, which no graph can record",
                     problem.problem_case.text()),
          "call it once with the same shapes and strides before the capture");
    }
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      if (operands[i].element_count() == 0) continue;  // and maybe no memory
      if (Status reachable = device::cuda::check_reachable(operands[i].data, *device); !reachable) {
        return in_context(problem.problem_case.op + ": operand " + problem.operands[i].name, reachable.error());
      }
    }
    RIDGE_TRY(made, make(*device));
    if (known_.size() >= kMost) known_.clear();  // a program that never repeats a shape must not grow without end
    return known_.add(key, std::make_unique<Prepared>(std::move(made))).get();
  }

 private:
  static constexpr std::size_t kMost = 4096;
  CallTable<std::unique_ptr<Prepared>> known_;
};

// A matrix that needs no kernel is done: nothing to compute, or zeros to write. False: a kernel is needed.
inline Result<bool> finish_empty_product(const TensorView& c, std::int64_t k, bool accumulate, const Stream& stream) {
  if (c.element_count() == 0) return true;
  if (k != 0) return false;
  if (accumulate) return true;
  RIDGE_TRY(device, device::cuda::Device::open(stream.device));
  RIDGE_CHECK_OK(device->make_current());  // the thread may have none yet, as one that computes gradients
  const device::cuda::Rows rows{c.data, size_bytes(c.dtype, c.stride[0])};
  RIDGE_CHECK_OK(device::cuda::fill_rows(rows, 0, size_bytes(c.dtype, c.shape[1]), static_cast<std::size_t>(c.shape[0]),
                                         device::cuda::handle_of(stream)));
  return true;
}

}  // namespace ridge::ops
