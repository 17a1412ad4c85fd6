// The CUDA candidates that campaigns start from include the library's kernel with its description: they are launched as
// the library launches it, for their own cases alone.
#include <gtest/gtest.h>

#include "base/files.h"
#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/matmul/cuda_wgmma_model.h"
#include "places.h"
#include "record/campaign_block.h"
#include "record/configuration.h"
#include "record/launch_plan.h"
#include "record/tunables.h"

namespace ridge::ops {
namespace {

std::string text_of(const std::string& path) { return *read_file(source_dir().string() + "/" + path); }

record::Candidate candidate_of(const std::string& file) {
  record::Candidate candidate;
  candidate.name = file;
  candidate.sources = {{file, text_of("data/candidates/" + file)},
                       {"ops/matmul/cuda_wgmma.cu", text_of("src/ops/matmul/cuda_wgmma.cu")}};
  return candidate;
}

// What the worker lets a plan name, with dense operands.
record::PlanFacts facts_of(const std::string& text) {
  const record::Case wanted = *record::parse_case(text);
  const Operator& op = **find_operator(wanted.op);
  const Problem problem = *op.bind(wanted);
  std::vector<TensorView> views;
  for (const OperandSpec& spec : problem.operands) views.push_back(dense_view(spec, nullptr));
  record::PlanFacts facts = plan_facts(problem, views);
  facts.values["sm_count"] = 132;
  return facts;
}

void expect_same(const record::ResolvedPlan& found, const record::ResolvedPlan& wanted) {
  ASSERT_EQ(found.kernels.size(), 1u);
  const record::ResolvedKernel &a = found.kernels[0], &b = wanted.kernels[0];
  EXPECT_TRUE(std::ranges::equal(a.grid, b.grid) && std::ranges::equal(a.cluster, b.cluster));
  EXPECT_EQ(a.shared_bytes, b.shared_bytes);
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    ASSERT_EQ(a.parameters[i].parts.size(), b.parameters[i].parts.size()) << i;
    for (std::size_t part = 0; part < a.parameters[i].parts.size(); ++part) {
      EXPECT_EQ(a.parameters[i].parts[part].bits, b.parameters[i].parts[part].bits) << i << " " << part;
      EXPECT_EQ(a.parameters[i].parts[part].kind, b.parameters[i].parts[part].kind) << i << " " << part;
    }
  }
}

void launches_as_the_library(const std::string& file, const std::string& op) {
  const record::Candidate candidate = candidate_of(file);
  const record::LaunchPlan plan = record::launch_plan(candidate).value();
  const DescribedKernel& library = described_kernel(ridge::cuda::kWgmmaSource);
  int launched = 0;
  const std::optional<record::CampaignBlock> block = *record::parse_campaign_block(candidate.sources[0].text);
  for (const std::string& words : block->cases) {
    const record::PlanFacts facts = facts_of(op + " " + words);
    for (const int configuration : library.fitting(facts)) {
      const auto& config = library.description().configs[static_cast<std::size_t>(configuration)];
      record::PlanFacts whole = facts;
      for (const auto& [name, value] : library.description().complete(config.values)) whole.values[name] = value;
      const auto resolved = record::resolve(plan, whole);
      ASSERT_TRUE(resolved) << resolved.error().text();
      SCOPED_TRACE(config.name);
      expect_same(*resolved, *library.resolve(configuration, facts));
      ++launched;
    }
  }
  EXPECT_GE(launched, 15);
}

TEST(ShippedCandidate, OfBf16LaunchesAsTheLibraryDoes) { launches_as_the_library("gemm_bf16_wgmma.cu", "gemm"); }

TEST(ShippedCandidate, OfBlockwiseFp8LaunchesAsTheLibraryDoes) {
  launches_as_the_library("gemm_fp8_blockwise_wgmma.cu", "gemm_fp8");
}

// The reason why a candidate in its start refuses a case; empty: it does not.
std::string refusal(const std::string& file, const std::string& problem) {
  const record::Candidate candidate = candidate_of(file);
  record::PlanFacts facts = facts_of(problem);
  const auto defines = record::define_values(candidate).value();
  facts.values.insert(defines.begin(), defines.end());
  const auto resolved = record::resolve(*record::launch_plan(candidate), facts);
  if (resolved) return "";
  EXPECT_EQ(resolved.error().code, ErrorCode::kUnsupported) << resolved.error().text();
  return resolved.error().message;
}

TEST(ShippedCandidate, RefusesWhatItIsNotBuiltFor) {
  const std::string bf16 = "gemm_bf16_wgmma.cu", fp8 = "gemm_fp8_blockwise_wgmma.cu";
  EXPECT_EQ(refusal(bf16, "gemm m=1024 n=4096 k=4096 dtype=bf16 layout=nt"), "");
  EXPECT_EQ(refusal(fp8, "gemm_fp8 m=1024 n=4096 k=4096 scaling=block layout=nt"), "");
  const std::string plain = "plain product of bf16";
  for (const char* words : {"dtype=f16 layout=nt", "dtype=bf16 layout=nn", "dtype=bf16 layout=nt out=f32",
                            "dtype=bf16 layout=nt bias=1", "dtype=bf16 layout=nt accumulate=1"}) {
    EXPECT_NE(refusal(bf16, std::string("gemm m=1024 n=4096 k=4096 ") + words).find(plain), std::string::npos) << words;
  }
  EXPECT_NE(refusal(bf16, "gemm m=128 n=129 k=128 dtype=bf16 layout=nt").find(plain), std::string::npos)
      << "rows of C that the copy engine cannot address";
  EXPECT_NE(refusal(bf16, "gemm m=128 n=128 k=129 dtype=bf16 layout=nt").find("16 bytes"), std::string::npos);
  EXPECT_NE(refusal(bf16, "gemm m=128 n=128 k=128 dtype=bf16 layout=nt batch=2").find("one matrix"), std::string::npos);
  EXPECT_NE(refusal(fp8, "gemm_fp8 m=1024 n=4096 k=4096 scaling=row layout=nt").find("block scales"),
            std::string::npos);
}

TEST(ShippedCandidate, StartsAsItsCampaignSaysAndVariesTheRest) {
  const record::TuneSpace bf16 = *record::tune_space(candidate_of("gemm_bf16_wgmma.cu"));
  const record::TuneSpace fp8 = *record::tune_space(candidate_of("gemm_fp8_blockwise_wgmma.cu"));
  const auto tunable = [](const record::TuneSpace& space, const char* name) {
    return *std::ranges::find(space.tunables, name, &record::Tunable::name);
  };
  EXPECT_EQ(tunable(bf16, "RIDGE_INSTRUCTION_N").values, std::vector<std::int64_t>{0});
  EXPECT_GT(tunable(bf16, "RIDGE_PINGPONG").values.size(), 1u);
  EXPECT_EQ(tunable(fp8, "RIDGE_INSTRUCTION_N").default_value, 128);
  EXPECT_GT(tunable(fp8, "RIDGE_INSTRUCTION_N").values.size(), 1u);
  EXPECT_EQ(tunable(fp8, "RIDGE_PINGPONG").values, std::vector<std::int64_t>{0});
  record::Candidate wrong = candidate_of("gemm_bf16_wgmma.cu");
  wrong.sources[0].text = "/* ridge-campaign\nop = \"gemm\"\ncases = [\"m=1\"]\nstart = { NOTHING = 1 }\n*/\n";
  EXPECT_NE(record::tune_space(wrong).error().text().find("NOTHING"), std::string::npos);
  wrong.sources[0].text = "/* ridge-campaign\nop = \"gemm\"\ncases = [\"m=1\"]\nstart = { RIDGE_STAGES = 7 }\n*/\n";
  EXPECT_NE(record::tune_space(wrong).error().text().find("RIDGE_STAGES = 7"), std::string::npos);
}

// What `ridge campaign export-kernel` writes: the winner, which starts where it was accepted.
TEST(ShippedCandidate, LeavesACampaignWithItsConfigurationAsTheStart) {
  for (const char* file : {"gemm_bf16_wgmma.cu", "gemm_fp8_blockwise_wgmma.cu"}) {
    record::Candidate winner = candidate_of(file);
    winner.defines = {{"RIDGE_BLOCK_N", 192}, {"RIDGE_STAGES", 3}, {"RIDGE_CLUSTER_N", 2}};
    record::Candidate exported = winner;
    exported.defines.clear();
    const auto sources = record::configured_sources(winner);
    ASSERT_TRUE(sources) << sources.error().text();
    exported.sources = *sources;
    EXPECT_EQ(*record::define_values(exported), *record::define_values(winner)) << file;
    EXPECT_EQ(exported.sources[1].text, winner.sources[1].text) << "the library's kernel is not edited";
  }
}

TEST(ShippedCandidate, AStartIsWrittenWhateverTheSpacing) {
  for (const std::string body :
       {"cases=[\"m=1\"]\nop=\"gemm\"\n", "op = \"gemm\"\nstart={A=1,B=3}\ncases = [\n\"m=1\"]\n",
        "op = \"gemm\"\ncases = [\"m=1\"]\nstart   = { A = 1 }\n"}) {
    const auto text = record::text_with_start("int x;\n/* ridge-campaign\n" + body + "*/\nint y;\n", {{"A", 2}});
    ASSERT_TRUE(text) << body << text.error().text();
    EXPECT_TRUE(text->starts_with("int x;\n/* ridge-campaign\n") && text->ends_with("*/\nint y;\n")) << *text;
    const auto block = *record::parse_campaign_block(*text);
    EXPECT_EQ(block->start.at("A"), 2) << *text;
    EXPECT_EQ(block->start.contains("B"), body.find("B=3") != std::string::npos) << *text;
    EXPECT_EQ(block->cases.size(), 1u);
  }
  EXPECT_FALSE(
      record::text_with_start("/* ridge-campaign\nop = \"gemm\"\ncases = [\"m=1\"]\n[start]\nA = 1\n*/", {{"A", 2}}));
}

TEST(ShippedCandidate, SaysWhatItIsFor) {
  for (const char* file : {"gemm_bf16_wgmma.cu", "gemm_fp8_blockwise_wgmma.cu"}) {
    const auto block = record::parse_campaign_block(candidate_of(file).sources[0].text);
    ASSERT_TRUE(block.ok()) << block.error().text();
    ASSERT_TRUE(block->has_value());
    EXPECT_GE((*block)->cases.size(), 3u);
    EXPECT_FALSE((*block)->fixed().empty());
  }
  const auto fixed = (*record::parse_campaign_block(candidate_of("gemm_bf16_wgmma.cu").sources[0].text))->fixed();
  EXPECT_EQ(fixed, (std::vector<std::string>{"dtype=bf16", "layout=nt"}));
}

}  // namespace
}  // namespace ridge::ops
