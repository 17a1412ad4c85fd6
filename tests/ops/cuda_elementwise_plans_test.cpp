// What the kernels for GPUs of activation, its backward and adamw are launched with. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/arguments.h"
#include "ops/described_kernel.h"

namespace ridge::ops {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kForward = "ops/activation/cuda_activation.cu";
constexpr const char* kBackward = "ops/activation/backward/cuda_activation_backward.cu";
constexpr const char* kAdamw = "ops/adamw/cuda_adamw.cu";

struct Launch {
  Launch(const char* source, const std::string& words) : kernel(described_kernel(source)) {
    const auto parsed = record::parse_case(words);
    problem = (*find_operator(parsed->op))->bind(*parsed).value();
    for (const OperandSpec& operand : problem.operands) views.push_back(dense_view(operand, nullptr));
  }
  [[nodiscard]] record::PlanFacts facts() const {
    record::PlanFacts found = plan_facts(problem, views);
    found.values["sm_count"] = 132;
    return found;
  }
  TensorView& view(const char* name) { return views[*problem.position(name)]; }
  [[nodiscard]] record::ResolvedPlan plan() const { return kernel.resolve(0, facts()).value(); }
  [[nodiscard]] std::uint32_t blocks() const { return plan().kernels.at(0).grid[0]; }
  [[nodiscard]] std::int64_t value(const char* name) const { return kernel.variables(0, facts())->at(name); }
  // The number at a member of the kernel's parameter.
  [[nodiscard]] std::uint64_t member(std::size_t at) const {
    return plan().kernels.at(0).parameters.at(0).parts.at(at).bits;
  }
  [[nodiscard]] std::vector<std::string> defines() const { return kernel.build(0, facts())->defines; }

