// Workspaces on a GPU: blocks of a stream, in whose order the work that uses them runs, and memory of a graph while
// one is recorded.
#include <algorithm>
#include <list>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device.h"

namespace ridge::ops {
namespace {

namespace gpu = device::cuda;

// Streams come and go; what the one asked least recently has is freed, which waits for its work.
constexpr std::size_t kMostStreams = 32;

struct Block {
  gpu::Buffer memory;
  bool used = false;
};
struct StreamPool {
  int device = 0;
  const void* native = nullptr;
  std::vector<Block> blocks;
};

struct Pools {
  std::mutex mutex;
  std::list<StreamPool> streams;  // asked most recently first
};
Pools& pools() {
  static auto* const instance = new Pools;  // never deleted: the driver may be gone before static objects are
  return *instance;
}

std::vector<Block>& blocks_of(Pools& all, const Stream& stream) {
  const auto found = std::ranges::find_if(
      all.streams, [&](const StreamPool& one) { return one.device == stream.device && one.native == stream.native; });
  if (found != all.streams.end()) {
    all.streams.splice(all.streams.begin(), all.streams, found);
    return all.streams.front().blocks;
  }
  if (all.streams.size() >= kMostStreams) {
    const auto idle = std::find_if(all.streams.rbegin(), all.streams.rend(), [](const StreamPool& one) {
      return std::ranges::none_of(one.blocks, &Block::used);
    });
    if (idle != all.streams.rend()) all.streams.erase(std::next(idle).base());
  }
  all.streams.push_front({stream.device, stream.native, {}});
  return all.streams.front().blocks;
}

}  // namespace

Result<DeviceWorkspace> take_device_workspace(std::size_t bytes, const Stream& stream) {
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(device, gpu::Device::open(stream.device));
  RIDGE_CHECK_OK(device->make_current());
  RIDGE_TRY(capturing, gpu::is_capturing(handle));
  if (capturing) {
    RIDGE_TRY(data, gpu::record_allocation(bytes, handle));
    return DeviceWorkspace{data, true};
  }
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  std::vector<Block>& blocks = blocks_of(all, stream);
  for (Block& block : blocks) {
    if (block.used || block.memory.bytes() < bytes) continue;
    block.used = true;
    return DeviceWorkspace{block.memory.data(), false};
  }
  std::erase_if(blocks, [](const Block& block) { return !block.used; });  // too small for ever; waits for their work
  RIDGE_TRY(fresh, gpu::Buffer::allocate(*device, bytes));
  blocks.push_back({std::move(fresh), true});
  return DeviceWorkspace{blocks.back().memory.data(), false};
}

void give_back_device_workspace(const DeviceWorkspace& workspace, const Stream& stream) {
  if (workspace.recorded) return gpu::record_release(workspace.data, gpu::handle_of(stream));
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  for (StreamPool& pool : all.streams) {
    for (Block& block : pool.blocks) {
      if (block.memory.data() == workspace.data) block.used = false;
    }
  }
}

std::size_t pooled_device_workspace_bytes() {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  std::size_t bytes = 0;
  for (const StreamPool& pool : all.streams) {
    for (const Block& block : pool.blocks) bytes += block.memory.bytes();
  }
  return bytes;
}

}  // namespace ridge::ops
