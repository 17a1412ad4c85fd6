// The description of the Hopper matrix product: which cases it takes, which configuration, and what is launched. Needs
// no GPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/matmul/cuda_wgmma_model.h"
#include "ops/matmul/values.h"

namespace ridge::cuda {
namespace {

constexpr int kMultiprocessors = 132;

const ops::DescribedKernel& kernel() { return ops::described_kernel(kWgmmaSource); }

record::PlanFacts facts_of(const GemmCase& g) {
  record::PlanFacts facts;
  ops::matmul::add_values(g, facts.values);
  facts.values["sm_count"] = kMultiprocessors;
  const auto add = [&](const char* name) { facts.operands.push_back({name, DType::kBf16, {1, 1}, {1, 1}}); };
  add("a");
  add("b");
  if (g.scaling != GemmScaling::kNone) add("scale_a");
  if (g.scaling != GemmScaling::kNone) add("scale_b");
  if (g.bias) add("bias");
  if (g.residual) add("residual");
  add("c");
  return facts;
}

std::optional<std::string> refusal(const GemmCase& g) { return kernel().refuses(facts_of(g)); }

// Null where no configuration fits.
const WgmmaConfig* choose(const GemmCase& g) {
  const std::vector<int> ranked = rank_wgmma(g, kernel().fitting(facts_of(g)), wgmma_configs(), DeviceFacts{});
  return ranked.empty() ? nullptr : &wgmma_configs()[static_cast<std::size_t>(ranked[0])];
}

record::ResolvedPlan plan_of(const GemmCase& g, const WgmmaConfig& config) {
  return kernel().resolve(static_cast<int>(&config - wgmma_configs().data()), facts_of(g)).value();
}

std::int64_t tunable(const WgmmaConfig& config, const char* name) {
  return kernel().description().complete(kernel().description().find(config.name)->values).at(name);
}

// Numbers of the tile grid: rows, cols, group, along.
std::uint32_t tiles(const record::ResolvedPlan& plan, std::size_t which) {
  return static_cast<std::uint32_t>(plan.kernels[0].parameters[4].parts[which].bits);
}

GemmCase bf16(std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmCase g;
  g.m = m;
  g.n = n;
  g.k = k;
  return g;
}

GemmCase e4m3(GemmScaling scaling, std::int64_t m = 4096, std::int64_t n = 4096, std::int64_t k = 4096) {
  GemmCase g = bf16(m, n, k);
  g.type_a = g.type_b = GemmType::kE4m3;
  g.scaling = scaling;
  return g;
}

// Every kind of case that the wgmma kernel takes, in a shape.
std::vector<GemmCase> kinds(std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<GemmCase> cases;
  for (const bool a_mn : {false, true}) {
    for (const bool b_mn : {false, true}) {
      GemmCase g = bf16(m, n, k);
      g.a_mn_major = a_mn;
      g.b_mn_major = b_mn;
      cases.push_back(g);
      for (const GemmType out : {GemmType::kBf16, GemmType::kF32}) {
        GemmCase gradient = g, epilogue = g;
        gradient.accumulate = true;
        gradient.type_c = epilogue.type_c = out;
        epilogue.bias = epilogue.residual = true;
        epilogue.activation = GemmActivation::kGelu;
        cases.push_back(gradient);
        cases.push_back(epilogue);
      }
    }
  }
  for (const GemmScaling scaling :
       {GemmScaling::kTensor, GemmScaling::kRow, GemmScaling::kBlock, GemmScaling::kVector}) {
    cases.push_back(e4m3(scaling, m, n, k));
    cases.push_back(e4m3(scaling, m, n, k));
    cases.back().promote = true;
    cases.push_back(e4m3(scaling, m, n, k));
    cases.back().type_c = GemmType::kF32;
    cases.back().accumulate = true;
  }
  GemmCase tf32 = bf16(m, n, k);
  tf32.type_a = tf32.type_b = GemmType::kTf32;
  tf32.type_c = GemmType::kF32;
  cases.push_back(tf32);
  return cases;
}

TEST(WgmmaPlan, EveryCaseThatIsNotRefusedHasAConfigurationThatFitsTheMachine) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{16, 16, 16},
                                {128, 4096, 4096},
                                {256, 6144, 4096},
                                {4096, 2112, 7168},
                                {8192, 57344, 8192},
                                {4096, 4096, 64}}) {
    for (const GemmCase& g : kinds(m, n, k)) {
      ASSERT_EQ(refusal(g), std::nullopt);
      const WgmmaConfig* config = choose(g);
      ASSERT_NE(config, nullptr) << m << "," << n << "," << k << " " << name_of(g.scaling);
      const record::ResolvedPlan plan = plan_of(g, *config);
      const record::ResolvedKernel& launch = plan.kernels[0];
      EXPECT_LE(launch.shared_bytes, 232448u) << config->name;
      EXPECT_GT(launch.grid[0], 0u);
      EXPECT_EQ(launch.grid[0] % launch.cluster[0], 0u) << config->name;
      EXPECT_GE(std::int64_t{tiles(plan, 0)} * config->block_m * config->cluster_m, g.m);
      EXPECT_GE(std::int64_t{tiles(plan, 1)} * config->block_n * config->cluster_n, g.n);
      EXPECT_GE(k_blocks_of(g), config->split_k) << "a part of K would be empty";
    }
  }
}

