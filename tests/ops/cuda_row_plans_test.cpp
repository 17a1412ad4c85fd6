// What the kernels for GPUs of rmsnorm, rope and layernorm are launched with. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cuda_plan_cases.h"

namespace ridge::ops {
namespace {

using record::ResolvedPlan;
using testing::ElementsAre;

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

}  // namespace
}  // namespace ridge::ops