  const DescribedKernel& kernel;
  Problem problem;
  std::vector<TensorView> views;
};

TEST(ActivationPlan, RowsThatFollowOnEachOtherAreOne) {
  const Launch swiglu(kForward, "activation rows=8192 cols=14336");
  EXPECT_EQ(swiglu.blocks(), 57344u) << "4 KiB of every matrix";
  EXPECT_EQ(swiglu.plan().kernels[0].block[0], 256u);
  EXPECT_EQ(swiglu.plan().kernels[0].parameters.at(0).bytes, 96u) << "ActivationParameters";
  EXPECT_EQ(swiglu.member(8), 1u);
  EXPECT_EQ(swiglu.member(9), 8192u * 14336);
  EXPECT_EQ(swiglu.member(10), 57344u);
  EXPECT_EQ(swiglu.member(11), 8u);
  EXPECT_THAT(swiglu.defines(), Contains("RIDGE_ALIGNED=1"));
  EXPECT_EQ(Launch(kForward, "activation rows=8192 cols=16384 gated=0").blocks(), 32768u) << "twice as many chunks";
  EXPECT_EQ(Launch(kForward, "activation rows=65536 cols=65536").blocks(), 2097152u) << "more than 2^31 elements";
  EXPECT_TRUE(Launch(kForward, "activation rows=0 cols=64").plan().kernels.empty());
}

TEST(ActivationPlan, ATeamIsThePowerOfTwoThatARowKeepsBusy) {
  struct Expected {
    const char* words;
    std::uint64_t pieces, lane_bits;
    std::uint32_t blocks;
  };
  for (const Expected& one :
       {Expected{"rows=16384 cols=1024", 1, 7, 8192}, Expected{"rows=16384 cols=1025", 1, 8, 16384},
        Expected{"rows=16384 cols=2049", 2, 8, 32768}, Expected{"rows=1000 cols=8", 1, 0, 4},
        Expected{"rows=1000 cols=24", 1, 2, 16}, Expected{"rows=8192 cols=14336", 7, 8, 57344},
        Expected{"rows=1 cols=4096", 2, 8, 2}, Expected{"rows=1 cols=4097", 3, 8, 3},
        Expected{"rows=3 cols=4096 dtype=f32", 4, 8, 12}}) {
    const Launch launch(kForward, std::string("activation probs=1 ") + one.words);
    EXPECT_EQ(launch.member(10), one.pieces) << one.words;
    EXPECT_EQ(launch.member(11), one.lane_bits) << one.words;
    EXPECT_EQ(launch.blocks(), one.blocks) << one.words;
  }
}

TEST(ActivationPlan, HalvesOfOneMatrixKeepTheirRows) {
  Launch halves(kForward, "activation rows=8192 cols=14336");
  halves.view("x").stride[0] = halves.view("up").stride[0] = 2 * 14336;
  EXPECT_EQ(halves.blocks(), 7u * 8192);
  EXPECT_EQ(halves.member(5), 4u * 14336);
  EXPECT_EQ(halves.member(6), 4u * 14336);
  EXPECT_EQ(halves.member(7), 2u * 14336);
  EXPECT_EQ(halves.member(8), 8192u);
  EXPECT_THAT(halves.defines(), Contains("RIDGE_ALIGNED=1"));
}

TEST(ActivationPlan, RowsThatStartOnNoSixteenBytesAreLookedAtWhereTheyLie) {
  EXPECT_THAT(Launch(kForward, "activation rows=9 cols=67").defines(), Contains("RIDGE_ALIGNED=0"));
  EXPECT_EQ(Launch(kForward, "activation rows=9 cols=67").member(9), 603u) << "one row all the same";
  Launch launch(kForward, "activation rows=9 cols=64");
  EXPECT_THAT(launch.defines(), Contains("RIDGE_ALIGNED=1"));
  launch.view("y").data = reinterpret_cast<void*>(8);
  EXPECT_THAT(launch.defines(), Contains("RIDGE_ALIGNED=0"));
  launch.view("y").data = nullptr;
  launch.view("up").stride[0] = 68;
  EXPECT_THAT(launch.defines(), Contains("RIDGE_ALIGNED=0"));
  EXPECT_EQ(launch.member(8), 9u);
}

TEST(ActivationPlan, RefusesMoreBlocksThanAGridHas) {
  const Launch launch(kForward, "activation rows=268435456 cols=8192");
  EXPECT_THAT(launch.kernel.refuses(launch.facts()).value_or(""),
              HasSubstr("at most 2147483647 blocks, of 2 KiB of a row: cols=8192 rows=268435456"));
  const Launch fewer(kForward, "activation rows=268435455 cols=8192");
  EXPECT_EQ(fewer.kernel.refuses(fewer.facts()).value_or(""), "");
}

TEST(ActivationPlan, ScalarsFollowTheCall) {
  const auto parts = Launch(kForward, "activation function=clamped_silu").plan().kernels.at(0).parameters.at(0).parts;
  EXPECT_EQ(parts.at(12).kind, record::ResolvedArgument::Kind::kFormula);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(parts[12].bits)), 1.702F);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(parts.at(13).bits)), 7.0F);
}

TEST(ActivationBackwardPlan, ASumOverARowIsOneTeams) {
  const Launch plain(kBackward, "activation_backward rows=8192 cols=14336");
  EXPECT_EQ(plain.blocks(), 57344u);
  EXPECT_EQ(plain.plan().kernels[0].parameters.at(0).bytes, 136u) << "ActivationBackwardParameters";
  EXPECT_EQ(plain.member(13), 1u);
  const Launch sums(kBackward, "activation_backward rows=8192 cols=14336 probs=1");
  EXPECT_EQ(sums.blocks(), 8192u);
  EXPECT_EQ(sums.member(15), 1u);
  EXPECT_EQ(sums.member(16), 8u);
  EXPECT_THAT(sums.defines(), Contains("RIDGE_DPROBS=1"));
  const Launch none(kBackward, "activation_backward rows=8192 cols=14336 probs=1 dprobs=0");
  EXPECT_EQ(none.blocks(), 7u * 8192);
  EXPECT_EQ(Launch(kBackward, "activation_backward rows=1000 cols=8 probs=1").blocks(), 4u) << "256 rows of a block";
}

