// What the kernels for GPUs of quantize, grouped_quantize, activation_quantize with its backward, rmsnorm_quantize,
// adamw_quantize, dequantize, rmsnorm, rope and attention are launched with. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/matmul/cuda/calls.h"
#include "ops/matmul/values.h"

namespace ridge::ops {
namespace {

using record::ResolvedPlan;
using testing::ElementsAre;
using testing::HasSubstr;

Problem problem_of(const std::string& text) {
  const auto parsed = record::parse_case(text);
  return (*find_operator(parsed->op))->bind(*parsed).value();
}

constexpr std::int64_t kSharedOfHopper = 232448, kSharedOfAda = 101376;  // bytes of a block

ResolvedPlan plan_of(const char* source, const Problem& problem, std::span<const TensorView> views,
                     std::int64_t max_shared = kSharedOfHopper) {
  record::PlanFacts facts = plan_facts(problem, views);
  facts.values["sm_count"] = 132;
  facts.values["max_shared"] = max_shared;
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

// Kernels that stay have no more blocks than their share of the multiprocessors holds at once.
TEST(Plans, OfKernelsThatStayTakeNoMoreMultiprocessorsThanTheyMayCountOn) {
  const auto blocks = [](const char* source, const char* words, int multiprocessors) {
    const Problem problem = problem_of(words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = multiprocessors;
    const DescribedKernel& kernel = described_kernel(source);
    return kernel.resolve(kernel.fitting(facts).at(0), facts).value().kernels.at(0).grid[0];
  };
  struct Stays {
    const char *source, *words;
  };
  for (const Stays& one :
       {Stays{"ops/attention/cuda_attention.cu", "attention batch=8 heads=32 kv_heads=8 q_len=4096 k_len=4096 dim=128"},
        Stays{"ops/rmsnorm/cuda_rmsnorm.cu", "rmsnorm rows=8192 cols=1024"},
        Stays{"ops/rmsnorm/backward/cuda_rmsnorm_backward.cu", "rmsnorm_backward rows=8192 cols=65536"},
        Stays{"ops/cross_entropy/cuda_cross_entropy.cu", "cross_entropy tokens=8192 vocabulary=128256"},
        Stays{"ops/grouped_gemm/cuda_groups.cu", "grouped_gemm rows=16384 groups=8 n=4096 k=4096 layout=nt"},
        Stays{"ops/grouped_gemm_fp8/cuda_groups_fp8.cu", "grouped_gemm_fp8 rows=16384 groups=8 n=4096 k=4096"},
        Stays{"ops/symmetric_product/cuda_symmetric.cu", "symmetric_product n=8192 k=4096"}}) {
    const std::uint32_t all = blocks(one.source, one.words, 132);
    EXPECT_LE(blocks(one.source, one.words, 100), all * 100 / 132) << one.words;
    EXPECT_LE(blocks(one.source, one.words, 16), std::max(all * 16 / 132, 1u)) << one.words;
    EXPECT_GE(blocks(one.source, one.words, 16), 1u) << one.words;
  }
}

TEST(GroupedFp8Plan, RefusesWhatItCannotReadWithTheValues) {
  const DescribedKernel& kernel = described_kernel("ops/grouped_gemm_fp8/cuda_groups_fp8.cu");
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("grouped_gemm_fp8 ") + words))).value_or("");
  };
  EXPECT_EQ(refusal("rows=256 k=256 n=256"), "");
  EXPECT_EQ(refusal("rows=256 m=256 n=256 along=sums"), "");
  EXPECT_THAT(refusal("rows=254 k=256 n=256"), HasSubstr("scale_a_align=8"));
  EXPECT_THAT(refusal("rows=256 m=255 n=256 along=sums"), HasSubstr("scale_a_align=4"));
  for (const char* scaling : {" scaling=row", " scaling=tensor"}) {  // their scales lie at any address
    EXPECT_EQ(refusal((std::string("rows=253 k=256 n=256") + scaling).c_str()), "");
    EXPECT_EQ(refusal((std::string("rows=256 m=255 n=256 along=sums") + scaling).c_str()), "");
    EXPECT_THAT(refusal((std::string("rows=253 k=250 n=256") + scaling).c_str()), HasSubstr("a_align"));
  }
  EXPECT_THAT(refusal("rows=0 k=256 n=256"), HasSubstr("an empty product"));
}

// Scales of blocks lie in the stages; of rows, those of B's once for each warpgroup; of groups nowhere.
TEST(GroupedFp8Plan, BuildsForTheScalesAndSaysHowFarApartTheyLie) {
  const DescribedKernel& kernel = described_kernel("ops/grouped_gemm_fp8/cuda_groups_fp8.cu");
  struct Expected {
    const char *words, *scaling;
    std::uint32_t scale_bytes;        // of shared memory
    std::int64_t stride_a, stride_b;  // of ScaleView
  };
  for (const Expected& one : {Expected{"k=384", "kBlock", 4 * (128 + 4) * 4, 512, 3},
                              Expected{"m=64 along=sums", "kVector", 4 * (128 + 256) * 4, 64, 256},
                              Expected{"k=384 scaling=row", "kRow", 2 * 256 * 4, 1, 256},
                              Expected{"m=64 along=sums scaling=row", "kRow", 2 * 256 * 4, 64, 256},
                              Expected{"k=384 scaling=tensor", "kTensor", 0, 1, 1},
                              Expected{"m=64 along=sums scaling=tensor", "kTensor", 0, 1, 1}}) {
    const Problem problem = problem_of(std::string("grouped_gemm_fp8 rows=512 groups=8 n=256 ") + one.words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = 132;
    const auto& configs = kernel.description().configs;
    const auto wide = std::find_if(configs.begin(), configs.end(), [](auto& c) { return c.name == "promote_128x256"; });
    ASSERT_NE(wide, configs.end());
    const int configuration = static_cast<int>(wide - configs.begin());
    EXPECT_THAT(kernel.build(configuration, facts).value().defines,
                testing::Contains(std::string("RIDGE_SCALING=") + one.scaling));
    const auto launched = kernel.resolve(configuration, facts).value().kernels.at(0);
    EXPECT_EQ(launched.shared_bytes, 4 * (384 * 128 + 16) + one.scale_bytes + 16384 + 9 * 8) << one.words;
    const auto variables = kernel.variables(configuration, facts).value();
    EXPECT_EQ(variables.at("scale_a_stride0"), one.stride_a) << one.words;
    EXPECT_EQ(variables.at("scale_b_row"), one.stride_b) << one.words;
  }
}

TEST(Plans, ProductsOnAShareOfTheMultiprocessorsRunInNoClusters) {
  ridge::cuda::GemmCase g;
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = 8192;
  g.type_a = g.type_b = g.type_c = ridge::cuda::GemmType::kBf16;
  record::PlanFacts facts;
  matmul::add_values(g, facts.values);
  DeviceInfo device;
  device.multiprocessors = 132;
  const auto blocks_of_a_cluster = [](int configuration) {
    const auto& config = ridge::cuda::wgmma_configs()[static_cast<std::size_t>(configuration)];
    return config.cluster_m * config.cluster_n * config.split_k;
  };
  const int whole = matmul::wgmma_choice(g, facts, -1, device, 132);
  ASSERT_GE(whole, 0);
  EXPECT_GT(blocks_of_a_cluster(whole), 1) << "the fastest on the whole device";
  const int share = matmul::wgmma_choice(g, facts, -1, device, 100);
  ASSERT_GE(share, 0);
  EXPECT_EQ(blocks_of_a_cluster(share), 1);
  EXPECT_EQ(matmul::wgmma_choice(g, facts, whole, device, 132), whole) << "what was asked for";
  EXPECT_EQ(matmul::wgmma_choice(g, facts, whole, device, 100), share) << "is not taken on a share";
  EXPECT_EQ(matmul::wgmma_choice(g, facts, share, device, 132), share);
}

// Half of gemm's tiles, and those on the diagonal; a residual and a batch change nothing of the tiles of one matrix.
TEST(SymmetricPlan, CountsTheTilesOnAndAboveTheDiagonal) {
  constexpr const char* kSource = "ops/symmetric_product/cuda_symmetric.cu";
  const DescribedKernel& kernel = described_kernel(kSource);
  const auto blocks = [&](const char* words, std::string_view config) -> std::uint32_t {
    const Problem problem = problem_of(words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = 100000;
    for (const int one : kernel.fitting(facts)) {
      if (kernel.description().configs[static_cast<std::size_t>(one)].name != config) continue;
      return kernel.resolve(one, facts).value().kernels.at(0).grid[0];
    }
    return 0;
  };
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "pp_128x128"), 36u);
  EXPECT_EQ(blocks("symmetric_product n=1032 k=512 residual=1", "pp_128x128"), 45u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512 batch=3 layout=t", "pp_128x128"), 108u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "pp_128x128_m2"), 2 * (8 + 6 + 4 + 2u));
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "coop_256x128_n2"), 2 * 10u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "pp_64x64"), 136u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512 dtype=f32", "pp_128x128"), 0u) << "the matrix unit has no fp32";
  EXPECT_EQ(blocks("symmetric_product n=1028 k=512", "pp_128x128"), 0u) << "rows that do not end on 16 bytes";
  EXPECT_EQ(blocks("symmetric_product n=1028 k=512 out=f32", "pp_128x128"), 45u);
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

