// What the kernels for GPUs of quantize, grouped_quantize, activation_quantize with its backward, rmsnorm_quantize,
// adamw_quantize and dequantize are launched with. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/cuda_plan_cases.h"

namespace ridge::ops {
namespace {

using record::ResolvedPlan;
using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_EQ(rows.kernels[2].parameters[0].bytes, 144u);
  const ResolvedPlan tensor = plan("scaling=tensor copies=both rounding=stochastic");
  ASSERT_EQ(tensor.clears.size(), 1u) << "one magnitude for both copies";
  EXPECT_EQ(tensor.clears[0].operand, 3u);
  EXPECT_EQ(tensor.clears[0].bytes, 4u);
  const ResolvedPlan given = plan("scaling=tensor copies=both amax=given");
  ASSERT_EQ(given.clears.size(), 2u) << "a magnitude of x where the given one is 0, and the one that is found";
  EXPECT_EQ(given.clears[1].operand, 6u);
  EXPECT_EQ(given.clears[1].bytes, 4u);
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

constexpr const char* kActivationQuantize = "ops/activation/quantize/cuda_activation_quantize.cu";
constexpr const char* kActivationQuantizeBackward =
    "ops/activation/quantize/backward/cuda_activation_quantize_backward.cu";

TEST(ActivationQuantizePlan, ReadsItsInputsTwiceWhereScalesAreKnownAtTheEnd) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("activation_quantize rows=300 cols=200 copies=both " + words);
    return plan_of(kActivationQuantize, problem, dense_views(problem));
  };
  const ResolvedPlan vectors = plan("scaling=1x128");
  EXPECT_TRUE(vectors.clears.empty());
  EXPECT_THAT(symbols(vectors), ElementsAre("ridge_activation_quantize"));
  EXPECT_EQ(vectors.kernels[0].grid[0], 6u) << "3 x 2 tiles";
  EXPECT_EQ(vectors.kernels[0].parameters[0].bytes, 184u);
  const ResolvedPlan tensor = plan("scaling=tensor probs=1 mask=1 amax=given");
  EXPECT_THAT(symbols(tensor), ElementsAre("ridge_activation_quantize_amax", "ridge_activation_quantize_scales",
                                           "ridge_activation_quantize"));
  ASSERT_EQ(tensor.clears.size(), 2u);
  EXPECT_EQ(tensor.clears[0].operand, 6u) << "scale, behind x, up, probs, mask, amax and q";
  EXPECT_EQ(tensor.clears[1].operand, 9u) << "found";
  EXPECT_EQ(plan("scaling=row gated=0").kernels[1].grid[0], 2u) << "500 scales";
}

// Scalars stand in the parameters of every launch.
TEST(ActivationQuantizePlan, ScalarsFollowTheCall) {
  const Problem problem = problem_of("activation_quantize function=clamped_silu scaling=row");
  const ResolvedPlan plan = plan_of(kActivationQuantize, problem, dense_views(problem));
  for (const std::size_t kernel : {0, 2}) {
    const auto& parts = plan.kernels.at(kernel).parameters.at(0).parts;
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(parts.at(8).bits)), 1.702F);
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(parts.at(9).bits)), 7.0F);
    EXPECT_EQ(parts.at(8).kind, record::ResolvedArgument::Kind::kFormula);
  }
}

// A launch that copies inputs ahead on Hopper, and has a block for each of so many tiles on GPUs with less memory.
void expect_copies(const char* kernel, const std::string& text, std::uint32_t grid, std::uint32_t shared,
                   std::uint32_t tiles) {
  const Problem problem = problem_of(text);
  const auto launch = [&](std::int64_t max_shared) {
    return plan_of(kernel, problem, dense_views(problem), max_shared).kernels.back();
  };
  EXPECT_EQ(launch(kSharedOfHopper).grid[0], grid) << text;
  EXPECT_EQ(launch(kSharedOfHopper).shared_bytes, shared) << text;
  EXPECT_EQ(launch(kSharedOfAda).grid[0], tiles) << text;
  EXPECT_EQ(launch(kSharedOfAda).shared_bytes, 0u) << text;
}

TEST(ActivationQuantizePlan, CopiesInputsAheadWhereTheyFit) {
  const auto expect = [](const std::string& words, std::uint32_t grid, std::uint32_t shared) {
    expect_copies(kActivationQuantize, "activation_quantize rows=16384 cols=4096 copies=both " + words, grid, shared,
                  4096);
  };
  expect("", 264, 65536);
  expect("rounding=stochastic", 132, 65536);
  expect("function=gelu gated=0", 264, 32768);
  expect("function=gelu gated=0 dtype=f32", 264, 65536);
  expect("dtype=f32", 4096, 0);
}

