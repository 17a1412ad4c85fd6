#include "ops/matmul/cuda/tf32_product.h"

#include <memory>
#include <optional>

#include "ops/matmul/cuda/calls.h"
#include "ops/matmul/cuda_cublaslt.h"
#include "ops/workspace.h"

namespace ridge::ops::matmul {
namespace {

// Prepared by the first launch, which is where a refusal shows.
template <class Prepared, class Prepare, class Launch>
std::function<Status(gpu::StreamHandle)> prepared_once(Prepare prepare, Launch launch) {
  auto ready = std::make_shared<std::optional<Prepared>>();
  return [ready, prepare, launch](gpu::StreamHandle stream) -> Status {
    if (!*ready) {
      RIDGE_TRY(made, prepare());
      *ready = std::move(made);
    }
    return launch(**ready, stream);
  };
}

}  // namespace

std::vector<Tf32Way> tf32_ways(const gpu::Device& device, const TensorView& a, const TensorView& b,
                               const TensorView& c) {
  const auto own = [&device, a, b, c] {
    ridge::cuda::GemmCase g;
    g.m = c.shape[0];
    g.n = c.shape[1];
    g.k = a.shape[1];
    g.type_a = g.type_b = ridge::cuda::GemmType::kTf32;
    g.type_c = ridge::cuda::GemmType::kF32;
    const auto operand = [](const char* name, const TensorView& view) {
      return record::PlanOperand{name, view.dtype, {view.shape[0], view.shape[1]}, {view.stride[0], view.stride[1]}};
    };
    return wgmma_call(with_memory(g, a, b, c), {operand("a", a), operand("b", b), operand("c", c)}, "tf32", device,
                      device.info().multiprocessors);
  };
  const auto vendor = [&device, a, b, c]() -> Result<peer::Matmul> {
    if (auto why = peer::why_not_installed()) return make_error(ErrorCode::kUnsupported, "{}", *why);
    return peer::Matmul::create("tf32", peer::PeerCase{.trans_b = true, .tf32 = true}, a, b, c, device);
  };
  return {
      {"cuda_wgmma", prepared_once<PlannedCall>(own,
                                                [a, b, c](PlannedCall& call, gpu::StreamHandle stream) {
                                                  return call.launch(std::array{a, b, c}, stream);
                                                })},
      {"cuda_cublaslt",
       prepared_once<peer::Matmul>(vendor, [&device, a, b, c](peer::Matmul& call, gpu::StreamHandle stream) -> Status {
         RIDGE_TRY(scratch, Workspace::take(peer::kWorkspaceBytes, ridge::Stream::cuda(stream, device.info().index)));
         const std::span<std::byte> bytes(static_cast<std::byte*>(scratch.data()), peer::kWorkspaceBytes);
         return call.launch(a.data, b.data, c.data, nullptr, nullptr, bytes, stream);
       })}};
}

}  // namespace ridge::ops::matmul
