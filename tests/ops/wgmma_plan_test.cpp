// The choice and the launch plan of the Hopper matrix products, which need no GPU.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ops/gemm/cuda_wgmma_model.h"

namespace ridge::cuda {
namespace {

constexpr int kMultiprocessors = 132;

std::vector<const WgmmaConfig*> all_configs() {
  std::vector<const WgmmaConfig*> all;
  for (const auto& config : kWgmmaConfigs) all.push_back(&config);
  for (const auto& config : kPromotedConfigs) all.push_back(&config);
  return all;
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
      ASSERT_EQ(wgmma_refuses(g), std::nullopt);
      const WgmmaConfig* config = choose_wgmma(g, DeviceFacts{});
      ASSERT_NE(config, nullptr) << m << "," << n << "," << k << " " << name_of(g.scaling);
      const WgmmaPlan plan = plan_wgmma(g, *config, kMultiprocessors);
      EXPECT_LE(plan.shared_bytes, 232448u) << config->name;
      EXPECT_GT(plan.grid, 0u);
      EXPECT_EQ(plan.grid % plan.cluster, 0u) << config->name;
      EXPECT_GE(static_cast<std::int64_t>(plan.tile_rows) * config->block_m * config->cluster_m, g.m);
      EXPECT_GE(static_cast<std::int64_t>(plan.tile_cols) * config->block_n * config->cluster_n, g.n);
      EXPECT_GE(k_blocks_of(g), config->split_k) << "a part of K would be empty";
    }
  }
}

TEST(WgmmaPlan, OutputsTheCopyEngineCannotAddressHaveAConfigurationToo) {
  for (GemmCase g : kinds(512, 520, 512)) {
    g.n = 519;
    if (g.b_mn_major) g.ldb = 520;
    if (g.scaling == GemmScaling::kVector) continue;  // refused: N is not a multiple of four
    g.ldc = g.ld_residual = 520;
    ASSERT_EQ(wgmma_refuses(g), std::nullopt);
    ASSERT_TRUE(needs_direct_store(g));
    EXPECT_NE(choose_wgmma(g, DeviceFacts{}), nullptr) << name_of(g.type_c) << " " << name_of(g.scaling);
  }
}

TEST(WgmmaPlan, FewTilesAreSplitAndManyAreNot) {
  EXPECT_GT(choose_wgmma(bf16(256, 4096, 14336), DeviceFacts{})->split_k, 1);
  EXPECT_GT(choose_wgmma(bf16(128, 8192, 8192), DeviceFacts{})->split_k, 1);
  EXPECT_EQ(choose_wgmma(bf16(4096, 4096, 4096), DeviceFacts{})->split_k, 1);
  const WgmmaConfig& split = *choose_wgmma(bf16(256, 4096, 14336), DeviceFacts{});
  const WgmmaPlan plan = plan_wgmma(bf16(256, 4096, 14336), split, kMultiprocessors);
  EXPECT_EQ(plan.grid, plan.tile_rows * plan.tile_cols * plan.cluster) << "blocks of a split tile take only that one";
}

TEST(WgmmaPlan, PromotionIsUsedWhereTheContractAsksForIt) {
  EXPECT_EQ(choose_wgmma(e4m3(GemmScaling::kRow), DeviceFacts{})->instruction_n, 0);
  EXPECT_GT(choose_wgmma(e4m3(GemmScaling::kBlock), DeviceFacts{})->instruction_n, 0);
  GemmCase promoted = e4m3(GemmScaling::kRow);
  promoted.promote = true;
  EXPECT_GT(choose_wgmma(promoted, DeviceFacts{})->instruction_n, 0);
}

TEST(WgmmaPlan, MistakesAreRefusedWithTheValuesAndTheWayOut) {
  const auto says = [](const std::optional<std::string>& refusal, const char* words) {
    return refusal.has_value() && refusal->find(words) != std::string::npos;
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
  EXPECT_TRUE(says(wgmma_refuses(bf16(64, 64, 63)), "63 elements"));
  GemmCase fp32 = bf16(64, 64, 64);
  fp32.type_a = fp32.type_b = fp32.type_c = GemmType::kF32;
  EXPECT_TRUE(says(wgmma_refuses(fp32), "tf32"));
  EXPECT_EQ(gemm_refuses(fp32), std::nullopt) << "the plain kernel takes it";
  GemmCase transposed = e4m3(GemmScaling::kTensor);
  transposed.a_mn_major = true;
  EXPECT_TRUE(says(wgmma_refuses(transposed), "transpose"));
  EXPECT_TRUE(says(wgmma_refuses(e4m3(GemmScaling::kMx)), "gemm_simt"));
  EXPECT_TRUE(says(wgmma_refuses(e4m3(GemmScaling::kBlock, 4097)), "4097"));
  GemmCase odd = bf16(64, 64, 64);
  odd.residual = true;
  odd.ld_residual = 65;
  EXPECT_TRUE(says(wgmma_refuses(odd), "65"));
}

// Rows that straddle lines of L2 would make it fetch twice what they need.
TEST(WgmmaPlan, RowsThatDoNotStartOnLinesFetchOneLineAtATime) {
  const auto promotion = [](std::int64_t k) {
    const GemmCase g = bf16(4096, 4096, k);
    return plan_wgmma(g, *choose_wgmma(g, DeviceFacts{}), kMultiprocessors).a.l2_promotion_bytes();
  };
  EXPECT_EQ(promotion(4096), 256);
  EXPECT_EQ(promotion(5000), 128);
}

// The compile check must build what ships: every configuration appears in its table, with the same numbers.
TEST(WgmmaPlan, TheCompileCheckRepeatsEveryConfiguration) {
  std::ifstream file(std::string(RIDGE_SOURCE_DIR) + "/src/ops/gemm/cuda_wgmma.configs.toml");
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  for (const WgmmaConfig* config : all_configs()) {
    const std::string name = (config->instruction_n ? "block_" : "") + std::string(config->name) + " = ";
    const std::string* found = nullptr;
    for (const std::string& line : lines) {
      if (line.starts_with(name)) found = &line;
    }
    ASSERT_NE(found, nullptr) << name;
    auto has = [&](const std::string& key, int value) {
      const std::string entry = key + " = " + std::to_string(value);
      return found->find(entry + ",") != std::string::npos || found->find(entry + " ") != std::string::npos;
    };
    EXPECT_TRUE(has("BLOCK_M", config->block_m) && has("BLOCK_N", config->block_n) && has("STAGES", config->stages) &&
                has("CLUSTER_M", config->cluster_m) && has("CLUSTER_N", config->cluster_n) &&
                has("PINGPONG", config->pingpong) && has("SLAB_BUFFERS", config->slab_buffers))
        << *found;
    EXPECT_TRUE(config->split_k == 1 || has("SPLIT_K", config->split_k)) << *found;
    EXPECT_TRUE(config->instruction_n == 0 ||
                (has("INSTRUCTION_N", config->instruction_n) && has("PARTS", config->parts)))
        << *found;
  }
}

}  // namespace
}  // namespace ridge::cuda
