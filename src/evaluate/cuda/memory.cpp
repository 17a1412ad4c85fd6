#include "evaluate/cuda/memory.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::evaluate::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kJitter = 64;     // random steps of kAlignment before a place
constexpr std::int64_t kPadBytes = 64;  // between rows, where they are padded
constexpr double kPoolTimesL2 = 5;      // more than the four that no policy can hold
constexpr std::size_t kPlacesInPool = 3;

std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// From the first element to behind the last.
std::size_t extent_bytes(const TensorView& view) {
  if (view.element_count() == 0) return 0;
  std::int64_t last = 0;
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    last += (view.shape[at] - 1) * view.stride[at];
  }
  return size_bytes(view.dtype, last + 1);
}

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

std::vector<TensorView> operand_views(const ops::Problem& problem, RowPadding padding) {
  std::vector<TensorView> views;
  for (const ops::OperandSpec& spec : problem.operands) {
    TensorView view;
    view.dtype = spec.dtype;
    view.rank = static_cast<int>(spec.shape.size());
    std::int64_t stride = 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      view.shape[i] = spec.shape[i];
      view.stride[i] = stride;
      stride *= std::max<std::int64_t>(spec.shape[i], 1);
      if (axis == view.rank - 1 && view.rank > 1 && padding == RowPadding::kPadded) {
        stride += kPadBytes * 8 / size_bits(spec.dtype);
      }
    }
    views.push_back(view);
  }
  return views;
}

std::size_t place_bytes(const std::vector<TensorView>& views, const std::vector<std::size_t>& workspace_bytes) {
  std::size_t bytes = static_cast<std::size_t>(kDeviceRedZone);
  for (const TensorView& view : views)
    bytes += round_up(extent_bytes(view), kAlignment) + static_cast<std::size_t>(kDeviceRedZone);
  for (const std::size_t workspace : workspace_bytes) {
    bytes += round_up(workspace, kAlignment) + static_cast<std::size_t>(kDeviceRedZone);
  }
  return bytes;
}

Result<Pool> Pool::create(const device::cuda::Device& device, std::size_t largest_place) {
  const auto l2 = static_cast<double>(std::max<std::int64_t>(device.info().l2_bytes, 32 << 20));
  const std::size_t bytes =
      std::max(static_cast<std::size_t>(kPoolTimesL2 * l2), kPlacesInPool * (largest_place + kJitter * kAlignment));
  RIDGE_TRY(buffer, device::cuda::Buffer::allocate(device, round_up(bytes, kAlignment)));
  return Pool(std::move(buffer));
}

std::int64_t Pool::capacity(const std::vector<TensorView>& views,
                            const std::vector<std::size_t>& workspace_bytes) const {
  const std::size_t one = place_bytes(views, workspace_bytes) + kJitter * kAlignment;
  // One place less, because the cursor may not start at the beginning; another for the outputs of the call before.
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(buffer_.bytes() / one) - 2);
}

Place Pool::place(const std::vector<TensorView>& views, const std::vector<std::size_t>& workspace_bytes,
                  measure::Coin& coin) {
  const std::size_t needed = place_bytes(views, workspace_bytes);
  if (!fixed_) cursor_ += kAlignment * coin.below(kJitter);
  if (cursor_ + needed > buffer_.bytes()) cursor_ = 0;
  const auto base = reinterpret_cast<std::uint64_t>(buffer_.data());
  std::uint64_t next = base + cursor_;
  Place place;
  const auto red_zone = [&](std::size_t after) {
    place.zones.push_back({next, kDeviceRedZone, 1});
    place.after.push_back(after);
    next += static_cast<std::uint64_t>(kDeviceRedZone);
  };
  // Up to the alignment the bytes behind an operand belong to its red zone.
  const auto close = [&](std::uint64_t end, std::size_t after) {
    next = round_up(end, kAlignment);
    red_zone(after);
    place.zones.back().bytes += static_cast<std::int64_t>(place.zones.back().data - end);
    place.zones.back().data = end;
  };
  red_zone(views.size() + 1);
  for (std::size_t i = 0; i < views.size(); ++i) {
    place.operands.push_back(views[i]);
    place.operands.back().data = at(next);
    close(next + extent_bytes(views[i]), i);
  }
  std::vector<Zone> scratch;
  for (const std::size_t bytes : workspace_bytes) {
    place.workspaces.push_back(at(next));
    scratch.push_back({next, static_cast<std::int64_t>(bytes), 0});
    close(next + bytes, views.size());
  }
  place.zones.insert(place.zones.end(), scratch.begin(), scratch.end());
  cursor_ = static_cast<std::size_t>(next - base);
  return place;
}

Result<GuardedPlace> guarded_place(const device::cuda::Device& device, const std::vector<TensorView>& views,
                                   const std::vector<std::size_t>& workspace_bytes, GuardSide side) {
  constexpr std::size_t kGuardedAlignment = 16;  // what vectorised kernels may rely on
  GuardedPlace guarded;
  const auto allocate = [&](std::size_t bytes) -> Result<void*> {
    RIDGE_TRY(buffer, device::cuda::GuardedBuffer::allocate(device, std::max<std::size_t>(bytes, kGuardedAlignment)));
    auto* start = static_cast<unsigned char*>(buffer.data());
    if (side == GuardSide::kEnd) start += buffer.bytes() - round_up(std::max<std::size_t>(bytes, 1), kGuardedAlignment);
    guarded.buffers.push_back(std::move(buffer));
    return static_cast<void*>(start);
  };
  for (const TensorView& view : views) {
    RIDGE_TRY(data, allocate(extent_bytes(view)));
    guarded.place.operands.push_back(view);
    guarded.place.operands.back().data = data;
  }
  for (const std::size_t bytes : workspace_bytes) {
    RIDGE_TRY(data, allocate(bytes));
    guarded.place.workspaces.push_back(data);
    guarded.place.zones.push_back({reinterpret_cast<std::uint64_t>(data), static_cast<std::int64_t>(bytes), 0});
  }
  return guarded;
}

}  // namespace ridge::evaluate::cuda
