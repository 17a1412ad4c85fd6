// Our matrix products as their descriptions say, each configuration by itself, on addresses of this process.
#pragma once
#include <memory>

#include "device/cuda/plan.h"
#include "gemm_shape.h"
#include "ops/cuda/kernels.h"

namespace ridge::gpu {

inline constexpr const char* kHarness = "bench/gpu/harness.cu";

inline const ops::DescribedKernel& wgmma() { return ops::described_kernel(cuda::kWgmmaSource); }
inline const ops::DescribedKernel& simt() { return ops::described_kernel("ops/matmul/cuda_simt.cu"); }

// What a product reads besides A and B.
struct Extras {
  Address scale_a = 0, scale_b = 0, bias = 0, residual = 0;
};

inline DType dtype_of(GemmType type) {
  constexpr DType kTypes[] = {DType::kBf16, DType::kF16, DType::kF32, DType::kE4m3fn, DType::kE5m2, DType::kF32};
  return kTypes[static_cast<int>(type)];
}

// What the cost model asks of this device.
inline cuda::DeviceFacts device_facts() {
  return {gpu().info().multiprocessors, static_cast<double>(gpu().info().l2_bytes), gpu().memory_bandwidth(),
          gpu().clock()};
}

// What the descriptions may say of a case: its scales are dense.
inline record::PlanFacts facts_of(GemmCase g) {
  if (g.scaling != GemmScaling::kNone) {
    g.scale_stride_a = g.m;
    g.scale_stride_b = g.scaling == GemmScaling::kBlock ? cuda::ceil_div(g.k, 128) : g.n;
  }
  record::PlanFacts facts;
  ops::matmul::add_values(g, facts.values);
  facts.values["sm_count"] = gpu().info().multiprocessors;
  const auto operand = [&](const char* name, GemmType type) {
    facts.operands.push_back({name, dtype_of(type), {1, 1}, {1, 1}});
  };
  operand("a", g.type_a);
  operand("b", g.type_b);
  for (const char* name : {"scale_a", "scale_b"}) operand(name, GemmType::kF32);
  for (const char* name : {"bias", "residual", "c"}) operand(name, g.type_c);
  return facts;
}

inline std::optional<std::string> wgmma_refuses(const GemmCase& g) {
  if (auto why = cuda::gemm_refuses(g)) return why;
  return wgmma().refuses(facts_of(g));
}
inline bool config_fits(int config, const GemmCase& g) {
  return !cuda::gemm_refuses(g) && wgmma().fits(config, facts_of(g));
}
// What the cost model chooses; -1 where nothing fits.
inline int choose_wgmma(const GemmCase& g) {
  if (cuda::gemm_refuses(g)) return -1;
  const auto ranked = cuda::rank_wgmma(g, wgmma().fitting(facts_of(g)), cuda::wgmma_configs(), device_facts());
  return ranked.empty() ? -1 : ranked[0];
}
inline const WgmmaConfig& config_at(int index) { return cuda::wgmma_configs()[static_cast<std::size_t>(index)]; }

// A configuration for a case, its kernel compiled and loaded; an error where it does not compile.
inline Result<device::cuda::PreparedPlan> prepare(const ops::DescribedKernel& kernel, int config, const GemmCase& g,
                                                  bool overlap_previous = false) {
  const record::PlanFacts facts = facts_of(g);
  RIDGE_TRY(build, kernel.build(config, facts));
  RIDGE_TRY(plan, kernel.resolve(config, facts));
  for (record::ResolvedKernel& step : plan.kernels) step.overlap_previous = overlap_previous;
  const auto find = [&](const record::ResolvedKernel& step) {
    const bool large = step.cluster[0] * step.cluster[1] * step.cluster[2] > 8;
    return ops::device_kernel(*gpu().device, {build.source, build.defines, step.symbol, step.shared_bytes, large});
  };
  return device::cuda::PreparedPlan::prepare(find, plan, gpu().info());
}

// Compiles a list at once, so that a benchmark does not pay for one build after the other. What does not compile says
// so when it is prepared again.
struct Wanted {
  int config;
  GemmCase g;
};
inline void compile_all(const std::vector<Wanted>& wanted) {
  in_parallel(wanted.size(), [&](std::size_t i) { (void)prepare(wgmma(), wanted[i].config, wanted[i].g); });
}

// A launch with its arguments and its encoded maps, so that timing measures the launch alone.
class ReadyGemm {
 public:
  ReadyGemm(const device::cuda::PreparedPlan& plan, Address a, Address b, Address c, const Extras& extras = {}) {
    std::vector<void*> addresses;
    for (const Address address : {a, b, extras.scale_a, extras.scale_b, extras.bias, extras.residual, c})
      addresses.push_back(reinterpret_cast<void*>(address));
    bound_ = std::make_shared<device::cuda::BoundPlan>(must(plan.bind(addresses, {})));
  }
  void launch(StreamHandle stream) const { must(bound_->launch(stream)); }

 private:
  std::shared_ptr<device::cuda::BoundPlan> bound_;
};

inline ReadyGemm ready(const ops::DescribedKernel& kernel, int config, const GemmCase& g, Address a, Address b,
                       Address c, const Extras& extras = {}, bool overlap_previous = false) {
  return {must(prepare(kernel, config, g, overlap_previous)), a, b, c, extras};
}

}  // namespace ridge::gpu
