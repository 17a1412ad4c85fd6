// Launches prepared by a thread, so that a warm call takes no lock and allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "ops/op.h"

namespace ridge::ops {

// Everything a prepared launch depends on but the addresses: parameters, configuration, device, and of every operand
// the strides that are not 1 and the alignment.
struct CallKey {
  static constexpr std::size_t kStrides = kMaxParams, kDevice = kStrides + 2 * kMaxOperands;
  std::array<std::int64_t, kDevice + 3> words{};
  friend bool operator==(const CallKey&, const CallKey&) = default;
};
inline CallKey call_key(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  CallKey key;
  for (std::size_t i = 0; i < problem.values.size(); ++i) key.words[i] = problem.values[i];
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const TensorView& view = operands[i];
    for (std::size_t d = 0; d < 2 && static_cast<int>(d) + 1 < view.rank; ++d) {
      key.words[CallKey::kStrides + 2 * i + d] = view.stride[d];
    }
    key.words[CallKey::kDevice + 1] = key.words[CallKey::kDevice + 1] * 32 + view_alignment(view);
  }
  key.words[CallKey::kDevice] = stream.device;
  key.words[CallKey::kDevice + 2] = problem.configuration;
  return key;
}
struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t word : key.words) {
      hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

// Preparing compiles, loads and may allocate on the device, which no graph can record: the first call of a case must
// not be captured.
template <class Prepared>
class PreparedCalls {
 public:
  template <class Make>  // Result<Prepared>(const device::cuda::Device&)
  Result<Prepared*> get(const Problem& problem, std::span<const TensorView> operands, const Stream& stream,
                        Make&& make) {
    const CallKey key = call_key(problem, operands, stream);
    if (const auto found = known_.find(key); found != known_.end()) return found->second.get();
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
    return (known_[key] = std::make_unique<Prepared>(std::move(made))).get();
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::unordered_map<CallKey, std::unique_ptr<Prepared>, CallKeyHash> known_;
};

// A matrix that needs no kernel is done: nothing to compute, or zeros to write. False: a kernel is needed.
inline Result<bool> finish_empty_product(const TensorView& c, std::int64_t k, bool accumulate,
                                         device::cuda::StreamHandle stream) {
  if (c.element_count() == 0) return true;
  if (k != 0) return false;
  if (accumulate) return true;
  const device::cuda::Rows rows{c.data, size_bytes(c.dtype, c.stride[0])};
  RIDGE_CHECK_OK(
      device::cuda::fill_rows(rows, 0, size_bytes(c.dtype, c.shape[1]), static_cast<std::size_t>(c.shape[0]), stream));
  return true;
}

}  // namespace ridge::ops