ResolvedPlan grouped_plan(const std::string& words, std::int64_t max_shared = kSharedOfHopper) {
  const Problem problem = problem_of("grouped_quantize " + words);
  return plan_of(kGroupedQuantize, problem, dense_views(problem), max_shared);
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
  struct Launch {
    std::uint32_t grid, shared;
  };
  const auto launch = [](const std::string& words, std::int64_t max_shared) -> Launch {
    const ResolvedPlan plan = grouped_plan("rows=16384 groups=8 copies=both " + words, max_shared);
    return {plan.kernels.back().grid[0], plan.kernels.back().shared_bytes};
  };
  const auto expect = [&](const std::string& words, Launch on_hopper, std::uint32_t tiles) {
    const Launch hopper = launch(words, kSharedOfHopper), ada = launch(words, kSharedOfAda);
    EXPECT_EQ(hopper.grid, on_hopper.grid) << words;
    EXPECT_EQ(hopper.shared, on_hopper.shared) << words;
    EXPECT_EQ(ada.grid, tiles) << words;
    EXPECT_EQ(ada.shared, 0u) << words;
  };
  expect("cols=4096", {135 * 32, 0}, 135 * 32);
  expect("cols=4096 of=swiglu", {264, 65536}, 135 * 32);
  expect("cols=4096 of=swiglu rounding=stochastic", {132, 65536}, 135 * 32);
  expect("cols=4096 of=swiglu dtype=f32", {135 * 32, 0}, 135 * 32);
  expect("cols=4096 of=swiglu_backward", {264, 98304}, 135 * 32);
  expect("cols=4096 of=swiglu_backward scaling=128x128", {264, 98304}, 135 * 32);
  for (const char* apart : {"cols=4224", "cols=4096 scaling=mx", "cols=4096 rounding=stochastic", "cols=4096 dtype=f32",
                            "cols=4096 scaling=row"}) {
    const std::uint32_t tiles = 135 * (std::string_view(apart).starts_with("cols=4224") ? 33 : 32);
    expect(std::string("of=swiglu_backward ") + apart, {tiles, 0}, tiles);
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

constexpr const char* kNorm = "ops/rmsnorm/cuda_rmsnorm.cu";
constexpr const char* kNormBackward = "ops/rmsnorm/backward/cuda_rmsnorm_backward.cu";

ResolvedPlan norm_plan(const char* source, const std::string& words) {
  const Problem problem = problem_of(words);
  return plan_of(source, problem, dense_views(problem));
}

TEST(RmsnormPlan, TeamsGrowWithTheRow) {
  struct Expected {
    const char* size;
    std::uint32_t grid, threads, cluster;
  };
  for (const Expected& one :
       {Expected{"rows=131072 cols=128", 2048, 256, 1}, Expected{"rows=131072 cols=512", 264, 256, 1},
        Expected{"rows=8192 cols=4096", 8192, 256, 1}, Expected{"rows=8192 cols=5120", 8192, 320, 1},
        Expected{"rows=8192 cols=8192", 8192, 512, 1}, Expected{"rows=100 cols=8192", 100, 512, 1},
        Expected{"rows=4096 cols=16384", 4096, 512, 1}, Expected{"rows=1000 cols=32768", 1000, 1024, 1},
        Expected{"rows=1000 cols=65536", 1000, 1024, 1}, Expected{"rows=1000 cols=65536 residual=1", 132, 512, 4},
        Expected{"rows=10 cols=65536 residual=1", 40, 512, 4}, Expected{"rows=1000 cols=65536 dtype=f32", 128, 512, 8},
        Expected{"rows=9000 cols=4097", 1056, 256, 1}}) {
    const ResolvedPlan plan = norm_plan(kNorm, std::string("rmsnorm ") + one.size);
    const auto& kernel = plan.kernels.at(0);
    EXPECT_EQ(kernel.grid[0], one.grid) << one.size;
    EXPECT_EQ(kernel.block[0], one.threads) << one.size;
    EXPECT_EQ(kernel.cluster[0], one.cluster) << one.size;
  }
}

// Threads, blocks that have registers (the launch bounds) and rows of a block, of the form that keeps no ring.
TEST(RmsnormPlan, DirectBlocksFollowTheRowAndComeForAllRows) {
  const DescribedKernel& kernel = described_kernel(kNorm);
  const auto& configs = kernel.description().configs;
  const auto found = std::ranges::find(configs, "direct", &record::KernelConfig::name);
  ASSERT_NE(found, configs.end());
  const int direct = static_cast<int>(found - configs.begin());
  struct Expected {
    const char* size;
    std::uint32_t grid, threads;
    const char* blocks;
  };
  for (const Expected& one : {Expected{"rows=131072 cols=128", 2048, 256, "RIDGE_BLOCKS=3"},
                              Expected{"rows=131072 cols=8", 128, 256, "RIDGE_BLOCKS=2"},
                              Expected{"rows=32768 cols=1024", 4096, 256, "RIDGE_BLOCKS=4"},
                              Expected{"rows=8192 cols=4096", 8192, 128, "RIDGE_BLOCKS=2"},
                              Expected{"rows=8193 cols=7168", 8193, 224, "RIDGE_BLOCKS=2"},
                              Expected{"rows=8193 cols=8192 residual=1", 8193, 256, "RIDGE_BLOCKS=2"},
                              Expected{"rows=77 cols=32768", 77, 1024, "RIDGE_BLOCKS=1"}}) {
    const Problem problem = problem_of(std::string("rmsnorm ") + one.size);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = 132;
    ASSERT_TRUE(kernel.fits(direct, facts)) << one.size;
    const auto plan = kernel.resolve(direct, facts).value();
    EXPECT_EQ(plan.kernels.at(0).grid[0], one.grid) << one.size;
    EXPECT_EQ(plan.kernels[0].block[0], one.threads) << one.size;
    EXPECT_EQ(plan.kernels[0].shared_bytes, 0u) << one.size;
    EXPECT_THAT(kernel.build(direct, facts)->defines, testing::Contains(one.blocks)) << one.size;
  }
  const Problem longer = problem_of("rmsnorm rows=77 cols=32776");
  EXPECT_FALSE(kernel.fits(direct, plan_facts(longer, dense_views(longer))));
}

// What a multiprocessor has, with the kibibyte that it keeps of every block.
TEST(RmsnormPlan, RingsOfAllResidentBlocksFit) {
  for (const char* words : {"rmsnorm", "rmsnorm residual=1", "rmsnorm_backward", "rmsnorm_backward residual=1"}) {
    const char* const source = std::string_view(words).starts_with("rmsnorm_backward") ? kNormBackward : kNorm;
    const DescribedKernel& kernel = described_kernel(source);
    for (const char* dtype : {"bf16", "f32"}) {
      for (std::int64_t cols = 8; cols <= 65536; cols += cols < 1024 ? 8 : 1000) {
        const Problem problem = problem_of(fmt::format("{} rows=5000 cols={} dtype={}", words, cols, dtype));
        record::PlanFacts facts = plan_facts(problem, dense_views(problem));
        facts.values["sm_count"] = 132;
        for (const int configuration : kernel.fitting(facts)) {
          const auto plan = kernel.resolve(configuration, facts);
          ASSERT_TRUE(plan) << problem.problem_case.text() << ": " << plan.error().text();
          const auto& one = plan->kernels.at(0);
          const std::int64_t resident = kernel.variables(configuration, facts)->at("resident");
          EXPECT_LE(resident * (static_cast<std::int64_t>(one.shared_bytes) + 1024), 233472)
              << problem.problem_case.text();
          EXPECT_LE(one.block[0], one.shared_bytes == 0 ? 1024u : 512u);
        }
      }
    }
  }
}

TEST(RmsnormPlan, PartialSumsAreARowForEveryBlockAndNoneWhereTheyAreNotWanted) {
  const ResolvedPlan both = norm_plan(kNormBackward, "rmsnorm_backward rows=8192 cols=8192");
  EXPECT_THAT(symbols(both), ElementsAre("ridge_rmsnorm_backward", "ridge_rmsnorm_dweight"));
  EXPECT_EQ(both.workspaces.at(0).bytes, 132u * 8192 * 4);
  EXPECT_TRUE(both.kernels[1].overlap_previous);
  EXPECT_EQ(norm_plan(kNormBackward, "rmsnorm_backward rows=70 cols=65536").workspaces.at(0).bytes, 33u * 65536 * 4);
  const ResolvedPlan dx = norm_plan(kNormBackward, "rmsnorm_backward rows=8192 cols=8192 wanted=dx");
  EXPECT_THAT(symbols(dx), ElementsAre("ridge_rmsnorm_backward"));
  EXPECT_EQ(dx.workspaces.at(0).bytes, 0u);
  const ResolvedPlan none = norm_plan(kNormBackward, "rmsnorm_backward rows=0 cols=64");
  EXPECT_THAT(symbols(none), ElementsAre("ridge_rmsnorm_dweight")) << "zeros";
}

TEST(RmsnormPlan, RowsThatStartOnNoSixteenBytesGoByElements) {
  const Problem problem = problem_of("rmsnorm rows=5000 cols=8192 residual=1");
  std::vector<TensorView> views = dense_views(problem);
  const auto threads = [&] { return plan_of(kNorm, problem, views).kernels.at(0).block[0]; };
  EXPECT_EQ(threads(), 512u);
  views[1].stride[0] = 8200;
  EXPECT_EQ(threads(), 512u);
  views[1].stride[0] = 8196;
  EXPECT_EQ(threads(), 256u) << "rows of 8 bytes more";
  views[1].stride[0] = 8192;
  views[4].data = reinterpret_cast<void*>(8);
  EXPECT_EQ(threads(), 256u);
}

constexpr const char* kRope = "ops/rope/cuda_rope.cu";

struct RopeLaunch {
  std::uint32_t places, groups, tokens;  // of a block
  std::uint32_t grid_x, grid_y;
  std::int64_t each;  // heads of a thread
};
RopeLaunch rope_launch(const Problem& problem, std::span<const TensorView> views, int configuration = 0) {
  const DescribedKernel& kernel = described_kernel(kRope);
  record::PlanFacts facts = plan_facts(problem, views);
  facts.values["sm_count"] = 132;
  const ResolvedPlan plan = kernel.resolve(configuration, facts).value();
  const auto& one = plan.kernels.at(0);
  return {one.block[0], one.block[1], one.block[2],
          one.grid[0],  one.grid[1],  kernel.variables(configuration, facts)->at("each")};
}

TEST(RopePlan, ABlockHasPlacesHeadsAndTokens) {
  const auto launch = [](const std::string& words) {
    const Problem problem = problem_of("rope " + words);
    const RopeLaunch one = rope_launch(problem, dense_views(problem));
    return std::vector<std::int64_t>{one.places, one.groups, one.tokens, one.grid_x, one.grid_y, one.each};
  };
  EXPECT_THAT(launch("batch=2 length=4096 heads=32 kv_heads=8 dim=128"), ElementsAre(8, 10, 3, 2732, 1, 4));
  EXPECT_THAT(launch("length=8192 heads=64 kv_heads=8 dim=128"), ElementsAre(8, 18, 2, 4096, 1, 4));
  EXPECT_THAT(launch("length=8192 heads=64 kv_heads=8 dim=64 interleaved=1"), ElementsAre(8, 9, 4, 2048, 1, 8));
  EXPECT_THAT(launch("length=100 heads=32 kv_heads=32 dim=128 rotary=64"), ElementsAre(8, 16, 2, 50, 1, 4))
      << "four places are turned, four copied";
  EXPECT_THAT(launch("length=100 heads=2 kv_heads=1 dim=128 dtype=f32"), ElementsAre(16, 1, 16, 7, 1, 3));
  EXPECT_THAT(launch("length=100 heads=9 kv_heads=7 dim=27 rotary=10"), ElementsAre(14, 4, 5, 20, 1, 4))
      << "by elements: five pairs, and nine pairs of what is copied";
  EXPECT_THAT(launch("length=3 heads=2100 kv_heads=1 dim=16"), ElementsAre(1, 176, 1, 3, 3, 4));
  const Problem problem = problem_of("rope positions=i64");
  EXPECT_EQ(plan_of(kRope, problem, dense_views(problem)).kernels.at(0).parameters.at(0).bytes, 240u)
      << "RopeParameters";
}

// Every token and head has a thread, a block has no more of them than its registers are counted for, and none of its
// dimensions more than a GPU has.
TEST(RopePlan, EveryHeadOfEveryTokenIsTaken) {
  const DescribedKernel& kernel = described_kernel(kRope);
  for (const std::int64_t length : {1, 2, 65, 1000}) {
    for (const std::int64_t heads : {0, 1, 5, 32, 127, 3000}) {
      for (const char* dims : {"dim=128", "dim=128 interleaved=1", "dim=2", "dim=1024 dtype=f32 interleaved=1",
                               "dim=1023 rotary=2", "dim=72 rotary=16 dtype=f16"}) {
        const Problem problem = problem_of(fmt::format("rope length={} heads={} kv_heads=3 {}", length, heads, dims));
        const std::vector<TensorView> views = dense_views(problem);
        const record::PlanFacts facts = plan_facts(problem, views);
        for (const int configuration : kernel.fitting(facts)) {
          const RopeLaunch one = rope_launch(problem, views, configuration);
          const std::string text = problem.problem_case.text();
          EXPECT_GE(one.grid_x * one.tokens, length) << text;
          EXPECT_LT((one.grid_x - 1) * one.tokens, length) << text;
          EXPECT_GE(one.grid_y * one.groups * one.each, heads + 3) << text;
          EXPECT_LT((one.grid_y - 1) * one.groups * one.each, heads + 3) << text;
          EXPECT_LE(one.tokens, 64u) << text;
          const std::uint32_t threads = one.places * one.groups * one.tokens;
          EXPECT_LE(threads, 512u) << text;
          EXPECT_THAT(kernel.build(configuration, facts)->defines,
                      testing::Contains(fmt::format("RIDGE_THREADS={}", (threads + 31) / 32 * 32)));
        }
      }
    }
  }
}

TEST(RopePlan, HeadsThatStartOnNoSixteenBytesGoByElements) {
  const Problem problem = problem_of("rope length=64 heads=4 kv_heads=2 dim=128");
  std::vector<TensorView> views = dense_views(problem);
  const auto places = [&] { return rope_launch(problem, views).places; };
  EXPECT_EQ(places(), 8u);
  views[1].stride = {64 * 136 * 2, 136, 64 * 136, 1};  // heads before tokens, padded
  EXPECT_EQ(places(), 8u);
  views[1].stride[1] = 132;
  EXPECT_EQ(places(), 64u) << "rows of 8 bytes more";
  views = dense_views(problem);
  views[5].data = reinterpret_cast<void*>(8);
  EXPECT_EQ(places(), 64u) << "k_out";
  views = dense_views(problem);
  views[3].data = reinterpret_cast<void*>(4);
  EXPECT_EQ(places(), 64u) << "sin";
}

TEST(RopePlan, RefusesMoreBlocksThanAGridHas) {
  const DescribedKernel& kernel = described_kernel(kRope);
  const auto refusal = [&](const char* words) {
    return kernel.fitting(plan_facts(problem_of(std::string("rope ") + words))).empty();
  };
  EXPECT_FALSE(refusal("batch=2147483647 length=1 dim=2"));
  EXPECT_TRUE(refusal("batch=2147483648 length=1 dim=2"));
  EXPECT_TRUE(refusal("heads=4294967296 dim=2 length=1"));
}

constexpr const char* kRopeNorm = "ops/rope/norm/cuda_rope_norm.cu";
constexpr const char* kRopeNormBackward = "ops/rope/norm/backward/cuda_rope_norm_backward.cu";

// A group of heads is of q alone or of k alone; the backward's blocks stay, and each writes a row of partial sums.
TEST(RopeNormPlan, GroupsHaveHeadsOfOneTensor) {
  const auto launch = [](const char* file, const std::string& words) {
    const Problem problem = problem_of((file == kRopeNorm ? "rope_norm " : "rope_norm_backward ") + words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = 132;
    const ResolvedPlan plan = described_kernel(file).resolve(0, facts).value();
    const auto& one = plan.kernels.at(0);
    return std::vector<std::int64_t>{one.block[0], one.block[1], one.block[2],
                                     one.grid[0],  one.grid[1],  one.shared_bytes};
  };
  EXPECT_THAT(launch(kRopeNorm, "length=8192 heads=32 kv_heads=8 dim=128"), ElementsAre(8, 7, 1, 8192, 3, 0));
  EXPECT_THAT(launch(kRopeNorm, "length=100 heads=9 kv_heads=7 dim=96"), ElementsAre(6, 9, 1, 100, 1, 432))
      << "places that are no power of two add up in shared memory: a number for each head of a thread";
  EXPECT_THAT(launch(kRopeNormBackward, "length=8192 heads=32 kv_heads=8 dim=128"),
              ElementsAre(8, 10, 2, 198, 2, 10240))
      << "a weight's gradient of every group of every token";
  EXPECT_THAT(launch(kRopeNormBackward, "length=8192 heads=32 kv_heads=8 dim=128 weight=none"),
              ElementsAre(8, 10, 2, 198, 2, 0));
  const Problem forward = problem_of("rope_norm positions=i64"),
                backward = problem_of("rope_norm_backward positions=i64");
  EXPECT_EQ(plan_of(kRopeNorm, forward, dense_views(forward)).kernels.at(0).parameters.at(0).bytes, 272u)
      << "RopeNormParameters";
  EXPECT_EQ(plan_of(kRopeNormBackward, backward, dense_views(backward)).kernels.at(0).parameters.at(0).bytes, 376u)
      << "RopeNormBackwardParameters";
}

TEST(RopeNormPlan, EveryHeadOfEveryTokenIsTaken) {
  for (const char* file : {kRopeNorm, kRopeNormBackward}) {
    const DescribedKernel& kernel = described_kernel(file);
    for (const std::int64_t length : {1, 2, 65, 1000}) {
      for (const std::int64_t heads : {0, 1, 5, 32, 127, 3000}) {
        for (const char* dims :
             {"dim=128", "dim=128 interleaved=1 weight=f32", "dim=2", "dim=1024 dtype=f32 interleaved=1",
              "dim=1023 rotary=2", "dim=72 rotary=16 dtype=f16"}) {
          const Problem problem =
              problem_of(fmt::format("{} length={} heads={} kv_heads=3 {}",
                                     file == kRopeNorm ? "rope_norm" : "rope_norm_backward", length, heads, dims));
          record::PlanFacts facts = plan_facts(problem, dense_views(problem));
          facts.values["sm_count"] = 132;
          for (const int configuration : kernel.fitting(facts)) {
            const ResolvedPlan plan = kernel.resolve(configuration, facts).value();
            const auto& one = plan.kernels.at(0);
            const auto values = kernel.variables(configuration, facts).value();
            const std::string text = problem.problem_case.text();
            const std::int64_t each = values.at("each");
            EXPECT_GE(values.at("sequence_blocks") * one.block[2], length) << text;
            EXPECT_GE(one.grid[1] * one.block[1], (heads + each - 1) / each + (3 + each - 1) / each) << text;
            const std::uint32_t threads = one.block[0] * one.block[1] * one.block[2];
            EXPECT_LE(threads, 512u) << text;
            EXPECT_LE(one.shared_bytes, 49152u) << text;
            EXPECT_THAT(kernel.build(configuration, facts)->defines,
                        testing::Contains(fmt::format("RIDGE_THREADS={}", (threads + 31) / 32 * 32)));
          }
        }
      }
    }
  }
}

constexpr const char* kLayernorm = "ops/layernorm/cuda_layernorm.cu";
constexpr const char* kLayernormBackward = "ops/layernorm/backward/cuda_layernorm_backward.cu";

TEST(LayernormPlan, TeamsGrowWithTheRowAsRmsnormsDo) {
  for (const char* size : {"rows=131072 cols=128", "rows=131072 cols=512", "rows=8192 cols=4096", "rows=100 cols=8192",
                           "rows=1000 cols=32768", "rows=10 cols=65536 dtype=f32", "rows=9000 cols=4097"}) {
    const auto own = norm_plan(kLayernorm, fmt::format("layernorm bias=1 {}", size)).kernels.at(0);
    const auto other = norm_plan(kNorm, fmt::format("rmsnorm {}", size)).kernels.at(0);
    EXPECT_EQ(own.grid[0], other.grid[0]) << size;
    EXPECT_EQ(own.block[0], other.block[0]) << size;
    EXPECT_EQ(own.cluster[0], other.cluster[0]) << size;
    EXPECT_EQ(own.shared_bytes, other.shared_bytes) << size;
  }
}

// Two chunks of a thread are what registers hold with both sums in fp32.
TEST(LayernormPlan, BackwardTakesMoreBlocksForBothSumsAndGoesByElementsWhereEightDoNotHoldTheRow) {
  struct Expected {
    const char* words;
    std::uint32_t threads, cluster;
  };
  for (const Expected& one : {Expected{"cols=65536", 512, 8}, Expected{"cols=65536 dbias=0", 512, 4},
                              Expected{"cols=65544", 256, 1}, Expected{"cols=131072 dweight=0", 512, 8},
                              Expected{"cols=65536 dtype=f32", 512, 8}, Expected{"cols=65540 dtype=f32", 256, 1}}) {
    const auto kernel =
        norm_plan(kLayernormBackward, fmt::format("layernorm_backward rows=500 {}", one.words)).kernels.at(0);
    EXPECT_EQ(kernel.block[0], one.threads) << one.words;
    EXPECT_EQ(kernel.cluster[0], one.cluster) << one.words;
  }
}

TEST(LayernormPlan, RingsOfAllResidentBlocksFit) {
  for (const char* words :
       {"layernorm bias=1", "layernorm residual=1", "layernorm_backward", "layernorm_backward residual=1 dbias=0"}) {
    const bool backward = std::string_view(words).starts_with("layernorm_backward");
    const DescribedKernel& kernel = described_kernel(backward ? kLayernormBackward : kLayernorm);
    for (std::int64_t cols = 8; cols <= 65536; cols += cols < 1024 ? 8 : 1000) {
      const Problem problem = problem_of(fmt::format("{} rows=5000 cols={}", words, cols));
      record::PlanFacts facts = plan_facts(problem, dense_views(problem));
      facts.values["sm_count"] = 132;
      for (const int configuration : kernel.fitting(facts)) {
        const auto plan = kernel.resolve(configuration, facts);
        ASSERT_TRUE(plan) << problem.problem_case.text() << ": " << plan.error().text();
        const auto& one = plan->kernels.at(0);
        const std::int64_t resident = kernel.variables(configuration, facts)->at("resident");
        EXPECT_LE(resident * (static_cast<std::int64_t>(one.shared_bytes) + 1024), 233472)
            << problem.problem_case.text();
        EXPECT_LE(one.block[0], 1024u);
      }
    }
  }
}

TEST(LayernormPlan, PartialSumsAreARowForEveryBlockAndGradient) {
  const auto plan = [](const char* words) {
    return norm_plan(kLayernormBackward, fmt::format("layernorm_backward rows=8192 cols=8192 {}", words));
  };
  const ResolvedPlan all = plan("");
  EXPECT_THAT(symbols(all), ElementsAre("ridge_layernorm_backward", "ridge_layernorm_columns"));
  EXPECT_EQ(all.workspaces.at(0).bytes, 2u * 132 * 8192 * 4);
  EXPECT_EQ(all.kernels[1].grid[1], 2u);
  const ResolvedPlan one = plan("dweight=0");
  EXPECT_EQ(one.workspaces.at(0).bytes, 132u * 8192 * 4);
  EXPECT_EQ(one.kernels.at(1).grid[1], 1u);
  EXPECT_THAT(symbols(plan("dweight=0 dbias=0")), ElementsAre("ridge_layernorm_backward"));
}

// Without a weight nothing else says it.
TEST(LayernormPlan, ABiasAloneMayBeF32) {
  const Problem problem = problem_of("layernorm rows=50 cols=4096 weight=none bias=1");
  std::vector<TensorView> views = dense_views(problem);
  const auto defines = [&] { return described_kernel(kLayernorm).build(0, plan_facts(problem, views))->defines; };
  EXPECT_THAT(defines(), testing::Contains("RIDGE_TYPE_W=kBf16"));
  views[*problem.position("bias")].dtype = DType::kF32;
  EXPECT_THAT(defines(), testing::Contains("RIDGE_TYPE_W=kF32"));
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
    const auto& parts = plan.kernels.at(0).parameters.back().parts;
    const record::ResolvedArgument& scale = parts.at(10);  // the ends of a window follow
    EXPECT_EQ(scale.kind, record::ResolvedArgument::Kind::kFormula);
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(scale.bits)),
              static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(dim))));
  }
}