TEST(ActivationQuantizePlan, RefusesMoreTilesThanAGridHas) {
  const DescribedKernel& kernel = described_kernel(kActivationQuantize);
  EXPECT_THAT(kernel.refuses(plan_facts(problem_of("activation_quantize rows=4194304 cols=8388608"))).value_or(""),
              HasSubstr("at most 2147483647 tiles of 128 x 128"));
}

TEST(ActivationQuantizeBackwardPlan, HasTilesOfBothGradients) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("activation_quantize_backward rows=300 cols=200 copies=both " + words);
    return plan_of(kActivationQuantizeBackward, problem, dense_views(problem));
  };
  const ResolvedPlan vectors = plan("scaling=1x128");
  EXPECT_THAT(symbols(vectors), ElementsAre("ridge_activation_quantize_backward"));
  EXPECT_EQ(vectors.kernels[0].grid[0], 12u) << "3 x 4 tiles";
  EXPECT_EQ(vectors.kernels[0].parameters[0].bytes, 216u);
  EXPECT_EQ(plan("scaling=1x128 gated=0").kernels[0].grid[0], 6u) << "3 x 2 tiles";
  const ResolvedPlan row = plan("scaling=row");
  EXPECT_THAT(symbols(row),
              ElementsAre("ridge_activation_quantize_backward_amax", "ridge_activation_quantize_backward_scales",
                          "ridge_activation_quantize_backward"));
  EXPECT_EQ(row.kernels[1].grid[0], 3u) << "700 scales";
  EXPECT_EQ(row.clears.size(), 2u);
}
TEST(ActivationQuantizeBackwardPlan, MakesBothGradientsOfOneCopyWhereHalvesAreOfWholeTiles) {
  const auto expect = [](const std::string& words, std::uint32_t grid, std::uint32_t shared, std::uint32_t tiles) {
    expect_copies(kActivationQuantizeBackward, "activation_quantize_backward rows=16384 copies=both " + words, grid,
                  shared, tiles);
  };
  expect("cols=4096 scaling=1x128", 264, 98304, 8192);
  expect("cols=4096 scaling=128x128 probs=1 mask=1", 264, 98304, 8192);
  expect("cols=4096 scaling=1x128 gated=0 function=gelu", 264, 65536, 4096);
  expect("cols=4096 scaling=tensor gated=0 function=gelu rounding=stochastic", 132, 65536, 4096);
  for (const char* apart : {"scaling=mx", "scaling=row", "scaling=1x128 rounding=stochastic", "scaling=1x128 dtype=f32",
                            "scaling=1x128 gated=0 function=gelu dtype=f32"}) {
    const std::uint32_t tiles = std::string_view(apart).find("gated=0") == std::string_view::npos ? 8192 : 4096;
    expect(std::string("cols=4096 ") + apart, tiles, 0, tiles);
  }
  expect("cols=4160 scaling=1x128", 128 * 65, 0, 128 * 65);
}

TEST(RmsnormQuantizePlan, FindsTheFactorsOfRowsFirst) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("rmsnorm_quantize rows=300 copies=both " + words);
    return plan_of("ops/rmsnorm/quantize/cuda_rmsnorm_quantize.cu", problem, dense_views(problem));
  };
  const ResolvedPlan vectors = plan("cols=4096 scaling=1x128 residual=1");
  EXPECT_THAT(symbols(vectors), ElementsAre("ridge_rmsnorm_quantize_rows", "ridge_rmsnorm_quantize"));
  EXPECT_EQ(vectors.kernels[0].grid[0], 38u) << "eight rows of a block, each a warp's";
  EXPECT_EQ(vectors.kernels[1].grid[0], 96u) << "3 x 32 tiles";
  EXPECT_EQ(vectors.kernels[1].parameters[0].bytes, 200u);
  EXPECT_EQ(plan("cols=4104 scaling=1x128").kernels[0].grid[0], 300u) << "a block for a row";
  const ResolvedPlan rows = plan("cols=200 scaling=row residual=1");
  EXPECT_THAT(symbols(rows), ElementsAre("ridge_rmsnorm_quantize_rows", "ridge_rmsnorm_quantize_amax",
                                         "ridge_rmsnorm_quantize_scales", "ridge_rmsnorm_quantize"));
  ASSERT_EQ(rows.clears.size(), 2u);
  EXPECT_EQ(rows.clears[0].operand, 6u) << "scale, behind x, residual, weight, sum, rstd and q";
}

