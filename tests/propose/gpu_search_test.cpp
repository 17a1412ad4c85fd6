// The search proposer on the GPU candidates that ship: what it changes first, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "places.h"
#include "propose/proposer.h"
#include "propose/request.h"
#include "propose/tile_model.h"

namespace ridge::propose {
namespace {

using record::Proposal;
using record::ProposalRequest;
using ::testing::HasSubstr;

ProposalRequest gpu_request(const std::string& file = "gemm_bf16_wgmma.cu", double fraction = 0.45) {
  ProposalRequest request;
  request.round = 2;
  request.spec.op = "gemm";
  request.spec.backend = "cuda";
  for (const char* shape : {"gemm m=1024 n=4096 k=4096", "gemm m=2048 n=4096 k=4096", "gemm m=1024 n=2112 k=7168"})
    request.spec.target_cases.push_back(*record::parse_case(shape));
  request.incumbent.op = "gemm";
  request.incumbent.backend = "cuda";
  const std::string root = source_dir();
  request.incumbent.sources = {{file, *read_file(root + "/data/candidates/" + file)},
                               {"ops/matmul/cuda_wgmma.cu", *read_file(root + "/src/ops/matmul/cuda_wgmma.cu")}};
  request.space = *record::tune_space(request.incumbent);
  request.environment.facts["gpu.multiprocessors"] = "132";
  request.build.counts = {{"registers", 168}, {"spill_bytes", 0}};
  record::RooflinePoint point;
  point.label = "m=1024 n=4096 k=4096";
  point.fraction = fraction;
  request.roofline = {point};
  return request;
}

Proposal ask(const ProposalRequest& request) {
  auto proposal = (*make_proposer("search"))->propose(request);
  EXPECT_TRUE(proposal.ok()) << (proposal.ok() ? "" : proposal.error().text());
  return *proposal;
}

double fraction_of(const ProposalRequest& request, const Config& changes) {
  const Space space = *Space::create(request.space);
  return tile_fraction(tiles_of(space, space.complete(changes)), *describe_machine(request).gpu).fraction;
}

// No look is spent on a configuration that the launch plan refuses on a case of the campaign.
TEST(GpuSearch, ASweepKeepsToTheNeedsOfTheLaunchPlan) {
  ProposalRequest request = gpu_request();
  const record::Constraint wide{"RIDGE_BLOCK_N % 64 == 0 && RIDGE_STAGES <= 4", "tiles of a B with N contiguous"};
  request.build.needs = {wide};
  request.space.constraints.push_back(wide);
  const Proposal proposal = ask(request);
  const Space space = *Space::create(request.space);
  ASSERT_FALSE(proposal.candidates.empty());
  for (const record::Candidate& candidate : proposal.candidates) {
    const Config config = space.complete(candidate.defines);
    EXPECT_EQ(config.at("RIDGE_BLOCK_N") % 64, 0);
    EXPECT_LE(config.at("RIDGE_STAGES"), 4);
  }
}

TEST(GpuSearch, EveryConfigurationThatShipsIsInTheSpace) {
  const Space space = *Space::create(gpu_request().space);
  EXPECT_TRUE(space.valid(space.complete({{"RIDGE_BLOCK_N", 192}, {"RIDGE_STAGES", 5}, {"RIDGE_PINGPONG", 1}})));
  EXPECT_TRUE(space.valid(space.complete({{"RIDGE_BLOCK_M", 256},
                                          {"RIDGE_BLOCK_N", 192},
                                          {"RIDGE_STAGES", 3},
                                          {"RIDGE_CLUSTER_N", 2},
                                          {"RIDGE_SLAB_BUFFERS", 2}})));
  EXPECT_FALSE(space.valid(space.complete({{"RIDGE_BLOCK_M", 256}, {"RIDGE_BLOCK_N", 256}})));  // registers
  EXPECT_FALSE(space.valid(space.complete({{"RIDGE_BLOCK_M", 64}})));  // two warpgroups of 32 rows
  const Space fp8 = *Space::create(gpu_request("gemm_fp8_blockwise_wgmma.cu").space);
  EXPECT_TRUE(fp8.valid(
      fp8.complete({{"RIDGE_BLOCK_N", 192}, {"RIDGE_INSTRUCTION_N", 96}, {"RIDGE_PARTS", 2}, {"RIDGE_STAGES", 5}})));
}

TEST(GpuSearch, TunesAllParametersAndSaysWhatLimitsTheIncumbent) {
  const ProposalRequest request = gpu_request();
  const Proposal proposal = ask(request);
  ASSERT_FALSE(proposal.exhausted);
  EXPECT_EQ(proposal.hypothesis.mechanism, "parameters 1");
  const auto changes = [&](const char* name) {
    return std::ranges::any_of(proposal.candidates, [&](const auto& one) { return one.defines.contains(name); });
  };
  EXPECT_TRUE(changes("RIDGE_BLOCK_N") && changes("RIDGE_STAGES") && changes("RIDGE_CLUSTER_M"));
  EXPECT_THAT(proposal.hypothesis.reasoning, HasSubstr("132 multiprocessors as the driver states"));
  EXPECT_THAT(proposal.hypothesis.reasoning, HasSubstr("168 registers"));
  EXPECT_GT(proposal.candidates.size(), 3u);
  const Space space = *Space::create(request.space);
  for (const record::Candidate& candidate : proposal.candidates) {
    EXPECT_TRUE(space.check(space.complete(candidate.defines)).ok());
    EXPECT_EQ(candidate.backend, "cuda");
  }
  EXPECT_GT(fraction_of(request, proposal.candidates.front().defines), fraction_of(request, {}));
}

TEST(GpuSearch, KnowsWhatALastWaveCosts) {
  ProposalRequest request = gpu_request();
  request.spec.target_cases = {*record::parse_case("gemm m=1024 n=4096 k=4096")};
  // 128 tiles of 128 x 256 are one wave; 176 of 128 x 192 need a third of a second one.
  const double whole = fraction_of(request, {{"RIDGE_BLOCK_N", 256}});
  EXPECT_GT(whole, 1.3 * fraction_of(request, {{"RIDGE_BLOCK_N", 192}}));
  // Eight tiles leave most multiprocessors idle; blocks that share a tile help.
  request.spec.target_cases = {*record::parse_case("gemm m=256 n=512 k=8192")};
  EXPECT_GT(fraction_of(request, {{"RIDGE_SPLIT_K", 2}}), 1.8 * fraction_of(request, {}));
}

TEST(GpuSearch, KnowsThatLoadsMustBeAskedForAheadOfTime) {
  // Measured on an H200 for this tile: 0.54, 0.74 and 0.83 of the ceiling.
  const ProposalRequest request = gpu_request();
  const auto at = [&](std::int64_t stages) {
    return fraction_of(request, {{"RIDGE_BLOCK_M", 256}, {"RIDGE_BLOCK_N", 64}, {"RIDGE_STAGES", stages}});
  };
  EXPECT_NEAR(at(3) / at(5), 0.65, 0.05);
  EXPECT_NEAR(at(4) / at(5), 0.89, 0.06);
}

TEST(GpuSearch, GoesOnUntilEnoughLooksFoundNothing) {
  ProposalRequest request = gpu_request();
  std::set<std::string> mechanisms;
  Proposal proposal = ask(request);
  for (int i = 0; i < 12 && !proposal.exhausted; ++i) {
    EXPECT_TRUE(mechanisms.insert(proposal.hypothesis.mechanism).second) << proposal.hypothesis.mechanism;
    request.history.push_back(toy_round(request, proposal, false));
    ++request.round;
    proposal = ask(request);
  }
  EXPECT_TRUE(mechanisms.contains("parameters 2"));
  std::size_t looks = 0;
  for (const record::RoundSummary& round : request.history) looks += round.sweep.size();
  EXPECT_TRUE(proposal.exhausted);
  EXPECT_LE(looks, 180u);
}

}  // namespace
}  // namespace ridge::propose