// Keys of a section stay in the L2, unless the blocks would get unequal work.
TEST(AttentionPlan, SectionsLeaveTheBlocksEqualWork) {
  const auto section = [](const char* words) {
    const Problem problem = problem_of(fmt::format("attention {}", words));
    return plan_of(kAttention, problem, dense_views(problem)).kernels.back().parameters.back().parts.at(9).bits;
  };
  EXPECT_EQ(section("heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal"), 32u) << "4 MiB a head of k and v";
  EXPECT_EQ(section("heads=32 kv_heads=32 q_len=8192 k_len=8192 dim=128"), 4u);
  EXPECT_EQ(section("heads=32 kv_heads=32 q_len=8192 k_len=8192 dim=128 mask=causal"), 32u) << "15 tiles for a block";
  EXPECT_EQ(section("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=256 mask=causal"), 16u);
  EXPECT_EQ(section("heads=128 kv_heads=128 q_len=4096 k_len=4096 dim=192 v_dim=128 mask=causal"), 33u)
      << "each head's keys would be read by one block at a time";
  EXPECT_EQ(section("heads=64 kv_heads=8 q_len=32768 k_len=32768 dim=128 mask=causal"), 16u) << "124 tiles for a block";
  // Four tiles a head: two rounds of 132 blocks are 66 heads, eight 264, whose keys are 17 MB with eight heads of them.
  EXPECT_EQ(section("batch=32 heads=32 kv_heads=32 q_len=512 k_len=512 dim=128 mask=causal"), 66u);
  EXPECT_EQ(section("batch=32 heads=32 kv_heads=8 q_len=512 k_len=512 dim=128 mask=causal"), 264u);
  EXPECT_EQ(section("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=64 mask=causal"), 48u) << "four rounds";
  EXPECT_EQ(section("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=128 mask=causal"), 33u)
      << "two are not whole";
  EXPECT_EQ(section("batch=64 heads=32 kv_heads=32 q_len=256 k_len=256 dim=128 mask=causal"), 132u);
  EXPECT_EQ(section("batch=64 heads=32 kv_heads=32 q_len=850 k_len=850 dim=128 mask=causal"), 150u) << "none is whole";
}

