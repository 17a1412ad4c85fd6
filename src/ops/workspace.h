// Scratch memory of one call, for as long as this object lives: from the allocator that the stream names, else from a
// pool of the stream's, else, while a graph is recorded on it, from the graph itself: memory that a pool gave to one
// graph would be written by two that run side by side.
#pragma once

#include <cstddef>

#include "ridge/result.h"
#include "ridge/stream.h"

namespace ridge::ops {

class Workspace {
 public:
  // Aligned to 256 bytes; its content is undefined.
  static Result<Workspace> take(std::size_t bytes, const Stream& stream);
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) = delete;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace();

  [[nodiscard]] void* data() const { return data_; }

 private:
  Workspace(void* data, std::size_t bytes, const Stream& stream, bool recorded)
      : data_(data), bytes_(bytes), stream_(stream), recorded_(recorded) {}

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Stream stream_;
  bool recorded_ = false;  // belongs to a graph
};

// How many bytes the pools of this process hold, in use or not; of this thread on a processor, of all streams on a GPU.
std::size_t pooled_workspace_bytes(Backend backend);

}  // namespace ridge::ops
