// What the kernels for GPUs of quantize, dequantize and attention are launched with. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/arguments.h"
#include "ops/described_kernel.h"

namespace ridge::ops {
namespace {

using record::ResolvedPlan;
using testing::ElementsAre;
using testing::HasSubstr;

Problem problem_of(const std::string& text) {
  const auto parsed = record::parse_case(text);
  return (*find_operator(parsed->op))->bind(*parsed).value();
}

ResolvedPlan plan_of(const char* source, const Problem& problem, std::span<const TensorView> views) {
  record::PlanFacts facts = plan_facts(problem, views);
  facts.values["sm_count"] = 132;
  return described_kernel(source).resolve(0, facts).value();
}

std::vector<TensorView> dense_views(const Problem& problem) {
  std::vector<TensorView> views;
  for (const OperandSpec& operand : problem.operands) views.push_back(dense_view(operand, nullptr));
  return views;
}

std::vector<std::string> symbols(const ResolvedPlan& plan) {
  std::vector<std::string> all;
  for (const auto& kernel : plan.kernels) all.push_back(kernel.symbol);
  return all;
}

constexpr const char* kQuantize = "ops/quantize/cuda_quantize.cu";

TEST(QuantizePlan, ScalesKnownAtTheEndAreClearedAndFoundFirst) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("quantize rows=300 cols=200 " + words);
    return plan_of(kQuantize, problem, dense_views(problem));
  };
  const ResolvedPlan rows = plan("scaling=row copies=both");
  EXPECT_THAT(symbols(rows), ElementsAre("ridge_quantize_amax", "ridge_quantize_scales", "ridge_quantize"));
  ASSERT_EQ(rows.clears.size(), 2u);
  EXPECT_EQ(rows.clears[0].bytes, 300u * 4);
  EXPECT_EQ(rows.clears[1].operand, 4u);
  EXPECT_EQ(rows.clears[1].bytes, 200u * 4);
  EXPECT_EQ(rows.kernels[1].grid[0], 2u) << "500 scales";
  EXPECT_EQ(rows.kernels[2].grid[0], 6u) << "3 x 2 tiles";
  EXPECT_EQ(rows.kernels[2].parameters[0].bytes, 128u);
  const ResolvedPlan tensor = plan("scaling=tensor copies=both rounding=stochastic");
  ASSERT_EQ(tensor.clears.size(), 1u) << "one magnitude for both copies";
  EXPECT_EQ(tensor.clears[0].operand, 3u);
  EXPECT_EQ(tensor.clears[0].bytes, 4u);
  const ResolvedPlan blocks = plan("scaling=128x128 copies=column");
  EXPECT_TRUE(blocks.clears.empty());
  EXPECT_THAT(symbols(blocks), ElementsAre("ridge_quantize"));
}

TEST(QuantizePlan, RefusesMoreTilesThanAGridHas) {
  const DescribedKernel& kernel = described_kernel(kQuantize);
  EXPECT_EQ(kernel.refuses(plan_facts(problem_of("quantize rows=4194304 cols=8388480"))).value_or(""), "");
  EXPECT_THAT(kernel.refuses(plan_facts(problem_of("quantize rows=4194304 cols=8388608"))).value_or(""),
              HasSubstr("at most 2147483647 tiles of 128 x 128: rows=4194304 tile_cols=65536"));
}

TEST(DequantizePlan, VectorsNeedBothMatricesAlignedAndAnEmptyOneIsNotLaunched) {
  constexpr const char* kSource = "ops/dequantize/cuda_dequantize.cu";
  const Problem problem = problem_of("dequantize rows=300 cols=200 scaling=1x128");
  std::vector<TensorView> views = dense_views(problem);
  const auto aligned = [&] { return plan_of(kSource, problem, views).kernels.at(0).parameters[0].parts.back().bits; };
  views[0].stride[0] = 208;
  EXPECT_EQ(aligned(), 1u);
  views[2].data = reinterpret_cast<void*>(8);
  EXPECT_EQ(aligned(), 0u);
  const Problem empty = problem_of("dequantize rows=0 cols=200");
  EXPECT_TRUE(plan_of(kSource, empty, dense_views(empty)).kernels.empty());
}

constexpr const char* kAttention = "ops/attention/cuda_attention.cu";

TEST(AttentionPlan, MapsFollowStridesInAnyOrder) {
  const Problem problem = problem_of("attention batch=1 heads=4 kv_heads=2 q_len=500 k_len=300 dim=128");
  std::vector<TensorView> views = dense_views(problem);
  views[0].stride = {17, 128, 500 * 128, 1};  // [heads, length, dim], of one sequence
  const ResolvedPlan plan = plan_of(kAttention, problem, views);
  EXPECT_THAT(plan.tensor_maps.at(0).sizes, ElementsAre(128, 500, 4, 1));
  EXPECT_THAT(plan.tensor_maps[0].strides_bytes, ElementsAre(256, 256 * 500, 256 * 500 * 4));
  EXPECT_THAT(plan.tensor_maps[0].box, ElementsAre(64, 128, 1, 1));
  EXPECT_THAT(plan.tensor_maps[1].strides_bytes, ElementsAre(512, 256, 512)) << "of one sequence the last is free";
  EXPECT_EQ(plan.kernels.at(0).grid[0], 16u);
  EXPECT_EQ(plan.kernels[0].block[0], 384u);
}

// Kernels used to divide 1.4426... by the root.
TEST(AttentionPlan, TheScaleFollowsTheCallAndTheUsualOneIsTheNumberThatItAlwaysWas) {
  for (const std::int64_t dim : {64, 128}) {
    const Problem problem = problem_of(fmt::format("attention dim={} mask=causal", dim));
    const ResolvedPlan plan = plan_of(kAttention, problem, dense_views(problem));
    const record::ResolvedArgument& scale = plan.kernels.at(0).parameters.back().parts.back();
    EXPECT_EQ(scale.kind, record::ResolvedArgument::Kind::kFormula);
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(scale.bits)),
              static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(dim))));
  }
}

TEST(AttentionPlan, RefusesWhatItCannotReadWithTheValues) {
  const DescribedKernel& kernel = described_kernel(kAttention);
  const auto refusal = [&](const char* words, std::vector<std::uint8_t> alignment = {}) {
    Problem problem = problem_of(std::string("attention ") + words);
    problem.alignment = std::move(alignment);
    return kernel.refuses(plan_facts(problem)).value_or("");
  };
  EXPECT_EQ(refusal("dim=64"), "");
  EXPECT_EQ(refusal("dim=128 q_len=0"), "");
  EXPECT_THAT(refusal("dim=96"), HasSubstr("heads of 64 and 128: dim=96"));
  EXPECT_THAT(refusal("k_len=0"), HasSubstr("nothing to multiply: k_len=0"));
  EXPECT_THAT(refusal("q_len=1073741825"), HasSubstr("counted in 32 bits"));
  EXPECT_THAT(refusal("dim=64", {16, 8, 16, 16, 4}), HasSubstr("start on 16 bytes: k_align=8"));
  EXPECT_EQ(refusal("dim=64", {16, 16, 16, 16, 4}), "") << "the log-sum-exp goes by elements";
}

}  // namespace
}  // namespace ridge::ops