TEST(AttentionPlan, ASectionHasAHeadWhateverTheShareOfTheMultiprocessors) {
  for (const auto& [source, op] :
       {std::pair{kAttention, "attention"}, {"ops/attention/fp8/cuda_attention_fp8.cu", "attention_fp8"}}) {
    for (const int multiprocessors : {1, 2, 5, 16, 132}) {
      for (const int length : {1, 128, 300, 512, 1100, 2000, 5000}) {
        for (const char* mask : {"full", "causal"}) {
          const Problem problem = problem_of(
              fmt::format("{} batch=2 heads=6 kv_heads=3 q_len={} k_len={} dim=64 mask={}", op, length, length, mask));
          record::PlanFacts facts = plan_facts(problem, dense_views(problem));
          facts.values["sm_count"] = multiprocessors;
          const ResolvedPlan plan = described_kernel(source).resolve(0, facts).value();
          const std::uint64_t section = plan.kernels.back().parameters.back().parts.at(9).bits;
          EXPECT_GE(section, 1u) << problem.problem_case.text() << " on " << multiprocessors;
          EXPECT_LE(section, 12u) << problem.problem_case.text() << " on " << multiprocessors;
        }
      }
    }
  }
}

TEST(AttentionPlan, AWindowIsABuildOfItsOwnWithItsEnds) {
  const auto ends = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    const ResolvedPlan plan = plan_of(source, problem, dense_views(problem));
    const auto& parts = plan.kernels.back().parameters.back().parts;
    const std::size_t at = problem.problem_case.op == "attention" ? 11 : 30;
    return std::vector<std::uint64_t>{parts.at(at).bits, parts.at(at + 1).bits};
  };
  const auto defines = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return described_kernel(source).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  constexpr std::uint64_t kAll = 536870912;
  for (const auto& [source, op] : {std::pair{"ops/attention/cuda_attention.cu", "attention"},
                                   {"ops/attention/backward/cuda_attention_backward.cu", "attention_backward"}}) {
    const auto words = [&](const char* mask) { return fmt::format("{} dim=128 {}", op, mask); };
    const auto check = [&](const char* mask, std::uint64_t left, std::uint64_t right) {
      EXPECT_THAT(ends(source, words(mask).c_str()), ElementsAre(left, right)) << mask;
      EXPECT_THAT(defines(source, words(mask).c_str()), testing::Contains("RIDGE_WINDOW=1"));
      EXPECT_THAT(defines(source, words(mask).c_str()), testing::Contains("RIDGE_CAUSAL=0"));
    };
    check("mask=causal keys_left=64", 63, 0);
    check("keys_left=64", 63, kAll);
    check("keys_right=1", kAll, 0);
    check("keys_left=1 keys_right=6", 0, 5);
    EXPECT_THAT(defines(source, words("mask=causal").c_str()), testing::Contains("RIDGE_WINDOW=0"));
    EXPECT_THAT(defines(source, words("mask=causal").c_str()), testing::Contains("RIDGE_CAUSAL=1"));
  }
}

