// Work recorded once and launched as a whole: one call of the host for many launches.
#pragma once

#include <functional>

#include "device/cuda/backend.h"
#include "device/cuda/device.h"

namespace ridge::device::cuda {

class Graph {
 public:
  // Records what `work` enqueues on the stream it is given; nothing runs. When `work` fails its error comes back and
  // the recording is dropped.
  static Result<Graph> capture(const Device& device, const std::function<Status(StreamHandle)>& work);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  [[nodiscard]] Status launch(StreamHandle stream) const;
  [[nodiscard]] std::size_t nodes() const { return nodes_; }

 private:
  Graph(CUgraphExec_st* handle, std::size_t nodes) : handle_(handle), nodes_(nodes) {}
  CUgraphExec_st* handle_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace ridge::device::cuda
