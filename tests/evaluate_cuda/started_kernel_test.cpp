// Kernels of the library as candidates: a start compiles to what the library builds for that case, and runs no other.
#include <gmock/gmock.h>

#include "base/embedded.h"
#include "base/files.h"
#include "evaluate/cuda/started_kernel.h"
#include "ops/described_kernel.h"
#include "ops/op.h"
#include "record/kernel_start.h"
#include "record/launch_plan.h"
#include "toolchain/device_build.h"

namespace ridge::evaluate::cuda {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;

record::Candidate started(std::string_view path, std::string_view op, const std::string& words) {
  record::Candidate candidate;
  candidate.op = op;
  candidate.backend = "cuda";
  candidate.sources = {{"start.cu", record::start_text(path, op, std::vector{words})}};
  for (const EmbeddedFile& file : ops::device_sources()) {
    const bool kernel = file.path == path;
    if (!kernel && !file.path.ends_with(".cuh")) continue;
    record::SourceFile source{std::string(file.path), record::as_candidate_text(std::string(file.text))};
    candidate.sources.insert(kernel ? candidate.sources.begin() + 1 : candidate.sources.end(), std::move(source));
  }
  return candidate;
}

record::PlanFacts facts_of(const std::string& problem_case, const record::Candidate& candidate) {
  const record::Case one = *record::parse_case(problem_case);
  record::PlanFacts facts = ops::plan_facts(*(*ops::find_operator(one.op))->bind(one));
  const auto defines = record::define_values(candidate).value();
  facts.values.insert(defines.begin(), defines.end());
  return facts;
}

// Every operator's first GPU case through every kernel that describes itself and has tunables: the macros of the start
// are those of the library's own build.
TEST(StartedKernel, HasTheMacrosOfTheLibrarysBuild) {
  int compared = 0;
  for (const ops::Operator* const op : ops::operators()) {
    const std::vector<record::Case> cases = op->cases(ops::CaseSet::kTarget, Backend::kCuda);
    if (cases.empty()) continue;
    const ops::Problem problem = *op->bind(cases.front());
    for (const ops::Implementation& one : op->implementations) {
      if (one.backend != Backend::kCuda || one.source.empty() || one.source.starts_with("ops/matmul/")) continue;
      const ops::DescribedKernel& kernel = ops::described_kernel(one.source);
      const record::PlanFacts facts = ops::plan_facts(problem);
      if (kernel.description().space.tunables.empty() || kernel.refuses(facts)) continue;
      record::Candidate candidate = started(one.source, op->name, problem.problem_case.label());
      candidate.defines = kernel.description().configs.front().values;
      const auto made = started_kernel(candidate, *record::define_values(candidate));
      ASSERT_TRUE(made) << one.source << ": " << made.error().text();
      ASSERT_NE(*made, nullptr);
      const auto built = kernel.build(0, facts);
      ASSERT_TRUE(built);
      EXPECT_THAT(built->defines, IsSupersetOf((*made)->macros)) << one.source;
      EXPECT_EQ(built->defines.size(), (*made)->macros.size() + kernel.description().space.tunables.size());
      ++compared;
    }
  }
  EXPECT_GE(compared, 10);
}

TEST(StartedKernel, RunsWhatNeedsTheSameBuildAndNothingElse) {
  const record::Candidate candidate = started("ops/rescale/cuda_rescale.cu", "rescale", "rows=64 cols=4096");
  const auto made = started_kernel(candidate, *record::define_values(candidate));
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(needs_another_build(**made, facts_of("rescale rows=64 cols=4096", candidate)), std::nullopt);
  EXPECT_EQ(needs_another_build(**made, facts_of("rescale rows=7 cols=8192", candidate)), std::nullopt);
  const auto other = needs_another_build(**made, facts_of("rescale rows=64 cols=4096 dtype=f16", candidate));
  ASSERT_TRUE(other);
  EXPECT_THAT(*other, HasSubstr("built for rescale rows=64 cols=4096"));
  EXPECT_THAT(*other, HasSubstr("with RIDGE_TYPE_X=kBf16, and this case needs RIDGE_TYPE_X=kF16"));
}

TEST(StartedKernel, SaysWhatIsWrongWithAStart) {
  record::Candidate candidate = started("ops/rescale/cuda_rescale.cu", "rescale", "rows=64 cols=4096");
  const auto why = [&](const std::string& block) {
    candidate.sources[0].text = block;
    const auto made = started_kernel(candidate, {});
    return made ? std::string("taken") : made.error().text();
  };
  EXPECT_EQ(why("// no ridge-build: macros are the start's own\n"), "taken");
  EXPECT_THAT(why("/* ridge-build\n*/\n"), HasSubstr("key \"case\" is missing"));
  EXPECT_THAT(why("/* ridge-build\ncase = \"rescale rows=64\"\nwhat = 1\n*/\n"), HasSubstr("what"));
  EXPECT_THAT(why("/* ridge-build\ncase = \"nosuchop rows=64\"\n*/\n"), HasSubstr("nosuchop"));
  EXPECT_THAT(why("/* ridge-build\ncase = \"rescale rows=banana\"\n*/\n"), HasSubstr("banana"));
  candidate.sources.erase(candidate.sources.begin() + 1);
  EXPECT_THAT(why("/* ridge-build\ncase = \"rescale rows=64\"\n*/\n"), HasSubstr("includes no kernel whose macros"));
}

TEST(StartedKernel, CompilesWithNvrtc) {
  const auto compiler = toolchain::find_nvrtc();
  if (!compiler) GTEST_SKIP() << compiler.error().text();
  const auto folder = TempDir::create("ridge-start");
  ASSERT_TRUE(folder);
  toolchain::BuildOptions options;
  options.cache_directory = folder->path();
  const record::Candidate candidate = started("ops/rescale/cuda_rescale.cu", "rescale", "rows=64 cols=4096");
  const auto made = started_kernel(candidate, *record::define_values(candidate));
  ASSERT_TRUE(made);
  const auto built = toolchain::build_device_candidate(candidate, "sm_90a", **compiler, options, (*made)->macros);
  ASSERT_TRUE(built) << built.error().text();
  EXPECT_TRUE(built->ok()) << built->error << "\n" << built->evidence.log;
  const auto bare = toolchain::build_device_candidate(candidate, "sm_90a", **compiler, options);
  ASSERT_TRUE(bare);
  EXPECT_FALSE(bare->ok());
}

}  // namespace
}  // namespace ridge::evaluate::cuda
