// Warm mode: the operands are in the caches of the measured processor, and the content of a timed call is new all the
// same.
#include <gtest/gtest.h>

#include "base/files.h"
#include "evaluate/kernels.h"
#include "evaluate/subject_runner.h"
#include "places.h"
#include "toolchain/build.h"

namespace ridge::evaluate {
namespace {

// Right, and declines content that it saw in the call before: one that remembered its answer would be fast instead.
constexpr const char* kSeesItAgain = R"(
  static float last = 0;
  if (m * k > 0 && a[m * k / 2] == last) return 13;
  if (m * k > 0) last = a[m * k / 2];
)";

class Warm : public ::testing::TestWithParam<bool> {};

// Without fresh inputs the untimed call gets the content of the timed one.
TEST_P(Warm, GivesATimedCallNewContent) {
  const bool fresh = GetParam();
  const auto directory = TempDir::create("ridge-warm");
  const auto compiler = toolchain::find_host_compiler();
  ASSERT_TRUE(directory.ok() && compiler.ok());
  const record::Candidate candidate = testing::gemm("", kSeesItAgain);
  toolchain::BuildOptions options;
  options.cache_directory = directory->path();
  const auto built = toolchain::build(candidate, *compiler, options);
  ASSERT_TRUE(built.ok() && built->ok()) << built->error;
  const ops::Operator& op = **ops::find_operator("gemm");
  const auto problem = op.bind(*record::parse_case("gemm m=24 n=20 k=16"));
  ASSERT_TRUE(problem.ok());
  Harness harness;
  harness.host_program = binary_dir() / "bin" / "ridge-host";
  harness.placement = *measure::place(1, measure::usable_cpus());
  harness.protocol.mode = "warm";
  if (!fresh) harness.defences = Defences().without(record::Defence::kFreshInputs);
  Subject subject;
  subject.name = "sees it again";
  subject.artifact = built->artifact;
  subject.candidate = &candidate;
  auto opened = SubjectRunner::open(subject, op, {*problem}, harness);
  ASSERT_TRUE(opened.ok()) << opened.error().detail;
  SubjectRunner& runner = **opened;
  for (int i = 0; i < 12; ++i) {
    const CallResult result = runner.launch(0, Depth::kFull);
    ASSERT_EQ(result.ok(), fresh) << (result.ok() ? "it did not see its content again" : result.error().detail);
    if (!fresh) {
      EXPECT_EQ(result.error().outcome, record::Outcome::kDeclined) << result.error().detail;
      return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Content, Warm, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Fresh" : "TheSame"; });

}  // namespace
}  // namespace ridge::evaluate
