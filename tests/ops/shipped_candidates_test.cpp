// The CUDA candidates that campaigns start from launch the library's kernel as the library itself does: their launch
// plans, which are text, against cuda_wgmma_plan.h, for every configuration that ships.
#include <gtest/gtest.h>

#include "base/files.h"
#include "ops/gemm/cuda_wgmma_plan.h"
#include "record/campaign_block.h"
#include "record/launch_plan.h"
#include "record/tunables.h"

namespace ridge::ops {
namespace {

using ridge::cuda::GemmCase;
using ridge::cuda::WgmmaConfig;

constexpr int kMultiprocessors = 132;

std::string source_of(const std::string& name) {
  return *read_file(std::string(RIDGE_SOURCE_DIR) + "/data/candidates/" + name);
}

struct Shipped {
  record::Candidate candidate;
  record::LaunchPlan plan;
  std::vector<record::PlanOperand> operands;
  std::map<std::string, std::int64_t> params;
  GemmCase library;
};

record::PlanOperand matrix(const char* name, DType dtype, std::int64_t rows, std::int64_t columns) {
  return {name, dtype, {rows, columns}, {columns, 1}};
}

Shipped shipped(const std::string& file, std::int64_t m, std::int64_t n, std::int64_t k) {
  Shipped s;
  s.candidate.sources = {{file, source_of(file)}};
  s.plan = record::launch_plan(s.candidate).value();
  s.library.m = m;
  s.library.n = n;
  s.library.k = k;
  s.params = {
      {"m", m}, {"n", n}, {"k", k}, {"out", 0}, {"layout", 1}, {"accumulate", 0}, {"sm_count", kMultiprocessors}};
  if (file.starts_with("gemm_bf16")) {
    s.params.insert({{"dtype", 1}, {"batch", 1}, {"bias", 0}, {"activation", 0}, {"residual", 0}});
    s.operands = {matrix("a", DType::kBf16, m, k), matrix("b", DType::kBf16, n, k), matrix("c", DType::kBf16, m, n)};
    return s;
  }
  s.params.insert({{"dtype", 0}, {"scaling", 2}, {"sums", 1}});
  s.operands = {matrix("a", DType::kE4m3fn, m, k), matrix("b", DType::kE4m3fn, n, k),
                matrix("scale_a", DType::kF32, (k + 127) / 128, m),
                matrix("scale_b", DType::kF32, (n + 127) / 128, (k + 127) / 128), matrix("c", DType::kBf16, m, n)};
  s.library.type_a = s.library.type_b = ridge::cuda::GemmType::kE4m3;
  s.library.scaling = ridge::cuda::GemmScaling::kBlock;
  return s;
}

std::map<std::string, std::int64_t> defines_of(const WgmmaConfig& c, std::uint32_t group, std::uint32_t along) {
  std::map<std::string, std::int64_t> defines = {{"RIDGE_BLOCK_M", c.block_m},
                                                 {"RIDGE_BLOCK_N", c.block_n},
                                                 {"RIDGE_STAGES", c.stages},
                                                 {"RIDGE_CLUSTER_M", c.cluster_m},
                                                 {"RIDGE_CLUSTER_N", c.cluster_n},
                                                 {"RIDGE_SLAB_BUFFERS", c.slab_buffers},
                                                 {"GROUP", group},
                                                 {"GROUP_ALONG", along}};
  if (c.instruction_n != 0) {
    defines.insert({{"RIDGE_INSTRUCTION_N", c.instruction_n}, {"RIDGE_PARTS", c.parts}});
  } else {
    defines.insert({{"RIDGE_PINGPONG", c.pingpong ? 1 : 0}, {"RIDGE_SPLIT_K", c.split_k}});
  }
  return defines;
}

// The values of a struct of numbers, as the kernel reads them.
std::vector<std::uint64_t> numbers(const record::ResolvedParameter& parameter) {
  std::vector<std::uint64_t> found;
  for (const record::ResolvedArgument& part : parameter.parts) {
    if (part.kind == record::ResolvedArgument::Kind::kValue) found.push_back(part.bits);
  }
  return found;
}

void expect_same_map(const record::ResolvedTensorMap& map, const ridge::cuda::TensorMapSpec& wanted) {
  EXPECT_EQ(map.sizes, (std::vector<std::uint64_t>{static_cast<std::uint64_t>(wanted.inner),
                                                   static_cast<std::uint64_t>(wanted.outer)}));
  EXPECT_EQ(map.strides_bytes, std::vector<std::uint64_t>{static_cast<std::uint64_t>(wanted.row_bytes)});
  EXPECT_EQ(map.box, (std::vector<std::uint32_t>{static_cast<std::uint32_t>(wanted.box_inner),
                                                 static_cast<std::uint32_t>(wanted.box_outer)}));
  EXPECT_EQ(map.swizzle_bytes, 128);
}

void expect_same_launch(const Shipped& s, const WgmmaConfig& config) {
  SCOPED_TRACE(config.name);
  const ridge::cuda::WgmmaPlan wanted = plan_wgmma(s.library, config, kMultiprocessors);
  record::PlanFacts facts;
  facts.operands = s.operands;
  facts.values = s.params;
  for (const auto& [name, value] : defines_of(config, wanted.group, wanted.group_along)) facts.values[name] = value;
  const auto resolved = record::resolve(s.plan, facts);
  ASSERT_TRUE(resolved.ok()) << resolved.error().text();
  ASSERT_EQ(resolved->kernels.size(), 1u);
  const record::ResolvedKernel& kernel = resolved->kernels[0];
  EXPECT_EQ(kernel.grid[0], wanted.grid);
  EXPECT_EQ(kernel.block[0], wanted.block);
  EXPECT_EQ(kernel.cluster[0], wanted.cluster);
  EXPECT_EQ(kernel.shared_bytes, wanted.shared_bytes);
  ASSERT_EQ(resolved->tensor_maps.size(), 3u);
  expect_same_map(resolved->tensor_maps[0], wanted.a);
  expect_same_map(resolved->tensor_maps[1], wanted.b);
  expect_same_map(resolved->tensor_maps[2], wanted.c);
  // OutputView, TileGrid, k_blocks, ScaleView, EpilogueView: their sizes in the kernel's signature.
  ASSERT_EQ(kernel.parameters.size(), 8u);
  const std::size_t bytes[] = {128, 128, 128, 24, 16, 4, 32, 24};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(kernel.parameters[i].bytes, bytes[i]) << "parameter " << i;
  EXPECT_EQ(numbers(kernel.parameters[4]),
            (std::vector<std::uint64_t>{wanted.tile_rows, wanted.tile_cols, wanted.group, wanted.group_along}));
  EXPECT_EQ(numbers(kernel.parameters[5]), std::vector<std::uint64_t>{wanted.k_blocks});
  if (s.library.eight_bit()) {
    EXPECT_EQ(numbers(kernel.parameters[6]),
              (std::vector<std::uint64_t>{static_cast<std::uint64_t>(wanted.scale_stride_a),
                                          static_cast<std::uint64_t>(wanted.scale_stride_b)}));
  }
}

TEST(ShippedCandidate, OfBf16LaunchesAsTheLibraryDoes) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1024, 4096, 4096}, {2048, 2112, 7168}, {136, 72, 1000}}) {
    const Shipped s = shipped("gemm_bf16_wgmma.cu", m, n, k);
    for (const WgmmaConfig& config : ridge::cuda::kWgmmaConfigs) {
      if (config_fits(config, s.library)) expect_same_launch(s, config);
    }
  }
}