constexpr const char* kGroupedQuantize = "ops/grouped_quantize/cuda_grouped_quantize.cu";

ResolvedPlan grouped_plan(const std::string& words) {
  const Problem problem = problem_of("grouped_quantize " + words);
  return plan_of(kGroupedQuantize, problem, dense_views(problem));
}

TEST(GroupedQuantizePlan, HasTilesOfTheCapacityAndABlockWhereThereAreNone) {
  const auto plan = [](const std::string& words) { return grouped_plan(words); };
  const ResolvedPlan vectors = plan("rows=300 cols=200 groups=3 copies=both");
  EXPECT_TRUE(vectors.clears.empty());
  EXPECT_THAT(symbols(vectors), ElementsAre("ridge_grouped_quantize"));
  EXPECT_EQ(vectors.kernels[0].grid[0], 10u) << "5 x 2 tiles of up to 640 rows";
  EXPECT_EQ(vectors.kernels[0].parameters[0].bytes, 248u) << "Source (128) and TileParameters (120)";
  const ResolvedPlan rows = plan("rows=300 cols=200 groups=3 align=16 scaling=row");
  EXPECT_THAT(symbols(rows),
              ElementsAre("ridge_grouped_quantize_amax", "ridge_grouped_quantize_scales", "ridge_grouped_quantize"));
  ASSERT_EQ(rows.clears.size(), 1u);
  EXPECT_EQ(rows.clears[0].bytes, 336u * 4);
  EXPECT_EQ(rows.kernels[0].grid[0], 6u) << "3 x 2 tiles";
  EXPECT_EQ(rows.kernels[1].grid[0], 2u) << "336 scales";
  const ResolvedPlan turned = plan("rows=300 cols=200 groups=3 scaling=row copies=both");
  ASSERT_EQ(turned.clears.size(), 1u) << "of scale alone";
  ASSERT_EQ(turned.workspaces.size(), 2u);
  EXPECT_EQ(turned.workspaces[1].bytes, 0u) << "no gradient of factors";
  EXPECT_EQ(turned.workspaces[0].bytes, 2400u) << "3 x 200 largest magnitudes";
  EXPECT_TRUE(turned.workspaces[0].zero);
  EXPECT_EQ(turned.kernels[1].grid[0], 5u) << "640 scales of rows and 600 of columns and groups";
  const ResolvedPlan given = plan("rows=300 cols=200 groups=3 align=16 scaling=tensor amax=given copies=column");
  ASSERT_EQ(given.clears.size(), 2u);
  EXPECT_EQ(given.clears[0].operand, 5u) << "scale_t, behind x, offsets, amax, padded and q_t";
  EXPECT_EQ(given.clears[1].operand, 6u) << "found";
  EXPECT_EQ(plan("rows=0 cols=200 groups=1").kernels[0].grid[0], 1u) << "no tile";
  EXPECT_EQ(plan("rows=300 cols=0 groups=1").kernels[0].grid[0], 1u) << "no tile";
}

// Two blocks of a multiprocessor go over the tiles, where their inputs fit into its shared memory.
TEST(GroupedQuantizePlan, CopiesInputsAheadWhereTheyFit) {
  const auto expect = [](const std::string& words, std::uint32_t grid, std::uint32_t shared, std::uint32_t tiles) {
    expect_copies(kGroupedQuantize, "grouped_quantize rows=16384 groups=8 copies=both " + words, grid, shared, tiles);
  };
  expect("cols=4096", 135 * 32, 0, 135 * 32);
  expect("cols=4096 of=swiglu", 264, 65536, 135 * 32);
  expect("cols=4096 of=swiglu rounding=stochastic", 132, 65536, 135 * 32);
  expect("cols=4096 of=swiglu dtype=f32", 135 * 32, 0, 135 * 32);
  expect("cols=4096 of=swiglu_backward", 264, 98304, 135 * 32);
  expect("cols=4096 of=swiglu_backward scaling=128x128", 264, 98304, 135 * 32);
  for (const char* apart : {"cols=4224", "cols=4096 scaling=mx", "cols=4096 rounding=stochastic", "cols=4096 dtype=f32",
                            "cols=4096 scaling=row"}) {
    const std::uint32_t tiles = 135 * (std::string_view(apart).starts_with("cols=4224") ? 33 : 32);
    expect(std::string("of=swiglu_backward ") + apart, tiles, 0, tiles);
  }
}

