// Our matrix products as their descriptions say, each configuration by itself, on addresses of this process.
#pragma once
#include <memory>

#include "device/cuda/plan.h"
#include "gemm_shape.h"
#include "ops/cuda/kernels.h"

namespace ridge::gpu {

inline constexpr const char* kHarness = "bench/gpu/harness.cu";

inline const ops::DescribedKernel& wgmma() { return ops::described_kernel(cuda::kWgmmaSource); }
inline const ops::DescribedKernel& pad_rows() { return ops::described_kernel("ops/matmul/cuda_pad_rows.cu"); }
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

// What a row of so many bytes lets all rows of dense memory start on, up to 16.
inline int alignment_of_rows(std::int64_t bytes) {
  return static_cast<int>(std::min<std::int64_t>(16, bytes & -bytes));
}

// What the descriptions may say of a case: its scales are dense, unless it says how far apart their rows are.
inline record::PlanFacts facts_of(GemmCase g) {
  if (g.scaling != GemmScaling::kNone) {
    if (g.scale_stride_a == 0) g.scale_stride_a = g.m;
    if (g.scale_stride_b == 0) g.scale_stride_b = g.scaling == GemmScaling::kBlock ? cuda::ceil_div(g.k, 128) : g.n;
    g.alignment_scale_a = alignment_of_rows(g.scale_stride_a * 4);
    g.alignment_scale_b = alignment_of_rows(g.scale_stride_b * 4);
  }
  record::PlanFacts facts;
  ops::matmul::add_values(g, facts.values);
  facts.values["sm_count"] = gpu().info().multiprocessors;
  const auto operand = [&](const char* name, GemmType type) {
    facts.operands.push_back({name, dtype_of(type), {1, 1}, {1, 1}});
  };
  operand("a", g.type_a);
  operand("b", g.type_b);
  facts.operands[0].alignment = alignment_of_rows(g.row_a() * cuda::bytes_of(g.type_a));
  facts.operands[1].alignment = alignment_of_rows(g.row_b() * cuda::bytes_of(g.type_b));
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

// The case of the copies that are made of operands whose rows do not start on 16 bytes.
inline GemmCase padded(GemmCase g) {
  const record::Variables known = must(pad_rows().variables(0, facts_of(g)));
  const std::int64_t size = cuda::bytes_of(g.type_a);
  if (known.at("chunks_a") > 0) g.lda = known.at("pitch_a") / size;
  if (known.at("chunks_b") > 0) g.ldb = known.at("pitch_b") / size;
  if (known.at("chunks_scale_a") > 0) g.scale_stride_a = known.at("pitch_scale_a") / 4;
  if (known.at("chunks_scale_b") > 0) g.scale_stride_b = known.at("pitch_scale_b") / 4;
  return g;
}

// The copies of those operands and then the product, in memory of its own.
class PaddedGemm {
 public:
  PaddedGemm(int config, const GemmCase& g, Address a, Address b, Address c, const Extras& extras) {
    const device::cuda::PreparedPlan plan = must(prepare(pad_rows(), 0, g));
    std::vector<void*> workspaces;
    Address given[] = {a, b, extras.scale_a, extras.scale_b};
    for (std::size_t i = 0; i < std::size(given); ++i) {
      const std::size_t bytes = plan.workspace_bytes()[i];
      memory_.push_back(bytes == 0 ? Buffer() : Buffer(bytes));
      workspaces.push_back(bytes == 0 ? nullptr : reinterpret_cast<void*>(memory_.back().get()));
    }
    std::vector<void*> addresses;
    for (const Address address : {a, b, extras.scale_a, extras.scale_b, extras.bias, extras.residual, c})
      addresses.push_back(reinterpret_cast<void*>(address));
    copies_ = std::make_shared<device::cuda::BoundPlan>(must(plan.bind(addresses, workspaces)));
    for (std::size_t i = 0; i < std::size(given); ++i) {
      if (workspaces[i] != nullptr) given[i] = memory_[i].get();
    }
    product_.emplace(
        ready(wgmma(), config, padded(g), given[0], given[1], c, {given[2], given[3], extras.bias, extras.residual}));
  }
  void launch(StreamHandle stream) const {
    must(copies_->launch(stream));
    product_->launch(stream);
  }

 private:
  std::vector<Buffer> memory_;
  std::shared_ptr<device::cuda::BoundPlan> copies_;
  std::optional<ReadyGemm> product_;
};

}  // namespace ridge::gpu
