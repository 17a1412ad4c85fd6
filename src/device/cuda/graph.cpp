#include "device/cuda/graph.h"

#include <utility>

#include "device/cuda/driver.h"
#include "device/cuda/stream.h"

namespace ridge::device::cuda {

Result<Graph> Graph::capture(const Device& device, const std::function<Status(StreamHandle)>& work) {
  const Driver& d = driver();
  RIDGE_TRY(stream, Stream::create(device));
  RIDGE_CHECK_OK(
      check(d.cuStreamBeginCapture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture"));
  const Status enqueued = work(stream.handle());
  CUgraph graph{};
  const CUresult ended = d.cuStreamEndCapture(stream.handle(), &graph);
  if (!enqueued) {
    if (graph != nullptr) d.cuGraphDestroy(graph);
    return enqueued.error();
  }
  RIDGE_CHECK_OK(check(ended, "cuStreamEndCapture"));
  std::size_t nodes = 0;
  CUgraphExec instance{};
  const CUresult counted = d.cuGraphGetNodes(graph, nullptr, &nodes);
  const CUresult made = counted == CUDA_SUCCESS ? d.cuGraphInstantiateWithFlags(&instance, graph, 0) : counted;
  d.cuGraphDestroy(graph);
  RIDGE_CHECK_OK(check(made, "cuGraphInstantiate"));
  return Graph(instance, nodes);
}

Graph::Graph(Graph&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), nodes_(std::exchange(other.nodes_, 0)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

Graph::~Graph() {
  if (handle_ != nullptr) driver().cuGraphExecDestroy(handle_);
}

Status Graph::launch(StreamHandle stream) const {
  return check(driver().cuGraphLaunch(handle_, stream), "cuGraphLaunch");
}

}  // namespace ridge::device::cuda
