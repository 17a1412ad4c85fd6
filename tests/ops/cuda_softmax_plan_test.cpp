// The launch plans of softmax's kernels, resolved without a GPU: which threads take a row, and that they fit.
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

using ::testing::Contains;

constexpr const char* kForward = "ops/softmax/cuda_softmax.cu";
constexpr const char* kBackward = "ops/softmax/backward/cuda_softmax_backward.cu";

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
  [[nodiscard]] record::ResolvedPlan on(const char* source, int configuration = 0) const {
    return described_kernel(source).resolve(configuration, facts).value();
  }
  [[nodiscard]] std::vector<std::string> defines(const char* source) const {
    return described_kernel(source).build(0, facts)->defines;
  }
};

// Part of a warp, a warp, a block, a block that reads again, clusters; a row longer than eight blocks keep is read
// twice.
TEST(SoftmaxPlan, TeamsGrowWithTheRow) {
  struct Expected {
    const char* size;
    std::uint32_t grid, threads, cluster;
    const char* lanes;
  };
  for (const Expected& one : {Expected{"rows=100000 cols=8", 196, 256, 1, "RIDGE_LANES=1"},
                              Expected{"rows=100000 cols=256", 6250, 256, 1, "RIDGE_LANES=16"},
                              Expected{"rows=100000 cols=1024", 264, 256, 1, "RIDGE_LANES=32"},
                              Expected{"rows=16384 cols=4096", 528, 128, 1, "RIDGE_LANES=0"},
                              Expected{"rows=8192 cols=8192", 264, 256, 1, "RIDGE_LANES=0"},
                              Expected{"rows=5 cols=16384", 5, 512, 1, "RIDGE_LANES=0"},
                              Expected{"rows=4096 cols=32768", 4096, 512, 1, "RIDGE_LANES=0"},
                              Expected{"rows=4096 cols=65536", 132, 512, 4, "RIDGE_LANES=0"},
                              Expected{"rows=4096 cols=131072", 128, 512, 8, "RIDGE_LANES=0"},
                              Expected{"rows=4096 cols=131080", 528, 256, 1, "RIDGE_VECTORS=0"},
                              Expected{"rows=4096 cols=65536 dtype=f32", 128, 512, 8, "RIDGE_LANES=0"},
                              Expected{"rows=4096 cols=50257", 528, 256, 1, "RIDGE_VECTORS=0"}}) {
    const Planned planned(std::string("softmax ") + one.size);
    const record::ResolvedKernel kernel = planned.on(kForward).kernels.at(0);
    EXPECT_EQ(kernel.grid[0], one.grid) << one.size;
    EXPECT_EQ(kernel.block[0], one.threads) << one.size;
    EXPECT_EQ(kernel.cluster[0], one.cluster) << one.size;
    EXPECT_THAT(planned.defines(kForward), Contains(one.lanes)) << one.size;
    EXPECT_EQ(kernel.parameters.at(0).bytes, 80u) << "SoftmaxParameters";
  }
  EXPECT_TRUE(Planned("softmax rows=0 cols=64").on(kForward).kernels.empty());
}

// The backward of a 16-bit x with gradients in f32 counts in chunks of those; logsumexp reads x alone.
TEST(SoftmaxBackwardPlan, ChunksAreThoseOfWhatIsRead) {
  const auto value = [](const char* words, const char* name) {
    const Planned planned(std::string("softmax_backward ") + words);
    return described_kernel(kBackward).variables(0, planned.facts)->at(name);
  };
  EXPECT_EQ(value("rows=9 cols=8192", "chunks"), 1024);
  EXPECT_EQ(value("rows=9 cols=8192 out=f32", "chunks"), 2048);
  EXPECT_EQ(value("rows=9 cols=8192 form=logsumexp", "chunks"), 1024);
  EXPECT_EQ(value("rows=9 cols=8192 form=logsumexp", "inputs"), 1);
  EXPECT_EQ(value("rows=9 cols=131072", "blocks"), 8);
  EXPECT_EQ(value("rows=9 cols=131080", "by_chunks"), 0);
  const Planned planned("softmax_backward rows=9 cols=8192 form=logsumexp");
  EXPECT_EQ(planned.on(kBackward).kernels.at(0).parameters.at(0).bytes, 112u) << "SoftmaxBackwardParameters";
}

// What a multiprocessor has, with the kibibyte that it keeps of every block; and the threads of a row have all of it.
TEST(SoftmaxPlan, RingsOfAllResidentBlocksFitAndPartsCoverTheRow) {
  for (const auto& [op, source] : {std::pair{"softmax", kForward}, std::pair{"softmax_backward", kBackward}}) {
    const DescribedKernel& kernel = described_kernel(source);
    for (const char* more : {"", "out=f32", "dtype=f32", "form=logsumexp"}) {
      for (std::int64_t columns = 8; columns <= 140000; columns += columns < 2000 ? 56 : 7000) {
        for (const int rows : {1, 100, 50000}) {
          const Planned planned(fmt::format("{} rows={} cols={} {}", op, rows, columns, more));
          for (const int configuration : kernel.fitting(planned.facts)) {
            const record::ResolvedKernel one = planned.on(source, configuration).kernels.at(0);
            const record::Variables values = *kernel.variables(configuration, planned.facts);
            const auto of = [&](const char* name) { return values.at(name); };
            const std::string where = planned.problem.problem_case.text();
            EXPECT_LE(one.block[0], of("most_threads")) << where;
            EXPECT_EQ(one.block[0] % 32, 0u) << where;
            EXPECT_EQ(one.grid[0] % one.cluster[0], 0u) << where;
            if (of("by_chunks") == 0) continue;
            const std::int64_t team = of("lanes") > 0 ? of("lanes") : one.block[0];
            const bool in_steps = source == kForward && of("again") != 0;
            if (!in_steps) {
              EXPECT_GE(team * of("per_thread"), of("slice")) << where;
            }
            EXPECT_GE(of("slice") * of("blocks"), of("chunks")) << where;
            if (of("direct") != 0 || (values.contains("again") && of("again") != 0)) continue;
            EXPECT_LE(of("resident") * (static_cast<std::int64_t>(one.shared_bytes) + 1024), 233472) << where;
            EXPECT_LE(one.block[0], 512u) << "a row has sums of 16 warps";
            EXPECT_GE(of("stages"), 2) << where;
            EXPECT_LE(of("stages"), 8) << where;
          }
        }
      }
    }
  }
}

TEST(SoftmaxPlan, RowsThatStartOnNoSixteenBytesGoWithoutTheCopyEngine) {
  Planned planned("softmax rows=5000 cols=16000");
  const auto by_chunks = [&] {
    planned.plan();
    return planned.on(kForward).kernels.at(0).shared_bytes > 0;
  };
  EXPECT_TRUE(by_chunks());
  planned.views[0].stride[0] = 16008;
  EXPECT_TRUE(by_chunks());
  planned.views[0].stride[0] = 16001;
  EXPECT_FALSE(by_chunks());
  planned.views[0].stride[0] = 16000;
  planned.views[1].data = reinterpret_cast<void*>(8);
  EXPECT_FALSE(by_chunks());
}

}  // namespace
}  // namespace ridge::ops
