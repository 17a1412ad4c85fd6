// Prepared launches of the two matrix product kernels, for the operators that are made of them: from a GemmCase (types,
// layouts, scales, epilogue) and the strides of a call to a kernel in memory.
#pragma once

#include <string>

#include "device/cuda/stream.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/planned_call.h"
#include "ops/matmul/cuda_wgmma_model.h"
#include "ops/matmul/operands.h"
#include "ops/op.h"

namespace ridge::ops::matmul {

namespace gpu = device::cuda;

// Why a GPU without wgmma takes none of these products, and what does.
Refusal no_wgmma(const DeviceInfo& device);

// A product as it is known before a call: its case, and the position of C among the operands, of which 0 and 1 are A
// and B, those of 8-bit products from 2 on the scales.
struct BeforeCall {
  ridge::cuda::GemmCase g;
  std::size_t c = 0;
};
using BeforeCallOf = BeforeCall (*)(const Problem&);
// Its case with the rows and starts that the alignments of the problem allow.
ridge::cuda::GemmCase with_alignment(BeforeCall known, const Problem& problem);

// The Hopper kernel, and why it cannot take a case whose A, B and C have the alignment that the problem knows; a call
// may pad its rows, so the alignment tells, not the dense stride.
const DescribedKernel& wgmma();
Refusal wgmma_refuses(BeforeCall known, const Problem& problem);

// What Implementation::promising, expected_seconds and kernels of the kernel's implementations say.
std::vector<int> wgmma_promising(BeforeCall known, const Problem& problem, const DeviceInfo& device);
double wgmma_expected_seconds(BeforeCall known, const Problem& problem, int configuration, const DeviceInfo& device);
std::vector<KernelBuild> wgmma_kernels(BeforeCall known, const Problem& problem, const DeviceInfo& device);
// Gives an implementation the kernel's configurations and these three.
void describe_wgmma(Implementation& own, BeforeCallOf before_call);
// The configuration that was asked for where it fits, else the one that the cost model expects to be fastest on so many
// multiprocessors of the device; on less than all none that runs in clusters, if another fits. -1: none.
int wgmma_choice(const ridge::cuda::GemmCase& g, const record::PlanFacts& facts, int asked, const DeviceInfo& device,
                 int multiprocessors);
// `g` and the operands with the strides of the call, which counts on so many multiprocessors. `label` goes into errors;
// a configuration of -1, or one that does not fit, leaves it to the cost model.
Result<PlannedCall> wgmma_call(const ridge::cuda::GemmCase& g, std::vector<record::PlanOperand> operands,
                               const std::string& label, const gpu::Device& device, int multiprocessors,
                               int configuration = -1);

// The same of the plain kernel, which has one configuration.
Refusal simt_refuses(const ridge::cuda::GemmCase& g, const DeviceInfo& device);
std::vector<KernelBuild> simt_kernels(const ridge::cuda::GemmCase& g);
Result<PlannedCall> simt_call(const ridge::cuda::GemmCase& g, std::vector<record::PlanOperand> operands,
                              const gpu::Device& device);

}  // namespace ridge::ops::matmul
