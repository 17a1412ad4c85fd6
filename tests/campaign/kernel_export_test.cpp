// The accepted kernel leaves its campaign with its configuration in its source.
#include "campaign/kernel_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace ridge::campaign::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSource = "#ifndef SPEED\n#define SPEED 100\n#endif\nint kernel = SPEED;\n";

record::Proposal faster() {
  record::Proposal proposal = make_proposal({make_candidate(150, kSource)}, "fast");
  proposal.hypothesis.title = "a title \\\\";
  return proposal;
}

TEST(KernelExport, SaysItsConfigurationItsCompileLineAndWhereItIsFrom) {
  World world(one_per_round({faster(), make_proposal({make_candidate(50, kSource)}, "slow")}));
  world.executor.on(record::WorkerTask::kEvaluate, [](const record::WorkerRequest& request) {
    record::WorkerResponse response = evaluate(request);
    response.evaluation->build.command = "c++ -c kernel.cpp -O3 -DSPEED=150 -DSPEEDY=1";
    return response;
  });
  ASSERT_TRUE(world.run());
  const State state = world.state();
  ASSERT_FALSE(state.rounds.empty()) << (state.refused.empty() ? state.paused.value_or("")
                                                               : state.refused.back().refused);
  const Result<KernelExport> kernel = export_kernel(state);
  ASSERT_TRUE(kernel) << kernel.error().text();
  ASSERT_EQ(kernel->files.size(), 1u);
  const std::string& text = kernel->files[0].text;
  EXPECT_TRUE(text.ends_with("#ifndef SPEED\n#define SPEED 150\n#endif\nint kernel = SPEED;\n")) << text;
  EXPECT_THAT(text, HasSubstr("// configuration  SPEED=150\n"));
  EXPECT_THAT(text, HasSubstr("// compile        c++ -c kernel.cpp -O3 -DSPEEDY=1\n"));
  EXPECT_THAT(text, HasSubstr("from round 2 of the campaign gemm_cpu_test_20260101"));
  EXPECT_THAT(text, HasSubstr(state.incumbent.candidate.id()));
  EXPECT_THAT(text, HasSubstr(state.last_hash));
  EXPECT_THAT(text, HasSubstr("//   m=512 n=512 k=512"));
  EXPECT_THAT(text, Not(HasSubstr("\\")));  // would continue the comment into the next line
  EXPECT_EQ(kernel->round, 2);
  EXPECT_TRUE(kernel->measured);
  EXPECT_NEAR(kernel->speedup, 1.5, 0.02);
  EXPECT_EQ(kernel->speedup, speedup_of(state));
}

TEST(KernelExport, WithoutAnAcceptedRoundThereIsNoKernel) {
  World world(one_per_round({make_proposal({make_candidate(50)}, "slow")}));
  ASSERT_TRUE(world.run());
  const Result<KernelExport> kernel = export_kernel(world.state());
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::kConflict);
  EXPECT_THAT(kernel.error().message, HasSubstr("the baseline stands"));
}

TEST(KernelExport, AValueThatTheSourceDoesNotTakeIsSaid) {
  World world(one_per_round({make_proposal({make_candidate(150, "int kernel;\n")}, "fast")}));
  ASSERT_TRUE(world.run());
  EXPECT_THAT(export_kernel(world.state()).error().message, HasSubstr("SPEED is defined nowhere"));
}

}  // namespace
}  // namespace ridge::campaign::test
