// Matrix products whose operands the copy engine cannot read where they lie: copies of them with rows on 16 bytes
// (matmul/cuda_pad_rows.cu), and the Hopper kernel on the copies.
#pragma once

#include <optional>
#include <vector>

#include "ops/matmul/cuda/calls.h"

namespace ridge::ops::matmul {

// The problem with its copies in place of the operands that are copied: aligned to 16 bytes. Operands are A, B and, of
// 8-bit products, the scales of both.
Problem padded(Problem problem);

// Why there is nothing to copy, or the plain kernel is expected to be done sooner; of a problem whose copies the Hopper
// kernel takes.
Refusal padding_refuses(const BeforeCall& known, const Problem& problem, const DeviceInfo& device);
// As describe_wgmma, of the copies and the kernel behind them.
void describe_padded(Implementation& own, BeforeCallOf before_call);

class PaddedCall {
 public:
  // `g` with the memory of the operands.
  static Result<PaddedCall> prepare(ridge::cuda::GemmCase g, const Problem& problem,
                                    std::span<const TensorView> operands, const gpu::Device& device,
                                    int multiprocessors);
  // In the workspace of the arguments, or in one of the stream's where that is too small.
  Status launch(const Arguments& arguments, const Stream& stream);

 private:
  struct Copy {
    std::size_t operand = 0, offset = 0;  // bytes into the workspace
  };
  std::optional<PlannedCall> copies_;  // none of a matrix of a batch that lies well
  PlannedCall product_;
  std::vector<Copy> copied_;
};

}  // namespace ridge::ops::matmul