// Slopes are an operand and builds of their own: one for masks that show no key behind its query, which need no
// absolute value of a distance, and one for the others.
TEST(AttentionPlan, SlopesAreBuildsOfTheirOwn) {
  using Kind = record::ResolvedArgument::Kind;
  const auto view = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return plan_of(source, problem, dense_views(problem)).kernels.back().parameters.back().parts;
  };
  const auto defines = [](const char* source, const std::string& words) {
    const Problem problem = problem_of(words);
    return described_kernel(source).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  EXPECT_EQ(view(kAttention, "attention dim=64").back().kind, Kind::kZeros);
  EXPECT_EQ(view(kAttention, "attention dim=64 alibi=1").back().kind, Kind::kOperand);
  for (const auto& [source, words] :
       {std::pair{kAttention, "attention dim=64"},
        {"ops/attention/backward/cuda_attention_backward.cu", "attention_backward dim=64"},
        {"ops/attention/backward/cuda_attention_backward_wide.cu", "attention_backward dim=256"}}) {
    const auto build = [&, source = source, words = words](const char* more) {
      return defines(source, fmt::format("{} {}", words, more));
    };
    EXPECT_THAT(build("mask=causal"), testing::Contains("RIDGE_ALIBI=0"));
    for (const char* one_sided : {"mask=causal", "mask=causal keys_left=9", "mask=causal documents=2"}) {
      EXPECT_THAT(build(fmt::format("{} alibi=1", one_sided).c_str()), testing::Contains("RIDGE_ALIBI=1"));
    }
    for (const char* both : {"mask=full", "keys_left=9 keys_right=9", "documents=2"}) {
      EXPECT_THAT(build(fmt::format("{} alibi=1", both).c_str()), testing::Contains("RIDGE_ALIBI=2"));
    }
  }
  EXPECT_THAT(defines(kAttention, "attention dim=64 alibi=1"), testing::Contains("RIDGE_CONSUMERS=3"));
  EXPECT_THAT(defines(kAttention, "attention dim=256 alibi=1 documents=2"), testing::Contains("RIDGE_BLOCK_N=64"))
      << "registers";
  EXPECT_THAT(defines(kAttention, "attention dim=256 alibi=1"), testing::Contains("RIDGE_BLOCK_N=80"));
  EXPECT_THAT(defines(kAttention, "attention dim=192 alibi=1"), testing::Contains("RIDGE_BLOCK_N=96"));
}