TEST(WgmmaPlan, OutputsTheCopyEngineCannotAddressHaveAConfigurationToo) {
  for (GemmCase g : kinds(512, 520, 512)) {
    g.n = 519;
    if (g.b_mn_major) g.ldb = 520;
    g.ldc = g.ld_residual = 520;
    ASSERT_EQ(refusal(g), std::nullopt);
    const WgmmaConfig* config = choose(g);
    ASSERT_NE(config, nullptr) << name_of(g.type_c) << " " << name_of(g.scaling);
    const record::ResolvedPlan plan = plan_of(g, *config);
    EXPECT_EQ(plan.kernels[0].parameters[2].parts[0].kind, record::ResolvedArgument::Kind::kZeros) << "no map of C";
    EXPECT_EQ(plan.tensor_maps.size(), 2u);
  }
}

TEST(WgmmaPlan, FewTilesAreSplitAndManyAreNot) {
  EXPECT_GT(choose(bf16(256, 4096, 14336))->split_k, 1);
  EXPECT_GT(choose(bf16(128, 8192, 8192))->split_k, 1);
  EXPECT_EQ(choose(bf16(4096, 4096, 4096))->split_k, 1);
  const record::ResolvedPlan plan = plan_of(bf16(256, 4096, 14336), *choose(bf16(256, 4096, 14336)));
  EXPECT_EQ(plan.kernels[0].grid[0], tiles(plan, 0) * tiles(plan, 1) * plan.kernels[0].cluster[0])
      << "blocks of a split tile take only that one";
}

TEST(WgmmaPlan, PromotionIsUsedWhereTheContractAsksForIt) {
  EXPECT_EQ(tunable(*choose(e4m3(GemmScaling::kRow)), "RIDGE_INSTRUCTION_N"), 0);
  EXPECT_GT(tunable(*choose(e4m3(GemmScaling::kBlock)), "RIDGE_INSTRUCTION_N"), 0);
  GemmCase promoted = e4m3(GemmScaling::kRow);
  promoted.promote = true;
  EXPECT_GT(tunable(*choose(promoted), "RIDGE_INSTRUCTION_N"), 0);
}

TEST(WgmmaPlan, MistakesAreRefusedWithTheValuesAndTheWayOut) {
  const auto says = [](const std::optional<std::string>& why, const char* words) {
    return why.has_value() && why->find(words) != std::string::npos;
  };
  GemmCase mixed = bf16(64, 64, 64);
  mixed.type_b = GemmType::kF16;
  EXPECT_TRUE(says(gemm_refuses(mixed), "same type"));
  GemmCase unscaled = e4m3(GemmScaling::kNone);
  EXPECT_TRUE(says(gemm_refuses(unscaled), "must have them"));
  GemmCase scaled = bf16(64, 64, 64);
  scaled.scaling = GemmScaling::kRow;
  EXPECT_TRUE(says(gemm_refuses(scaled), "kRow"));
  GemmCase both = bf16(64, 64, 64);
  both.accumulate = both.bias = true;
  EXPECT_TRUE(says(gemm_refuses(both), "drop"));
  EXPECT_TRUE(says(refusal(bf16(64, 64, 63)), "row_a=63"));
  GemmCase fp32 = bf16(64, 64, 64);
  fp32.type_a = fp32.type_b = fp32.type_c = GemmType::kF32;
  EXPECT_TRUE(says(refusal(fp32), "tf32"));
  EXPECT_EQ(gemm_refuses(fp32), std::nullopt) << "the plain kernel takes it";
  GemmCase transposed = e4m3(GemmScaling::kTensor);
  transposed.a_mn_major = true;
  EXPECT_TRUE(says(refusal(transposed), "transpose"));
  EXPECT_TRUE(says(refusal(e4m3(GemmScaling::kMx)), "cuda_simt"));
  GemmCase unaligned_scales = e4m3(GemmScaling::kBlock, 4097);
  unaligned_scales.alignment_scale_a = 4;
  EXPECT_TRUE(says(refusal(unaligned_scales), "align_scale_a=4"));
  unaligned_scales.alignment_scale_a = 16;
  unaligned_scales.alignment_scale_b = 4;
  EXPECT_FALSE(refusal(unaligned_scales)) << "B's scales per 128 x 128 are read one by one";
  unaligned_scales.scaling = GemmScaling::kVector;
  EXPECT_TRUE(says(refusal(unaligned_scales), "align_scale_b=4"));
}

