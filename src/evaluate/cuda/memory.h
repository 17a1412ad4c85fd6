// Where a call lives in device memory: a pool of more than four times the L2, in which every call gets a place of its
// own at a random offset. No line that an earlier call left in the cache, by whatever policy, belongs to the next one.
//
//   red zone | operand | red zone | operand | ... | workspace | red zone
//
// In a guarded place every operand has pages of its own with unmapped addresses on both sides: any access outside, a
// read too, ends the kernel with an illegal address.
#pragma once

#include <cstdint>
#include <vector>

#include "device/cuda/buffer.h"
#include "device/cuda/guarded.h"
#include "evaluate/arena.h"
#include "measure/quads.h"
#include "ops/device_check.h"
#include "ops/op.h"

namespace ridge::evaluate::cuda {

inline constexpr std::int64_t kDeviceRedZone = 64 << 10;  // bytes

// As harness.cu reads it.
struct Zone {
  std::uint64_t data = 0;
  std::int64_t bytes = 0;
  std::uint64_t checked = 1;
};

struct Place {
  std::vector<TensorView> operands;  // device addresses
  std::vector<void*> workspaces;
  std::vector<Zone> zones;         // red zones in address order, then workspaces
  std::vector<std::size_t> after;  // of each red zone: the operand before it (its count: a workspace); none first
};

// The strides an operand has in a place, without addresses: what a launch plan is resolved with.
std::vector<TensorView> operand_views(const ops::Problem& problem, RowPadding padding);

class Pool {
 public:
  // Room for several places of the largest problem, and more than `l2_bytes` asks for.
  static Result<Pool> create(const device::cuda::Device& device, std::size_t largest_place);

  // The next place, after the ones before it. Places of one chain do not overlap: at most `capacity` of them.
  Place place(const std::vector<TensorView>& views, const std::vector<std::size_t>& workspace_bytes,
              measure::Coin& coin);
  [[nodiscard]] std::int64_t capacity(const std::vector<TensorView>& views,
                                      const std::vector<std::size_t>& workspace_bytes) const;
  [[nodiscard]] std::size_t bytes() const { return buffer_.bytes(); }
  // The next place is the first one again: for tests that need the same address twice.
  void rewind() {
    cursor_ = 0;
    fixed_ = true;
  }

 private:
  explicit Pool(device::cuda::Buffer buffer) : buffer_(std::move(buffer)) {}
  device::cuda::Buffer buffer_;
  std::size_t cursor_ = 0;
  bool fixed_ = false;
};

std::size_t place_bytes(const std::vector<TensorView>& views, const std::vector<std::size_t>& workspace_bytes);

// Operands with guard pages: flush with the end of their pages, or with the start.
enum class GuardSide { kEnd, kStart };
struct GuardedPlace {
  Place place;
  std::vector<device::cuda::GuardedBuffer> buffers;
};
Result<GuardedPlace> guarded_place(const device::cuda::Device& device, const std::vector<TensorView>& views,
                                   const std::vector<std::size_t>& workspace_bytes, GuardSide side);

}  // namespace ridge::evaluate::cuda