// Sinks are an operand, a softcap two numbers of the call, and each is a build of its own.
TEST(AttentionPlan, SinksAndASoftcapAreBuildsOfTheirOwn) {
  using Kind = record::ResolvedArgument::Kind;
  const auto parts = [](const char* words) {
    const Problem problem = problem_of(fmt::format("attention dim=64 {}", words));
    return plan_of(kAttention, problem, dense_views(problem)).kernels.back().parameters.back().parts;
  };
  const auto defines = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return described_kernel(source).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  const auto real = [](const record::ResolvedArgument& part) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(part.bits));
  };
  EXPECT_EQ(parts("").at(17).kind, Kind::kZeros);
  EXPECT_EQ(parts("").at(18).kind, Kind::kZeros);
  EXPECT_EQ(parts("sinks=1").at(17).kind, Kind::kOperand);
  EXPECT_FLOAT_EQ(real(parts("softcap=1").at(18)), 2 * 1.44269504f / 8 / 30);
  EXPECT_FLOAT_EQ(real(parts("softcap=1").at(19)), 1.44269504f * 30);
  EXPECT_THAT(defines(kAttention, "attention dim=64 sinks=1"),
              testing::IsSupersetOf({"RIDGE_SINKS=1", "RIDGE_SOFTCAP=0", "RIDGE_CONSUMERS=3"}));
  EXPECT_THAT(defines(kAttention, "attention dim=64 softcap=1"),
              testing::IsSupersetOf({"RIDGE_SINKS=0", "RIDGE_SOFTCAP=1", "RIDGE_CONSUMERS=2"}));
  EXPECT_THAT(defines(kAttention, "attention dim=256 softcap=1 documents=2"), testing::Contains("RIDGE_BLOCK_N=64"))
      << "registers";
  constexpr const char* kNarrow = "ops/attention/backward/cuda_attention_backward.cu";
  EXPECT_THAT(defines(kNarrow, "attention_backward dim=40 softcap=1"),
              testing::IsSupersetOf({"RIDGE_HEAD_DIM=128", "RIDGE_COLUMNS=64", "RIDGE_BLOCK_M=64", "RIDGE_CLIPPED=1"}))
      << "steps of 128 queries have no registers for it";
  EXPECT_THAT(defines(kNarrow, "attention_backward dim=40 sinks=1"),
              testing::IsSupersetOf({"RIDGE_HEAD_DIM=64", "RIDGE_COLUMNS=64", "RIDGE_BLOCK_M=128"}));
  constexpr const char* kWide = "ops/attention/backward/cuda_attention_backward_wide.cu";
  EXPECT_THAT(defines(kWide, "attention_backward dim=192 v_dim=128 softcap=1"),
              testing::IsSupersetOf({"RIDGE_VALUE_DIM=192", "RIDGE_BLOCK_N=64"}));
  for (const auto& [source, words] :
       {std::pair{kNarrow, "attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 dim=128"},
        {kWide, "attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 dim=256"}}) {
    for (const int sinks : {0, 1}) {
      const Problem problem = problem_of(fmt::format("{} sinks={}", words, sinks));
      const ResolvedPlan plan = plan_of(source, problem, dense_views(problem));
      EXPECT_EQ(plan.workspaces.at(6).bytes, sinks * 4u * 64) << "a sum of each block of queries and head";
    }
  }
  EXPECT_THAT(described_kernel(kNarrow)
                  .refuses(plan_facts(problem_of("attention_backward batch=0 dim=64 sinks=1")))
                  .value_or(""),
              HasSubstr("blocks of queries, and there is none"));
}

// Columns are rounded up to builds; panels of 64 of them, tiles of Q and keys per step fill the shared memory.
TEST(AttentionPlan, AHeadOfAnySizeHasABuild) {
  struct Heads {
    const char *words, *head_dim, *value_dim, *block_n, *slots, *consumers;
    std::uint32_t shared;
  };
  for (const Heads& one : {Heads{"dim=8", "64", "64", "128", "2", "3", 2 * 24576 + 4 * 16384 + 256},
                           Heads{"dim=64", "64", "64", "128", "2", "3", 2 * 24576 + 4 * 16384 + 256},
                           Heads{"dim=72", "96", "96", "128", "2", "2", 2 * 32768 + 4 * 32768 + 256},
                           Heads{"dim=96", "96", "96", "128", "2", "2", 2 * 32768 + 4 * 32768 + 256},
                           Heads{"dim=128", "128", "128", "128", "2", "2", 2 * 32768 + 4 * 32768 + 256},
                           Heads{"dim=136", "160", "160", "112", "1", "2", 49152 + 4 * 43008 + 256},
                           Heads{"dim=192", "192", "192", "112", "1", "2", 49152 + 4 * 43008 + 256},
                           Heads{"dim=200", "224", "224", "80", "1", "2", 65536 + 4 * 40960 + 256},
                           Heads{"dim=256", "256", "256", "80", "1", "2", 65536 + 4 * 40960 + 256}}) {
    const Problem problem = problem_of(fmt::format("attention q_len=500 k_len=300 {}", one.words));
    const std::vector<TensorView> views = dense_views(problem);
    const ResolvedPlan plan = plan_of(kAttention, problem, views);
    EXPECT_EQ(plan.kernels.at(0).shared_bytes, one.shared) << one.words;
    EXPECT_LE(one.shared, 232448u);
    EXPECT_EQ(plan.tensor_maps.at(0).sizes[0], static_cast<std::uint64_t>(views[0].shape[3]))
        << "what the engine clips";
    EXPECT_EQ(std::to_string(plan.tensor_maps.at(1).box[1]), one.block_n) << one.words;
    EXPECT_THAT(described_kernel(kAttention).build(0, plan_facts(problem, views))->defines,
                testing::IsSupersetOf(
                    {fmt::format("RIDGE_HEAD_DIM={}", one.head_dim), fmt::format("RIDGE_VALUE_DIM={}", one.value_dim),
                     fmt::format("RIDGE_BLOCK_N={}", one.block_n), fmt::format("RIDGE_SLOTS={}", one.slots),
                     fmt::format("RIDGE_CONSUMERS={}", one.consumers)}))
        << one.words;
  }
}