TEST(ShippedCandidate, OfBlockwiseFp8LaunchesAsTheLibraryDoes) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1024, 4096, 4096}, {2048, 2112, 7168}, {136, 72, 1008}}) {
    const Shipped s = shipped("gemm_fp8_blockwise_wgmma.cu", m, n, k);
    for (const WgmmaConfig& config : ridge::cuda::kPromotedConfigs) expect_same_launch(s, config);
  }
}

TEST(ShippedCandidate, RefusesWhatTheCopyEngineCannotAddress) {
  Shipped s = shipped("gemm_bf16_wgmma.cu", 128, 129, 128);
  record::PlanFacts facts{s.params, s.operands};
  const auto defines = record::define_values(s.candidate);
  ASSERT_TRUE(defines.ok());
  facts.values.insert(defines->begin(), defines->end());
  const auto resolved = record::resolve(s.plan, facts);
  ASSERT_FALSE(resolved.ok());
  EXPECT_EQ(resolved.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(resolved.error().message.find("16 bytes"), std::string::npos) << resolved.error().text();
}

TEST(ShippedCandidate, SaysWhatItIsFor) {
  for (const char* file : {"gemm_bf16_wgmma.cu", "gemm_fp8_blockwise_wgmma.cu"}) {
    const auto block = record::parse_campaign_block(source_of(file));
    ASSERT_TRUE(block.ok()) << block.error().text();
    ASSERT_TRUE(block->has_value());
    EXPECT_GE((*block)->cases.size(), 3u);
    EXPECT_FALSE((*block)->fixed().empty());
  }
  const auto fixed = (*record::parse_campaign_block(source_of("gemm_bf16_wgmma.cu")))->fixed();
  EXPECT_EQ(fixed, (std::vector<std::string>{"dtype=bf16", "layout=nt"}));
}

}  // namespace
}  // namespace ridge::ops
