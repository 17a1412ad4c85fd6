#include "device/cuda/call_list.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ridge::device::cuda {

CallList::Open& CallList::open(const Call& call) {
  const auto same = [&](const Open& one) {
    return one.list == call.list && one.shape.block == call.shape.block &&
           one.shape.shared_bytes == call.shape.shared_bytes;
  };
  const auto found = std::ranges::find_if(open_, same);
  if (found != open_.end()) return *found;
  Open made{call.single, call.list, call.shape, call.bytes, 0, nullptr};
  made.shape.grid.x = 0;
  made.parameter = std::make_unique<std::byte[]>(bytes_of_list(call.bytes));
  return open_.emplace_back(std::move(made));
}

Status CallList::add(const Call& call) {
  Open& list = open(call);
  const std::size_t most = calls_of_list(call.bytes);
  constexpr std::uint32_t kMostBlocks = std::numeric_limits<std::int32_t>::max();
  if (list.count == most || call.shape.grid.x > kMostBlocks - list.shape.grid.x) RIDGE_CHECK_OK(launch(list));
  std::memcpy(list.parameter.get() + list.count * call.bytes, call.parameter, call.bytes);
  std::memcpy(list.parameter.get() + most * call.bytes + list.count * sizeof(std::uint32_t), &list.shape.grid.x,
              sizeof(std::uint32_t));
  ++list.count;
  list.shape.grid.x += call.shape.grid.x;
  return ok_status();
}

Status CallList::launch(Open& open) const {
  if (open.count == 0) return ok_status();
  const auto count = static_cast<std::uint32_t>(open.count);
  std::memcpy(open.parameter.get() + calls_of_list(open.bytes) * (open.bytes + sizeof count), &count, sizeof count);
  void* const parameter = open.parameter.get();  // its first call, where there is one alone
  const Status launched = (count == 1 ? open.single : open.list).launch(open.shape, {&parameter, 1}, stream_);
  open.count = 0;
  open.shape.grid.x = 0;
  return launched;
}

Status CallList::launch() {
  for (Open& open : open_) RIDGE_CHECK_OK(launch(open));
  return ok_status();
}

}  // namespace ridge::device::cuda
