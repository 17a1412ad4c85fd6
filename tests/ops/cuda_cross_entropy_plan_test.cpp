// The launch plans of cross_entropy's kernels, resolved without a GPU: who takes which row, and that it fits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/op.h"
#include "record/case.h"

namespace ridge::ops {
namespace {

using record::ResolvedPlan;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kForward = "ops/cross_entropy/cuda_cross_entropy.cu";
constexpr const char* kBackward = "ops/cross_entropy/backward/cuda_cross_entropy_backward.cu";

struct Planned {
  Problem problem;
  std::vector<TensorView> views;
  record::PlanFacts facts;

  explicit Planned(const std::string& text) {
    const auto parsed = record::parse_case(text);
    problem = (*find_operator(parsed->op))->bind(*parsed).value();
    for (const OperandSpec& operand : problem.operands) views.push_back(dense_view(operand, nullptr));
    plan();
  }
  void plan() {
    facts = plan_facts(problem, views);
    facts.values["sm_count"] = 132;
  }
  [[nodiscard]] ResolvedPlan on(const char* source, int configuration = 0) const {
    return described_kernel(source).resolve(configuration, facts).value();
  }
  [[nodiscard]] std::vector<std::string> defines(const char* source, int configuration = 0) const {
    return described_kernel(source).build(configuration, facts)->defines;
  }
};

// Blocks of a row grow until its threads keep it in 19 chunks each; what is longer is read twice. Clusters of eight
// leave out two multiprocessors of each group of 18.
TEST(CrossEntropyPlan, TeamsGrowWithTheRowUntilRegistersEnd) {
  struct Expected {
    const char* size;
    std::uint32_t grid, threads, cluster;
    const char* kept;
  };
  for (const Expected& one :
       {Expected{"tokens=100000 vocabulary=1000 dlogits=1", 2112, 32, 1, "RIDGE_KEPT=4"},
        Expected{"tokens=100000 vocabulary=8192 dlogits=1", 1056, 64, 1, "RIDGE_KEPT=16"},
        Expected{"tokens=16384 vocabulary=32000 dlogits=1", 264, 256, 1, "RIDGE_KEPT=16"},
        Expected{"tokens=8192 vocabulary=50304 dlogits=1", 264, 256, 2, "RIDGE_KEPT=13"},
        Expected{"tokens=8192 vocabulary=128256 dlogits=1", 264, 256, 4, "RIDGE_KEPT=16"},
        Expected{"tokens=8192 vocabulary=152064 dlogits=1", 264, 256, 4, "RIDGE_KEPT=19"},
        Expected{"tokens=5 vocabulary=152064 dlogits=1", 20, 256, 4, "RIDGE_KEPT=19"},
        Expected{"tokens=8192 vocabulary=256000 dlogits=1", 264, 256, 8, "RIDGE_KEPT=16"},
        Expected{"tokens=8192 vocabulary=128256 dlogits=1 dtype=f32", 264, 256, 8, "RIDGE_KEPT=16"},
        Expected{"tokens=8192 vocabulary=311296 dlogits=1", 264, 256, 8, "RIDGE_KEPT=19"},
        Expected{"tokens=8192 vocabulary=311304 dlogits=1", 528, 256, 8, "RIDGE_KEPT=0"},
        Expected{"tokens=8192 vocabulary=128256", 528, 256, 1, "RIDGE_KEPT=0"},
        Expected{"tokens=8192 vocabulary=128256 shard=1", 528, 256, 1, "RIDGE_KEPT=0"},
        Expected{"tokens=100 vocabulary=128256", 400, 256, 4, "RIDGE_KEPT=0"},
        Expected{"tokens=8192 vocabulary=50257 dlogits=1", 1056, 256, 1, "RIDGE_KEPT=0"}}) {
    const Planned planned(std::string("cross_entropy ") + one.size);
    const record::ResolvedKernel kernel = planned.on(kForward).kernels.at(0);
    EXPECT_EQ(kernel.grid[0], one.grid) << one.size;
    EXPECT_EQ(kernel.block[0], one.threads) << one.size;
    EXPECT_EQ(kernel.cluster[0], one.cluster) << one.size;
    EXPECT_TRUE(kernel.persistent) << one.size;
    EXPECT_THAT(planned.defines(kForward), Contains(one.kept)) << one.size;
  }
}

// What a multiprocessor has, with the kibibyte that it keeps of every block; and blocks of a row have all of it.
TEST(CrossEntropyPlan, RingsOfAllResidentBlocksFitAndPartsCoverTheRow) {
  const DescribedKernel& kernel = described_kernel(kForward);
  for (const char* more : {"dlogits=1", "", "shard=1", "dlogits=1 dtype=f32"}) {
    for (std::int64_t columns = 8; columns <= 500000; columns += columns < 2000 ? 56 : 13000) {
      for (const int tokens : {1, 100, 5000}) {
        const Planned planned(fmt::format("cross_entropy tokens={} vocabulary={} {}", tokens, columns, more));
        const std::vector<int> fitting = kernel.fitting(planned.facts);
        ASSERT_EQ(fitting.size(), kernel.description().configs.size()) << planned.problem.problem_case.text();
        for (const int configuration : fitting) {
          const record::ResolvedKernel one = planned.on(kForward, configuration).kernels.at(0);
          const record::Variables values = *kernel.variables(configuration, planned.facts);
          const auto of = [&](const char* name) { return values.at(name); };
          EXPECT_LE(of("resident") * (static_cast<std::int64_t>(one.shared_bytes) + 1024), 233472);
          EXPECT_LE(of("resident") * one.block[0], 1024);
          EXPECT_GE(of("part") * of("warps"), of("slice"));
          EXPECT_GE(of("slice") * of("blocks"), of("chunks"));
          EXPECT_EQ(of("part") % 8, 0) << "pieces start on 128 bytes of a row";
          EXPECT_TRUE(of("kept") == 0 || of("kept") * 32 >= of("part"));
          EXPECT_GE(of("stages"), 2);
          EXPECT_LE(of("stages"), 16);
          EXPECT_EQ(one.grid[0] % one.cluster[0], 0u);
        }
      }
    }
  }
}

TEST(CrossEntropyPlan, RowsThatStartOnNoSixteenBytesGoWithoutTheCopyEngine) {
  Planned planned("cross_entropy tokens=5000 vocabulary=32000 dlogits=1");
  const auto by_chunks = [&] {
    planned.plan();
    return planned.on(kForward).kernels.at(0).shared_bytes > 0;
  };
  EXPECT_TRUE(by_chunks());
  planned.views[0].stride[0] = 32008;
  EXPECT_TRUE(by_chunks());
  planned.views[0].stride[0] = 32001;
  EXPECT_FALSE(by_chunks());
  planned.views[0].stride[0] = 32000;
  planned.views[4].data = reinterpret_cast<void*>(8);  // dlogits
  EXPECT_FALSE(by_chunks());
}

// The scalar soft_cap has the name of the parameter that says whether there is one.
TEST(CrossEntropyPlan, ScalarsFollowTheCall) {
  const Planned planned("cross_entropy tokens=50 vocabulary=512 soft_cap=1");
  EXPECT_THAT(planned.defines(kForward), Contains("RIDGE_CAPPED=1"));
  const ResolvedPlan plan = planned.on(kForward);
  std::vector<std::string> formulas;
  for (const auto& formula : plan.formulas) formulas.push_back(formula.expression);
  EXPECT_THAT(formulas, ::testing::ElementsAre("label_smoothing", "z_loss", "soft_cap", "grad_scale", "ignore_index",
                                               "first", "whole"));
  EXPECT_EQ(plan.kernels.at(0).parameters.at(0).bytes, 168u) << "CrossEntropyParameters";
}

TEST(CrossEntropyBackwardPlan, PiecesOfRowsFillTheGrid) {
  const auto grid = [](const std::string& words) {
    return Planned("cross_entropy_backward " + words).on(kBackward).kernels.at(0).grid[0];
  };
  EXPECT_EQ(grid("tokens=8192 vocabulary=128256"), 8192u * 32) << "4096 columns a piece";
  EXPECT_EQ(grid("tokens=8192 vocabulary=128256 dtype=f32"), 8192u * 63);
  EXPECT_EQ(grid("tokens=7 vocabulary=67"), 7u);
  EXPECT_EQ(Planned("cross_entropy_backward tokens=7 vocabulary=67").on(kBackward).kernels.at(0).block[0], 32u);
  const Planned longest("cross_entropy_backward tokens=200000000 vocabulary=90000");
  EXPECT_THAT(described_kernel(kBackward).refuses(longest.facts).value_or(""), HasSubstr("so many pieces of rows"));
}

}  // namespace
}  // namespace ridge::ops
