#include "ops/matmul/cuda/calls.h"

#include "base/error.h"
#include "ops/cuda/device.h"
#include "ops/matmul/values.h"
#include "record/architecture.h"

namespace ridge::ops::matmul {
namespace {

const DescribedKernel& simt() {
  static const DescribedKernel& kernel = described_kernel("ops/matmul/cuda_simt.cu");
  return kernel;
}

record::PlanFacts facts_of(const ridge::cuda::GemmCase& g, std::vector<record::PlanOperand> operands = {}) {
  record::PlanFacts facts;
  add_values(g, facts.values);
  facts.operands = std::move(operands);
  return facts;
}

// What the driver does not say is taken to be an H100's.
ridge::cuda::DeviceFacts device_facts(const DeviceInfo& device) {
  ridge::cuda::DeviceFacts facts;
  if (device.multiprocessors > 0) facts.multiprocessors = device.multiprocessors;
  if (device.l2_bytes > 0) facts.l2_bytes = device.l2_bytes;
  if (device.memory_bandwidth > 0) facts.memory_bandwidth = device.memory_bandwidth;
  if (device.clock > 0) facts.clock = device.clock;
  return facts;
}

bool empty(const ridge::cuda::GemmCase& g) { return g.m == 0 || g.n == 0 || g.k == 0; }

bool runs_in_clusters(int configuration) {
  const ridge::cuda::WgmmaConfig& config = ridge::cuda::wgmma_configs()[static_cast<std::size_t>(configuration)];
  return config.cluster_m * config.cluster_n * config.split_k > 1;
}

}  // namespace

ridge::cuda::GemmCase with_alignment(BeforeCall known, const Problem& problem) {
  ridge::cuda::GemmCase& g = known.g;
  const std::size_t c = known.c;
  g.lda = padded_row(g.row_a(), problem.operands[0].dtype, operand_alignment(problem, 0));
  g.ldb = padded_row(g.row_b(), problem.operands[1].dtype, operand_alignment(problem, 1));
  g.ldc = padded_row(g.row_c(), problem.operands[c].dtype, operand_alignment(problem, c));
  g.base_alignment_c = operand_alignment(problem, c);
  if (g.scaling != ridge::cuda::GemmScaling::kNone) {
    g.alignment_scale_a = operand_alignment(problem, 2);
    g.alignment_scale_b = operand_alignment(problem, 3);
  }
  return g;
}

const DescribedKernel& wgmma() {
  static const DescribedKernel& kernel = described_kernel(ridge::cuda::kWgmmaSource);
  return kernel;
}

Refusal no_wgmma(const DeviceInfo& device) {
  if (device.has("wgmma")) return std::nullopt;
  return fmt::format("{} ({}) has no wgmma: these kernels are Hopper's (sm_90a); {}", device.name, device.arch,
                     record::at_least(device.arch, "sm_89") ? "cuBLASLt runs its products" : "allow cuBLASLt");
}

Refusal wgmma_refuses(BeforeCall known, const Problem& problem) {
  const int a = operand_alignment(problem, 0), b = operand_alignment(problem, 1);
  if (empty(known.g)) return std::nullopt;
  if (std::min(a, b) < 16) {
    return fmt::format("rows of {} start on multiples of {} bytes; the copy engine needs 16 (pad them)",
                       a <= b ? "A" : "B", std::min(a, b));
  }
  const ridge::cuda::GemmCase g = with_alignment(known, problem);
  if (auto why = ridge::cuda::gemm_refuses(g)) return why;
  const record::PlanFacts facts = facts_of(g);
  if (auto why = wgmma().refuses(facts)) return why;
  if (!wgmma().fitting(facts).empty()) return std::nullopt;
  return fmt::format("no configuration of the kernel fits m={} n={} k={}", g.m, g.n, g.k);
}

std::vector<int> wgmma_promising(BeforeCall known, const Problem& problem, const DeviceInfo& device) {
  const ridge::cuda::GemmCase g = with_alignment(known, problem);
  return ridge::cuda::rank_wgmma(g, wgmma().fitting(facts_of(g)), ridge::cuda::wgmma_configs(), device_facts(device));
}

double wgmma_expected_seconds(BeforeCall known, const Problem& problem, int configuration, const DeviceInfo& device) {
  return ridge::cuda::estimate_seconds(with_alignment(known, problem),
                                       ridge::cuda::wgmma_configs()[static_cast<std::size_t>(configuration)],
                                       device_facts(device));
}

int wgmma_choice(const ridge::cuda::GemmCase& g, const record::PlanFacts& facts, int asked, const DeviceInfo& device,
                 int multiprocessors) {
  std::vector<int> fitting = wgmma().fitting(facts);
  // Clusters lie within groups of multiprocessors. Where others hold one here and one there, fewer fit than the number
  // that is left says, and those that do not would wait for a whole turn.
  const bool whole = multiprocessors == device.multiprocessors;
  if (!whole && !std::ranges::all_of(fitting, runs_in_clusters)) std::erase_if(fitting, runs_in_clusters);
  if (std::ranges::find(fitting, asked) != fitting.end()) return asked;
  ridge::cuda::DeviceFacts share = device_facts(device);
  if (!whole) share.multiprocessors = multiprocessors;
  const std::vector<int> ranked = ridge::cuda::rank_wgmma(g, fitting, ridge::cuda::wgmma_configs(), share);
  return ranked.empty() ? -1 : ranked[0];
}

std::vector<KernelBuild> wgmma_kernels(BeforeCall known, const Problem& problem, const DeviceInfo& device) {
  if (empty(known.g)) return {};
  const ridge::cuda::GemmCase g = with_alignment(known, problem);
  const record::PlanFacts facts = facts_of(g);
  const int configuration = wgmma_choice(g, facts, problem.configuration, device, device.multiprocessors);
  if (configuration < 0) return {};
  Result<KernelBuild> build = wgmma().build(configuration, facts);
  return build ? std::vector{std::move(*build)} : std::vector<KernelBuild>();
}

void describe_wgmma(Implementation& own, BeforeCallOf before_call) {
  wgmma().describe(own);
  own.promising = [before_call](const Problem& problem, const DeviceInfo& device) {
    return wgmma_promising(before_call(problem), problem, device);
  };
  own.expected_seconds = [before_call](const Problem& problem, int configuration, const DeviceInfo& device) {
    return wgmma_expected_seconds(before_call(problem), problem, configuration, device);
  };
  own.kernels = [before_call](const Problem& problem, const DeviceInfo& device) {
    return wgmma_kernels(before_call(problem), problem, device);
  };
}

Result<PlannedCall> wgmma_call(const ridge::cuda::GemmCase& g, std::vector<record::PlanOperand> operands,
                               const std::string& label, const gpu::Device& device, int multiprocessors,
                               int configuration) {
  const record::PlanFacts facts = facts_of(g, std::move(operands));
  Refusal why = ridge::cuda::gemm_refuses(g);
  if (!why) why = wgmma().refuses(facts);
  const int found = why ? -1 : wgmma_choice(g, facts, configuration, device_info_of(device.info()), multiprocessors);
  if (found < 0) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{}: {}", label, why.value_or("no configuration of the kernel fits")),
        "allow the plain kernel or cuBLASLt");
  }
  return PlannedCall::prepare(wgmma(), found, facts, device, multiprocessors);
}

Refusal simt_refuses(const ridge::cuda::GemmCase& g, const DeviceInfo& device) {
  if (!record::at_least(device.arch, "sm_90")) {
    return fmt::format("{} ({}): built for Hopper and newer", device.name, device.arch);
  }
  return simt().refuses(facts_of(g));
}

std::vector<KernelBuild> simt_kernels(const ridge::cuda::GemmCase& g) {
  Result<KernelBuild> build = simt().build(0, facts_of(g));
  return build ? std::vector{std::move(*build)} : std::vector<KernelBuild>();
}

Result<PlannedCall> simt_call(const ridge::cuda::GemmCase& g, std::vector<record::PlanOperand> operands,
                              const gpu::Device& device) {
  return PlannedCall::prepare(simt(), 0, facts_of(g, std::move(operands)), device, device.info().multiprocessors);
}

}  // namespace ridge::ops::matmul