// V is turned in front of the kernel, into as many bytes as it has codes with keys up to whole blocks.
TEST(AttentionPlan, OfCodesReadsValuesThatAreTurnedFirst) {
  constexpr const char* kSource = "ops/attention/fp8/cuda_attention_fp8.cu";
  const Problem problem = problem_of("attention_fp8 batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 dim=96 v_dim=80");
  const std::vector<TensorView> views = dense_views(problem);
  const ResolvedPlan plan = plan_of(kSource, problem, views);
  EXPECT_THAT(symbols(plan), ElementsAre("ridge_attention_turn_values", "ridge_attention"));
  EXPECT_EQ(plan.workspaces.at(0).bytes, 2u * 2 * 80 * 384);
  EXPECT_EQ(plan.kernels[0].grid[0] * plan.kernels[0].grid[1], 3u * 4);
  EXPECT_TRUE(plan.kernels[1].overlap_previous);
  EXPECT_EQ(plan.kernels[1].grid[0], 32u);
  EXPECT_EQ(plan.kernels[1].shared_bytes, 2 * 32768 + 3 * (16384u + 96 * 128) + 320);
  EXPECT_THAT(plan.tensor_maps.at(0).strides_bytes, ElementsAre(4 * 96, 96, 500 * 4 * 96)) << "a code is a byte";
  EXPECT_THAT(plan.tensor_maps[2].sizes, ElementsAre(384, 80, 2, 2));
  EXPECT_THAT(plan.tensor_maps[2].box, ElementsAre(128, 96, 1, 1)) << "columns that V lacks are zeros";
  EXPECT_THAT(described_kernel(kSource).build(0, plan_facts(problem, views))->defines,
              testing::IsSupersetOf({"RIDGE_HEAD_DIM=96", "RIDGE_VALUE_DIM=96", "RIDGE_OUTPUT_TYPE=kBf16"}));
  const auto refusal = [&](const char* words) {
    const Problem refused = problem_of(fmt::format("attention_fp8 {}", words));
    return described_kernel(kSource).refuses(plan_facts(refused, dense_views(refused))).value_or("");
  };
  EXPECT_EQ(refusal("dim=256 v_dim=128"), "");
  EXPECT_THAT(refusal("dim=40"), testing::HasSubstr("multiples of 16"));
  EXPECT_THAT(refusal("dim=256"), testing::HasSubstr("of v up to 128"));
}

// By the columns in memory: rows of documents are stored without the copy engine.
TEST(AttentionPlan, ABuildForDocumentsHasTheColumnsOfTheCall) {
  const auto defines = [](const char* words) {
    const Problem problem = problem_of(fmt::format("attention {}", words));
    return described_kernel(kAttention).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  EXPECT_THAT(defines("dim=72 documents=3"), testing::Contains("RIDGE_OUTPUT_COLUMNS=72"));
  EXPECT_THAT(defines("dim=72"), testing::Contains("RIDGE_OUTPUT_COLUMNS=96")) << "one build for all of them";
}

TEST(AttentionPlan, DocumentsAreCutInFrontOfTheKernel) {
  const auto plan = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return plan_of(source, problem, dense_views(problem));
  };
  const ResolvedPlan forward =
      plan("ops/attention/cuda_attention.cu", "attention heads=4 kv_heads=2 q_len=500 k_len=300 dim=128 documents=5");
  EXPECT_THAT(symbols(forward), ElementsAre("ridge_attention_documents", "ridge_attention"));
  EXPECT_EQ(forward.kernels[0].parameters.at(0).bytes, 32u) << "DocumentOffsets";
  EXPECT_EQ(forward.kernels[1].grid[0], 40u) << "no more than 3 + 5 + 2 tiles of 4 heads";
  ASSERT_EQ(forward.workspaces.size(), 1u);
  EXPECT_EQ(forward.workspaces[0].bytes, 32u * 11);
  const auto sorted = [&](const char* words) {
    return plan("ops/attention/cuda_attention.cu", words).kernels.at(0).parameters.back().parts.at(0).bits;
  };
  EXPECT_EQ(sorted("attention q_len=65536 k_len=65536 dim=128 documents=5"), 1u);
  EXPECT_EQ(sorted("attention q_len=65537 k_len=65537 dim=128 documents=5"), 0u) << "more than 32 MiB for each head";
  EXPECT_THAT(symbols(plan("ops/attention/cuda_attention.cu", "attention dim=128")), ElementsAre("ridge_attention"));
  const ResolvedPlan backward =
      plan("ops/attention/backward/cuda_attention_backward.cu",
           "attention_backward heads=4 kv_heads=2 q_len=500 k_len=300 dim=128 documents=5 deterministic=1");
  EXPECT_THAT(symbols(backward), ElementsAre("ridge_attention_backward_documents", "ridge_attention_backward_prepare",
                                             "ridge_attention_backward", "ridge_attention_backward_finish"));
  EXPECT_EQ(backward.kernels[1].grid[0], 14u) << "7 + 5 + 2 blocks of 64 queries";
  EXPECT_EQ(backward.kernels[2].grid[0], 18u) << "2 + 5 + 2 blocks of keys of two heads";
  ASSERT_EQ(backward.workspaces.size(), 7u);
  EXPECT_EQ(backward.workspaces[2].bytes, 32768u * 14 * 4);
  EXPECT_EQ(backward.workspaces[4].bytes, 32u * 10);
  EXPECT_EQ(backward.workspaces[5].bytes, 8u * 15);
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
  EXPECT_THAT(refusal("dim=100"), HasSubstr("heads of multiples of 8: dim=100"));
  EXPECT_THAT(refusal("dim=64 v_dim=4"), HasSubstr("heads of multiples of 8: dim=64 v_dim=4"));
  EXPECT_EQ(refusal("dim=64 v_dim=256"), "");
  EXPECT_EQ(refusal("dim=64 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1 alibi=1"), "");
  EXPECT_THAT(refusal("k_len=0"), HasSubstr("nothing to multiply: k_len=0"));
  EXPECT_THAT(refusal("q_len=1073741825"), HasSubstr("counted in 32 bits"));
  EXPECT_THAT(refusal("dim=64", {16, 8, 16, 16, 4}), HasSubstr("start on 16 bytes: k_align=8"));
  EXPECT_EQ(refusal("dim=64", {16, 16, 16, 16, 4}), "") << "the log-sum-exp goes by elements";
}

constexpr const char* kBackward = "ops/attention/backward/cuda_attention_backward.cu";

TEST(AttentionBackwardPlan, ThreeLaunchesShareTheirSumsInScratchMemory) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 " + words);
    return plan_of(kBackward, problem, dense_views(problem));
  };
  const ResolvedPlan plain = plan("dim=128");
  EXPECT_THAT(symbols(plain), ElementsAre("ridge_attention_backward_prepare", "ridge_attention_backward",
                                          "ridge_attention_backward_finish"));
  EXPECT_EQ(plain.kernels[0].grid[0], 8u) << "blocks of 64 queries";
  EXPECT_EQ(plain.kernels[0].grid[1], 8u) << "heads of both sequences";
  EXPECT_EQ(plain.kernels[1].grid[0], 12u) << "three blocks of keys of four heads";
  EXPECT_EQ(plain.kernels[1].shared_bytes, 197888u);
  ASSERT_EQ(plain.workspaces.size(), 7u);
  EXPECT_EQ(plain.workspaces[0].bytes, 64u * 64 * 4);
  EXPECT_EQ(plain.workspaces[2].bytes, 64u * 64 * 128 * 4) << "dQ in fp32";
  EXPECT_EQ(plain.workspaces[3].bytes, 0u);
  EXPECT_EQ(plain.kernels[0].parameters.at(0).bytes, 336u) << "AttentionBackwardView";
  const ResolvedPlan ordered = plan("dim=64 deterministic=1 mask=causal");
  EXPECT_EQ(ordered.kernels[0].grid[0], 4u) << "blocks of 128 queries";
  EXPECT_EQ(ordered.kernels[1].shared_bytes, 198912u);
  EXPECT_EQ(ordered.workspaces[3].bytes, 4u * 8 * 8);
  const ResolvedPlan clipped = plan("dim=96");
  EXPECT_EQ(clipped.kernels[1].shared_bytes, 197888u) << "that of heads of 128";
  EXPECT_EQ(clipped.workspaces[2].bytes, 64u * 64 * 128 * 4);
}