// Bulk copies are whole chunks of 16 bytes; the build for rows that are is left as it is.
TEST(WgmmaPlan, RowsOfScalesThatAreNoWholeChunksHaveABuildOfTheirOwn) {
  const auto rounds = [](GemmScaling scaling, std::int64_t m, std::int64_t n) {
    const record::PlanFacts facts = facts_of(e4m3(scaling, m, n));
    const std::vector<std::string> defines = kernel().build(kernel().fitting(facts).at(0), facts).value().defines;
    return std::ranges::find(defines, "RIDGE_ROUND_SCALES=1") != defines.end();
  };
  EXPECT_FALSE(rounds(GemmScaling::kBlock, 4096, 4094));
  EXPECT_TRUE(rounds(GemmScaling::kBlock, 4094, 4096));
  EXPECT_TRUE(rounds(GemmScaling::kVector, 4096, 4094));
  EXPECT_FALSE(rounds(GemmScaling::kVector, 4096, 4096));
  EXPECT_FALSE(rounds(GemmScaling::kRow, 4094, 4094));
}

// Rows that straddle lines of L2 would make it fetch twice what they need.
TEST(WgmmaPlan, RowsThatDoNotStartOnLinesFetchOneLineAtATime) {
  const auto promotion = [](std::int64_t k) {
    const GemmCase g = bf16(4096, 4096, k);
    return plan_of(g, *choose(g)).tensor_maps[0].l2_promotion_bytes;
  };
  EXPECT_EQ(promotion(4096), 256);
  EXPECT_EQ(promotion(5000), 128);
}

// The arguments as cuda_wgmma.cu declares them, for a product that has everything.
TEST(WgmmaPlan, ArgumentsAreLaidOutAsTheKernelDeclaresThem) {
  GemmCase g = bf16(4096, 4104, 4096);
  g.bias = g.residual = true;
  g.ldc = g.ld_residual = 4200;
  const record::PlanFacts facts = facts_of(g);
  const record::ResolvedPlan plan = plan_of(g, *choose(g));
  const auto& parameters = plan.kernels[0].parameters;
  const std::size_t bytes[] = {128, 128, 128, 24, 16, 4, 32, 24, 128};
  ASSERT_EQ(parameters.size(), std::size(bytes));
  for (std::size_t i = 0; i < parameters.size(); ++i) EXPECT_EQ(parameters[i].bytes, bytes[i]) << i;
  const auto operand = [&](std::size_t parameter, std::size_t part) {
    const record::ResolvedArgument& one = parameters[parameter].parts[part];
    return one.kind == record::ResolvedArgument::Kind::kOperand ? facts.operands[one.index].name : "null";
  };
  EXPECT_EQ(operand(3, 0), "c");
  EXPECT_EQ(parameters[3].parts[1].bits, 4200u);
  EXPECT_EQ(operand(6, 0), "null");
  EXPECT_EQ(operand(7, 0), "bias");
  EXPECT_EQ(operand(7, 1), "residual");
  EXPECT_EQ(parameters[7].parts[2].bits, 4200u);
  EXPECT_EQ(parameters[8].parts[0].kind, record::ResolvedArgument::Kind::kTensorMap);
  EXPECT_EQ(facts.operands[plan.tensor_maps[parameters[8].parts[0].index].index].name, "residual");
  GemmCase added = bf16(4096, 4096, 4096);
  added.accumulate = true;
  const record::ResolvedPlan in_place = plan_of(added, *choose(added));
  const record::ResolvedArgument& residual = in_place.kernels[0].parameters[7].parts[1];
  EXPECT_EQ(facts_of(added).operands.at(residual.index).name, "c") << "a 16-bit C that is added to is read";
  EXPECT_EQ(in_place.kernels[0].parameters[8].parts[0].kind, record::ResolvedArgument::Kind::kZeros)
      << "its slabs come through the map of C";
}

