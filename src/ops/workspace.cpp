#include "ops/workspace.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/cuda/device.h"

namespace ridge::ops {
namespace {

constexpr std::size_t kAlignment = 256;

struct Free {
  void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t{kAlignment}); }
};

// Memory of one thread, whose calls end before they return. A call within a call takes another block.
class HostPool {
 public:
  void* take(std::size_t bytes) {
    for (Block& block : blocks_) {
      if (block.used || block.bytes < bytes) continue;
      block.used = true;
      return block.data.get();
    }
    auto* const fresh = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kAlignment}, std::nothrow));
    if (fresh == nullptr) return nullptr;
    // One that was too small would never be asked for again.
    const auto small = std::ranges::find_if(blocks_, [](const Block& block) { return !block.used; });
    if (small != blocks_.end()) blocks_.erase(small);
    blocks_.push_back({std::unique_ptr<std::byte[], Free>(fresh), bytes, true});
    return fresh;
  }
  void give_back(const void* data) {
    for (Block& block : blocks_) {
      if (block.data.get() == data) block.used = false;
    }
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes;
    return sum;
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[], Free> data;
    std::size_t bytes = 0;
    bool used = false;
  };
  std::vector<Block> blocks_;
};

HostPool& host_pool() {
  static thread_local HostPool pool;
  return pool;
}

Error no_memory(std::size_t bytes, std::string_view from) {
  return with_hint(make_error(ErrorCode::kUnsupported, "{} has no {} bytes for a workspace", from, bytes),
                   "free memory, or use an implementation that needs none (ridge ops explain lists them)");
}

}  // namespace

Result<Workspace> Workspace::take(std::size_t bytes, const Stream& stream) {
  if (stream.allocator != nullptr) {
    void* const data = stream.allocator->allocate(stream.allocator->context, bytes, stream);
    if (data == nullptr) return no_memory(bytes, "the stream's allocator");
    return Workspace(data, bytes, stream, false);
  }
  if (stream.backend == Backend::kCpu) {
    void* const data = host_pool().take(bytes);
    if (data == nullptr) return no_memory(bytes, "this machine");
    return Workspace(data, bytes, stream, false);
  }
  RIDGE_TRY(given, take_device_workspace(bytes, stream));
  return Workspace(given.data, bytes, stream, given.recorded);
}

Workspace::Workspace(Workspace&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      stream_(other.stream_),
      recorded_(other.recorded_) {}

Workspace::~Workspace() {
  if (data_ == nullptr) return;
  if (stream_.allocator != nullptr) {
    stream_.allocator->release(stream_.allocator->context, data_, bytes_, stream_);
  } else if (stream_.backend == Backend::kCpu) {
    host_pool().give_back(data_);
  } else {
    give_back_device_workspace({data_, recorded_}, stream_);
  }
}

std::size_t pooled_workspace_bytes(Backend backend) {
  return backend == Backend::kCpu ? host_pool().bytes() : pooled_device_workspace_bytes();
}

}  // namespace ridge::ops
