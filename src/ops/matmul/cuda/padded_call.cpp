#include "ops/matmul/cuda/padded_call.h"

#include <algorithm>

#include "base/error.h"
#include "ops/matmul/values.h"
#include "ops/workspace.h"

namespace ridge::ops::matmul {
namespace {

constexpr const char* kCopied[] = {"a", "b", "scale_a", "scale_b"};  // by position
constexpr int kAlignment = 16;

const DescribedKernel& pad_rows() {
  static const DescribedKernel& kernel = described_kernel("ops/matmul/cuda_pad_rows.cu");
  return kernel;
}

record::PlanFacts facts_of(const ridge::cuda::GemmCase& g, std::vector<record::PlanOperand> operands) {
  record::PlanFacts facts;
  add_values(g, facts.values);
  facts.operands = std::move(operands);
  return facts;
}
// Before a call.
record::PlanFacts facts_of(const BeforeCall& known, const Problem& problem) {
  return facts_of(with_alignment(known, problem), plan_facts(problem).operands);
}

std::string chunks_of(const char* operand) { return std::string("chunks_") + operand; }

// Seconds of a launch and of a byte that is read and written, and of the plain kernel's multiply-adds, of which it
// reaches this part (measured: 40 TFLOP/s).
constexpr double kLaunch = 2.5e-6, kMultiplyAddsReached = 0.6;

double copy_seconds(const record::Variables& known, const DeviceInfo& device) {
  const double bandwidth =
      device.memory_bandwidth > 0 ? device.memory_bandwidth : ridge::cuda::DeviceFacts{}.memory_bandwidth;
  return kLaunch +
         2.0 * 16 * static_cast<double>(known.at("chunks")) / (bandwidth * ridge::cuda::model::kMemoryReached);
}

// Whole waves of its tiles of 128 x 128, at 128 multiply-adds a cycle of a multiprocessor.
double plain_seconds(const ridge::cuda::GemmCase& g, const DeviceInfo& device) {
  const ridge::cuda::DeviceFacts usual;
  const std::int64_t tiles = ridge::cuda::ceil_div(g.m, 128) * ridge::cuda::ceil_div(g.n, 128);
  const std::int64_t at_once = device.multiprocessors > 0 ? device.multiprocessors : usual.multiprocessors;
  const double clock = device.clock > 0 ? device.clock : usual.clock;
  return static_cast<double>(ridge::cuda::ceil_div(tiles, at_once)) * static_cast<double>(g.k) * 128 /
         (clock * kMultiplyAddsReached);
}

// Of the copies and then that configuration.
double expected_seconds(const BeforeCall& known, const Problem& problem, int configuration, const DeviceInfo& device) {
  const Result<record::Variables> facts = pad_rows().variables(0, facts_of(known, problem));
  return (facts ? copy_seconds(*facts, device) : 0) +
         wgmma_expected_seconds(known, padded(problem), configuration, device);
}

std::vector<KernelBuild> kernels(const BeforeCall& known, const Problem& problem, const DeviceInfo& device) {
  std::vector<KernelBuild> builds = wgmma_kernels(known, padded(problem), device);
  if (builds.empty()) return builds;
  if (Result<KernelBuild> copies = pad_rows().build(0, facts_of(known, problem))) builds.push_back(std::move(*copies));
  return builds;
}

}  // namespace

Problem padded(Problem problem) {
  problem.alignment.resize(problem.operands.size());
  for (std::size_t i = 0; i < std::size(kCopied) && i < problem.operands.size(); ++i) {
    if (problem.operands[i].name == kCopied[i]) problem.alignment[i] = kAlignment;
  }
  return problem;
}

Refusal padding_refuses(const BeforeCall& known, const Problem& problem, const DeviceInfo& device) {
  if (Refusal why = pad_rows().refuses(facts_of(known, problem))) return why;
  const ridge::cuda::GemmCase& g = known.g;
  const std::vector<int> ranked = wgmma_promising(known, padded(problem), device);
  if (ranked.empty()) return "no configuration of the kernel fits";
  const double own = expected_seconds(known, problem, ranked[0], device), plain = plain_seconds(g, device);
  if (own <= plain) return std::nullopt;
  return fmt::format("m={} n={} k={}: copies and product are expected to take {:.1f} us, the plain kernel {:.1f}", g.m,
                     g.n, g.k, own * 1e6, plain * 1e6);
}

void describe_padded(Implementation& own, BeforeCallOf before_call) {
  wgmma().describe(own);
  own.promising = [before_call](const Problem& problem, const DeviceInfo& device) {
    return wgmma_promising(before_call(problem), padded(problem), device);
  };
  own.expected_seconds = [before_call](const Problem& problem, int configuration, const DeviceInfo& device) {
    return expected_seconds(before_call(problem), problem, configuration, device);
  };
  own.kernels = [before_call](const Problem& problem, const DeviceInfo& device) {
    return kernels(before_call(problem), problem, device);
  };
}

Result<PaddedCall> PaddedCall::prepare(ridge::cuda::GemmCase g, const Problem& problem,
                                       std::span<const TensorView> operands, const gpu::Device& device,
                                       int multiprocessors) {
  const record::PlanFacts facts = facts_of(g, plan_operands(problem, operands));
  RIDGE_TRY(known, pad_rows().variables(0, facts));
  PaddedCall call;
  if (known.at("chunks") > 0) {
    RIDGE_TRY(copies, PlannedCall::prepare(pad_rows(), 0, facts, device, multiprocessors));
    call.copies_.emplace(std::move(copies));
  }
  std::int64_t* const strides[] = {&g.lda, &g.ldb, &g.scale_stride_a, &g.scale_stride_b};
  for (std::size_t i = 0; i < std::size(kCopied); ++i) {
    if (known.at(chunks_of(kCopied[i])) == 0) continue;
    call.copied_.push_back({i, call.copies_->workspace_offset(i)});
    *strides[i] =
        known.at(std::string("pitch_") + kCopied[i]) / static_cast<std::int64_t>(size_bytes(operands[i].dtype, 1));
  }
  g.base_alignment_ab = g.alignment_scale_a = g.alignment_scale_b = kAlignment;
  RIDGE_TRY(product,
            wgmma_call(g, facts.operands, problem.problem_case.text(), device, multiprocessors, problem.configuration));
  call.product_ = std::move(product);
  return call;
}

Status PaddedCall::launch(const Arguments& arguments, const Stream& stream) {
  const gpu::StreamHandle handle = gpu::handle_of(stream);
  if (!copies_) return product_.launch(arguments, handle);
  const std::size_t needed = copies_->workspace_bytes();
  if (arguments.workspace.size() < needed) {
    RIDGE_TRY(memory, Workspace::take(needed, stream));
    Arguments with = arguments;
    with.workspace = {static_cast<std::byte*>(memory.data()), needed};
    return launch(with, stream);
  }
  RIDGE_CHECK_OK(copies_->launch(arguments, handle));
  ShortList<TensorView, kWarmOperands> operands;
  operands.append(arguments.operands.data(), arguments.operands.size());
  for (const Copy& copy : copied_) operands[copy.operand].data = arguments.workspace.data() + copy.offset;
  return product_.launch({operands, arguments.scalars}, handle);
}

}  // namespace ridge::ops::matmul