// What is added comes through the output slabs: as many of a warp as it has of a tile, or as fit.
TEST(WgmmaPlan, WhatIsAddedComesThroughTheSlabsThatThereIsRoomFor) {
  const auto macro = [](const GemmCase& g, std::string_view config, const std::string& name) {
    for (const int one : kernel().fitting(facts_of(g))) {
      if (wgmma_configs()[static_cast<std::size_t>(one)].name != config) continue;
      const record::ResolvedPlan plan = kernel().resolve(one, facts_of(g)).value();
      EXPECT_LE(plan.kernels[0].shared_bytes, 232448u) << config;
      const ops::KernelBuild build = kernel().build(one, facts_of(g)).value();
      for (const std::string& define : build.defines) {
        if (define.starts_with(name + "=")) return std::stoi(define.substr(name.size() + 1));
      }
    }
    ADD_FAILURE() << config << " does not fit";
    return -1;
  };
  GemmCase added = bf16(4096, 4096, 4096);
  added.accumulate = true;
  EXPECT_EQ(macro(added, "pp_128x128", "RIDGE_ADDED_SLABS"), 2);
  EXPECT_EQ(macro(added, "pp_64x64", "RIDGE_ADDED_SLABS"), 1) << "a tile has no more";
  EXPECT_EQ(macro(added, "coop_128x256_m2", "RIDGE_ADDED_SLABS"), 2);
  EXPECT_EQ(macro(added, "coop_128x224_m2", "RIDGE_ADDED_SLABS"), 3);
  EXPECT_EQ(macro(added, "split2_128x128", "RIDGE_ADDED_SLABS"), 0) << "parts of a split tile are read by the threads";
  EXPECT_EQ(macro(bf16(4096, 4096, 4096), "pp_128x128", "RIDGE_ADDED_SLABS"), 0);
  EXPECT_EQ(macro(added, "pp_128x128", "RIDGE_RESIDUAL_IS_C"), 1);
  // A residual that the copy engine cannot address is read by the threads, which then write C, too.
  GemmCase odd = bf16(4096, 4096, 4096);
  odd.residual = true;
  EXPECT_EQ(macro(odd, "pp_64x64", "RIDGE_ADDED_SLABS"), 1);
  odd.ld_residual = 4097;
  EXPECT_EQ(macro(odd, "pp_64x64", "RIDGE_ADDED_SLABS"), 0);
  EXPECT_EQ(macro(odd, "pp_64x64", "RIDGE_DIRECT_STORE"), 1);
}

// What a campaign won has no weight in the cost model yet: tuned tables and callers may name it, the model's own choice
// goes on among the others, and what was measured of that choice still counts.
TEST(WgmmaConfigurations, OneThatACampaignWonIsThereButNotTheModelsOwnChoice) {
  const std::span<const EmbeddedFile> files = ops::device_sources();
  const auto source = std::ranges::find(files, kWgmmaSource, &EmbeddedFile::path);
  const std::size_t begin = source->text.find("[configs]\n") + 10, end = source->text.find("[variants]\n");
  ASSERT_LT(begin, end);
  std::string before(source->text);  // with one of its configurations, whatever was promoted since
  before.replace(begin, end - begin, "coop_128x128 = { RIDGE_STAGES = 6, model = 1.0672 }\n");
  record::KernelConfig won{.name = "won", .values = {{"RIDGE_BLOCK_N", 256}}, .promoted = "a campaign, 1.24x"};
  const auto version = [](const std::string& text) { return record::kernel_version(text).value(); };
  const auto with = ops::DescribedKernel::read(kWgmmaSource, *record::text_with_config(before, won));
  ASSERT_TRUE(with) << with.error().text();
  EXPECT_EQ(version(*record::text_with_config(before, won)), version(before));
  won.model = 1.0;
  EXPECT_NE(version(*record::text_with_config(before, won)), version(before));
  ops::Implementation implementation;
  with->describe(implementation);
  EXPECT_EQ(implementation.configurations.back(), "won");
  EXPECT_EQ(implementation.promoted.back(), "a campaign, 1.24x");

  const GemmCase g = bf16(4096, 4096, 4096);
  std::vector<WgmmaConfig> configs = wgmma_configs();
  configs.push_back(*choose(g));
  configs.back().weight /= 2;  // the model expects more of it than of its own choice
  std::vector<int> fitting = kernel().fitting(facts_of(g));
  fitting.push_back(static_cast<int>(configs.size()) - 1);
  EXPECT_EQ(rank_wgmma(g, fitting, configs, DeviceFacts{})[0], fitting.back());
  configs.back().fitted = false;
  const std::vector<int> ranked = rank_wgmma(g, fitting, configs, DeviceFacts{});
  EXPECT_EQ(&wgmma_configs()[static_cast<std::size_t>(ranked[0])], choose(g));
  EXPECT_EQ(ranked[1], fitting.back()) << "the tuner tries it next";
}

}  // namespace
}  // namespace ridge::cuda