TEST(AdamwPlan, AUnitIsSixteenBytesOfTheWidestOperand) {
  const Launch master(kAdamw, "adamw count=1000000 master=1");
  EXPECT_EQ(master.value("unit"), 4);
  EXPECT_EQ(master.blocks(), 977u);
  EXPECT_EQ(master.plan().kernels[0].parameters.at(0).bytes, 96u) << "AdamwParameters";
  EXPECT_THAT(master.defines(), Contains("RIDGE_ALIGNED=1"));
  const Launch narrow(kAdamw, "adamw count=1000000 state=bf16");
  EXPECT_EQ(narrow.value("unit"), 8);
  EXPECT_EQ(narrow.blocks(), 489u);
  EXPECT_EQ(Launch(kAdamw, "adamw count=8 state=bf16 wide_grad=1").value("unit"), 4);
  EXPECT_EQ(Launch(kAdamw, "adamw count=1").blocks(), 1u);
  EXPECT_TRUE(Launch(kAdamw, "adamw count=0").plan().kernels.empty());
}

TEST(AdamwPlan, OperandsThatStartOnNoUnitGoByElements) {
  Launch launch(kAdamw, "adamw count=1000 master=1");
  launch.view("param").data = reinterpret_cast<void*>(8);
  EXPECT_THAT(launch.defines(), Contains("RIDGE_ALIGNED=1")) << "4 elements of bf16";
  launch.view("param").data = reinterpret_cast<void*>(4);
  EXPECT_THAT(launch.defines(), Contains("RIDGE_ALIGNED=0"));
  launch.view("param").data = nullptr;
  launch.view("master").data = reinterpret_cast<void*>(8);
  EXPECT_THAT(launch.defines(), Contains("RIDGE_ALIGNED=0"));
}

// In fp64, and rounded once: what the processor's kernel multiplies with (contract.h).
TEST(AdamwPlan, TheNumbersOfAStepAreMadeInDoublePrecision) {
  const Launch launch(kAdamw, "adamw count=1000");
  std::vector<double> expected = {1 - 1e-3 * 1e-2, 1 - 0.9, 0.999, 1 - 0.999, 1e-3 / 0.5, 1 / std::sqrt(0.5), 1e-8};
  const auto parts = launch.plan().kernels.at(0).parameters.at(0).parts;
  ASSERT_EQ(parts.size(), 15u);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(parts[8 + i].kind, record::ResolvedArgument::Kind::kFormula);
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(parts[8 + i].bits)), static_cast<float>(expected[i]))
        << i;
  }
}

TEST(AdamwPlan, RefusesMoreBlocksThanAGridHas) {
  const Launch launch(kAdamw, "adamw count=1099511627776");
  EXPECT_THAT(launch.kernel.refuses(launch.facts()).value_or(""),
              HasSubstr("at most 2147483647 blocks, of 512 elements: count=1099511627776"));
}

TEST(RescalePlan, BlocksStayAndTakePiecesOfRows) {
  constexpr const char* kRescale = "ops/rescale/cuda_rescale.cu";
  const Launch large(kRescale, "rescale rows=8192 cols=128256");
  EXPECT_EQ(large.blocks(), 8u * 132);
  EXPECT_EQ(large.value("pieces"), 16);
  EXPECT_EQ(large.plan().kernels[0].parameters.at(0).bytes, 48u) << "RescaleParameters";
  EXPECT_EQ(Launch(kRescale, "rescale rows=3 cols=8193").blocks(), 6u);
  Launch odd(kRescale, "rescale rows=8 cols=64");
  EXPECT_THAT(odd.defines(), Contains("RIDGE_VECTORS=1"));
  odd.view("x").data = reinterpret_cast<void*>(8);
  EXPECT_THAT(odd.defines(), Contains("RIDGE_VECTORS=0"));
  EXPECT_TRUE(Launch(kRescale, "rescale rows=0 cols=5 per_row=1").plan().kernels.empty());
}

}  // namespace
}  // namespace ridge::ops