// Heads of K and V that are worked on at one time.
TEST(AttentionBackwardPlan, SectionsShareTheL2OrAreTwoBlocksForEveryMultiprocessor) {
  const auto section = [](const char* source, const std::string& words, int multiprocessors) {
    const Problem problem = problem_of("attention_backward " + words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = multiprocessors;
    return described_kernel(source).resolve(0, facts).value().kernels.back().parameters.back().parts.at(27).bits;
  };
  const auto of = [&](const std::string& words) {
    return section("ops/attention/backward/cuda_attention_backward.cu", words, 132);
  };
  const auto wide = [&](const std::string& words) {
    return section("ops/attention/backward/cuda_attention_backward_wide.cu", words, 132);
  };
  EXPECT_EQ(of("batch=2 heads=64 kv_heads=8 q_len=4096 k_len=4096 dim=128 mask=causal"), 8u) << "32 blocks a head";
  EXPECT_EQ(of("heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal"), 4u) << "64 blocks a head";
  EXPECT_EQ(of("batch=32 heads=32 kv_heads=8 q_len=512 k_len=512 dim=128 mask=causal"), 16u) << "2 MiB a head";
  EXPECT_EQ(of("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=64 mask=causal deterministic=1"), 32u);
  EXPECT_EQ(of("batch=2 heads=64 kv_heads=8 q_len=4096 k_len=4096 dim=128"), 8u) << "of one query head each";
  EXPECT_EQ(wide("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=256 mask=causal"), 1u);
  EXPECT_EQ(wide("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=256 mask=causal deterministic=1"), 4u) << "turns";
  for (const int multiprocessors : {1, 5, 132}) {
    for (const char* more : {"", " mask=causal", " deterministic=1", " mask=causal deterministic=1"}) {
      for (const int length : {1, 300, 5000, 100000}) {
        const std::string words = fmt::format("heads=6 kv_heads=3 q_len={0} k_len={0} dim=64{1}", length, more);
        const std::uint64_t heads =
            section("ops/attention/backward/cuda_attention_backward.cu", words, multiprocessors);
        EXPECT_GE(heads, 1u) << words << " on " << multiprocessors;
        EXPECT_LE(heads, 3u) << words << " on " << multiprocessors;
      }
    }
  }
}

TEST(AttentionBackwardPlan, RefusesWhatItCannotReadWithTheValues) {
  const DescribedKernel& kernel = described_kernel(kBackward);
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("attention_backward ") + words))).value_or("");
  };
  for (const char* words : {"dim=8", "dim=64", "dim=96", "dim=128", "dim=64 v_dim=128"}) EXPECT_EQ(refusal(words), "");
  EXPECT_THAT(refusal("dim=100"), HasSubstr("heads of multiples of 8 up to 128: dim=100"));
  EXPECT_THAT(refusal("dim=136"), HasSubstr("heads of multiples of 8 up to 128: dim=136"));
  EXPECT_THAT(refusal("dim=128 v_dim=4"), HasSubstr("up to 128: dim=128 v_dim=4"));
  EXPECT_EQ(refusal("dim=64 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1 alibi=1"), "");
  EXPECT_THAT(refusal("k_len=0"), HasSubstr("nothing to multiply"));
  EXPECT_THAT(refusal("batch=20000"), HasSubstr("at most 65535 heads"));
}

constexpr const char* kWideBackward = "ops/attention/backward/cuda_attention_backward_wide.cu";

TEST(WideAttentionBackwardPlan, HasAllHeadsBeyondTheOtherKernels) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 " + words);
    return plan_of(kWideBackward, problem, dense_views(problem));
  };
  const ResolvedPlan latent = plan("dim=192 v_dim=128");
  EXPECT_THAT(symbols(latent), ElementsAre("ridge_attention_backward_prepare", "ridge_attention_backward",
                                           "ridge_attention_backward_finish"));
  EXPECT_EQ(latent.kernels[0].grid[0], 8u) << "blocks of 64 queries";
  EXPECT_EQ(latent.kernels[1].grid[0], 12u) << "three blocks of 128 keys of four heads";
  EXPECT_EQ(latent.kernels[1].shared_bytes, 230576u);
  EXPECT_EQ(latent.kernels[2].block[0], 384u) << "three parts of dQ";
  EXPECT_EQ(latent.workspaces[2].bytes, 64u * 64 * 192 * 4) << "dQ in fp32";
  EXPECT_EQ(latent.kernels[0].parameters.at(0).bytes, 336u) << "AttentionBackwardView";
  const ResolvedPlan middle = plan("dim=160 v_dim=136");
  EXPECT_EQ(middle.kernels[1].grid[0], 20u) << "five blocks of 64 keys of four heads";
  EXPECT_EQ(middle.workspaces[2].bytes, 64u * 64 * 192 * 4);
  const ResolvedPlan wide = plan("dim=200 v_dim=160 deterministic=1");
  EXPECT_EQ(wide.kernels[1].grid[0], 20u) << "five blocks of 64 keys of four heads";
  EXPECT_EQ(wide.kernels[2].block[0], 512u) << "four parts of dQ";
  EXPECT_EQ(wide.workspaces[2].bytes, 64u * 64 * 256 * 4);
  EXPECT_EQ(wide.workspaces[3].bytes, 64u * 4);
  const DescribedKernel& kernel = described_kernel(kWideBackward);
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("attention_backward ") + words))).value_or("");
  };
  for (const char* words : {"dim=136", "dim=192 v_dim=128", "dim=256", "dim=8 v_dim=256"}) {
    EXPECT_EQ(refusal(words), "");
  }
  EXPECT_THAT(refusal("dim=128"), HasSubstr("heads of more than 128: dim=128"));
  EXPECT_THAT(refusal("dim=132"), HasSubstr("heads of multiples of 8 up to 256: dim=132"));
  EXPECT_THAT(refusal("dim=192 v_dim=20"), HasSubstr("v_dim=20"));
}

constexpr const char* kShortBackward = "ops/attention/backward/cuda_attention_backward_short.cu";

TEST(ShortAttentionBackwardPlan, IsOneLaunchWithoutScratchMemory) {
  const Problem problem = problem_of("attention_backward batch=3 heads=4 kv_heads=4 q_len=200 k_len=256 dim=64");
  const ResolvedPlan plan = plan_of(kShortBackward, problem, dense_views(problem));
  EXPECT_THAT(symbols(plan), ElementsAre("ridge_attention_backward_short"));
  EXPECT_EQ(plan.kernels[0].grid[0], 12u) << "a block per head";
  EXPECT_EQ(plan.kernels[0].parameters.back().bytes, 152u) << "View";
  EXPECT_TRUE(plan.workspaces.empty());
}

TEST(ShortAttentionBackwardPlan, TakesWhatABlockHoldsAndNoMore) {
  const DescribedKernel& kernel = described_kernel(kShortBackward);
  const auto refusal = [&](const std::string& words) {
    return kernel.refuses(plan_facts(problem_of("attention_backward heads=2 " + words))).value_or("");
  };
  for (const char* words : {"kv_heads=2 q_len=256 k_len=256 dim=64", "kv_heads=2 q_len=1 k_len=3 dim=8 mask=causal"}) {
    EXPECT_EQ(refusal(words), "");
  }
  EXPECT_THAT(refusal("kv_heads=1 q_len=256 k_len=256 dim=64"), HasSubstr("share no keys here: heads=2 kv_heads=1"));
  EXPECT_THAT(refusal("kv_heads=2 q_len=257 k_len=256 dim=64"),
              HasSubstr("up to 256 queries and keys: k_len=256 q_len=257"));
  EXPECT_THAT(refusal("kv_heads=2 q_len=64 k_len=64 dim=72"), HasSubstr("multiples of 8 up to 64: dim=72"));
  for (const char* more : {"keys_left=9", "documents=3", "sinks=1", "softcap=1", "alibi=1"}) {
    EXPECT_THAT(refusal(fmt::format("kv_heads=2 q_len=64 k_len=64 dim=64 {}", more)), HasSubstr("not for this kernel"));
  }
}

}  // namespace
}  // namespace ridge::ops