// A part of each tile of the first half, and a launch that adds them up.
TEST(GroupedQuantizePlan, AddsUpThePartsOfTheGradientOfFactors) {
  const std::string words = "rows=1000 groups=8 of=swiglu_backward probs=1 ";
  for (const auto& [cols, parts] : {std::pair{512, 2}, std::pair{258, 2}, std::pair{254, 1}}) {
    const ResolvedPlan plan = grouped_plan(words + fmt::format("dprobs=1 cols={}", cols));
    EXPECT_THAT(symbols(plan), ElementsAre("ridge_grouped_quantize", "ridge_grouped_quantize_dprobs"));
    EXPECT_EQ(plan.kernels[1].grid[0], 4u) << "a thread for each row";
    ASSERT_EQ(plan.workspaces.size(), 2u);
    EXPECT_EQ(plan.workspaces[1].bytes, parts * 1000u * 4);
    EXPECT_FALSE(plan.workspaces[1].zero);
  }
}

TEST(GroupedQuantizePlan, RefusesMoreRowsThanAreCountedAndMoreTilesThanAGridHas) {
  const DescribedKernel& kernel = described_kernel(kGroupedQuantize);
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("grouped_quantize offsets=i64 ") + words))).value_or("");
  };
  EXPECT_EQ(refusal("rows=2147480000 cols=128 groups=8"), "");
  EXPECT_THAT(refusal("rows=2147483600 cols=128 groups=8"), HasSubstr("counted in 31 bits"));
  EXPECT_THAT(refusal("rows=1073741824 cols=32768 groups=1"), HasSubstr("at most 2147483647 tiles of 128 x 128"));
}

constexpr const char* kAdamwQuantize = "ops/adamw/quantize/cuda_adamw_quantize.cu";

TEST(AdamwQuantizePlan, StepsInOneLaunchWhereGroupsEndWithinTiles) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("adamw_quantize rows=300 cols=200 copies=both " + words);
    return plan_of(kAdamwQuantize, problem, dense_views(problem));
  };
  const ResolvedPlan blocks = plan("master=1 factor=1 skip=1");
  EXPECT_TRUE(blocks.clears.empty());
  EXPECT_THAT(symbols(blocks), ElementsAre("ridge_adamw_quantize"));
  EXPECT_EQ(blocks.kernels[0].grid[0], 6u) << "3 x 2 tiles";
  EXPECT_EQ(blocks.kernels[0].parameters[0].bytes, 264u) << "Weights (144) and TileParameters";
  const ResolvedPlan given = plan("scaling=tensor amax=given");
  EXPECT_THAT(symbols(given),
              ElementsAre("ridge_adamw_quantize_amax", "ridge_adamw_quantize_scales", "ridge_adamw_quantize"));
  ASSERT_EQ(given.clears.size(), 2u);
  EXPECT_EQ(given.clears[0].operand, 6u) << "scale, behind grad, amax, param, both averages and q";
  EXPECT_EQ(given.clears[1].operand, 9u) << "found";
  EXPECT_EQ(plan("scaling=row").kernels[1].grid[0], 2u) << "500 scales";
}

// In fp64, and rounded once, as adamw's.
TEST(AdamwQuantizePlan, TheNumbersOfAStepAreMadeInDoublePrecision) {
  const Problem problem = problem_of("adamw_quantize rows=300 cols=200");
  const ResolvedPlan plan = plan_of(kAdamwQuantize, problem, dense_views(problem));
  const auto& parts = plan.kernels.at(0).parameters.at(0).parts;
  const std::vector<double> expected = {1 - 1e-3 * 1e-2,    1 - 0.9, 0.999, 1 - 0.999, 1e-3 / 0.5,
                                        1 / std::sqrt(0.5), 1e-8};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(parts.at(12 + i).kind, record::ResolvedArgument::Kind::kFormula);
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(parts[12 + i].bits)), static_cast<float>(expected[i]))
        << i;
  }
}

TEST(AdamwQuantizePlan, RefusesMoreTilesThanAGridHasAndSecondRowsOfWideWeights) {
  const DescribedKernel& kernel = described_kernel(kAdamwQuantize);
  EXPECT_THAT(kernel.refuses(plan_facts(problem_of("adamw_quantize rows=4194304 cols=8388608"))).value_or(""),
              HasSubstr("at most 2147483647 tiles of 128 x 128"));
  const auto fitting = [&](const char* text) { return kernel.fitting(plan_facts(problem_of(text))); };
  EXPECT_THAT(fitting("adamw_quantize rows=300 cols=200"), ElementsAre(0, 1));
  EXPECT_THAT(fitting("adamw_quantize rows=300 cols=200 master=1"), ElementsAre(0));
  EXPECT_THAT(fitting("adamw_quantize rows=300 cols=200 dtype=f32"), ElementsAre(0));
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

}  // namespace
}  // namespace ridge::ops
