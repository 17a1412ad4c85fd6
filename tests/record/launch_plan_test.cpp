#include "record/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "base/files.h"
#include "places.h"
#include "record/expression.h"
#include "record/json.h"

namespace ridge::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string block(const std::string& toml) { return "// a kernel\n/* ridge-launch\n" + toml + "\n*/\nint x;\n"; }

const std::string kKernel = "[[kernel]]\nsymbol = \"k\"\ngrid = [1]\nblock = [32]\n";

PlanFacts gemm_facts(std::int64_t m, std::int64_t n, std::int64_t k) {
  PlanFacts facts;
  facts.values = {{"m", m}, {"n", n}, {"k", k}, {"TILE", 64}, {"sm_count", 132}};
  facts.operands = {
      {"a", DType::kBf16, {m, k}, {k + 4, 1}}, {"b", DType::kBf16, {k, n}, {n, 1}}, {"c", DType::kF32, {m, n}, {n, 1}}};
  return facts;
}

std::string parse_error(const std::string& toml) {
  const auto plan = parse_launch_plan(block(toml));
  return plan ? "no error" : plan.error().message;
}

std::string resolve_error(const std::string& toml, const PlanFacts& facts = gemm_facts(100, 200, 300)) {
  const auto plan = parse_launch_plan(block(toml));
  if (!plan) return "parse: " + plan.error().message;
  const auto resolved = resolve(**plan, facts);
  return resolved ? "no error" : resolved.error().text();
}

TEST(Expression, KnowsIntegersConditionsAndRounding) {
  const Variables v = {{"m", 100}, {"n", 7}};
  EXPECT_EQ(*evaluate("ceil_div(m, 64)", v), 2);
  EXPECT_EQ(*evaluate("floor_div(m, 64) + m % 64", v), 37);
  EXPECT_EQ(*evaluate("round_up(m, 16)", v), 112);
  EXPECT_EQ(*evaluate("n > 4 && m == 100 ? min(m, n) : -1", v), 7);
  EXPECT_EQ(*evaluate("9007199254740991", {}), 9007199254740991);
}

TEST(Expression, RefusesWhatIsNoIntegerAndNamesTheWayOut) {
  const auto half = evaluate("m / 8", {{"m", 100}});
  ASSERT_FALSE(half);
  EXPECT_THAT(half.error().text(), HasSubstr("\"m / 8\": 12.5 is no integer (write ceil_div"));
  EXPECT_THAT(evaluate("m / z", {{"m", 1}, {"z", 0}}).error().message, HasSubstr("division by zero"));
  EXPECT_THAT(evaluate("m * m * m", {{"m", 1 << 30}}).error().message, HasSubstr("beyond 2^53"));
  EXPECT_THAT(evaluate("m + q", {{"m", 1}}).error().text(), HasSubstr("q is not known (known: m)"));
  EXPECT_FALSE(expression_variables("m +"));
}

TEST(LaunchPlan, IsAbsentWhereNoneIsDeclared) {
  const auto plan = parse_launch_plan("int x; /* ridge-tunables */");
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->has_value());
  Candidate candidate;
  candidate.sources = {{"k.cu", "int x;"}};
  EXPECT_THAT(launch_plan(candidate).error().text(), HasSubstr("k.cu: a CUDA candidate needs a launch plan"));
}

TEST(LaunchPlan, ReadsEveryPartAndComesBackFromJson) {
  const auto plan = parse_launch_plan(block(R"toml(
[[needs]]
expression = "k % 8 == 0"
reason = "whole chunks"
[[workspace]]
name = "w"
bytes = "m * n * 4"
zero = true
[[tensor_map]]
name = "t"
operand = "a"
sizes = ["k", "m"]
strides = ["a_stride0 * a_bytes"]
box = [64, "TILE"]
swizzle = 64
[[kernel]]
symbol = "first"
grid = ["ceil_div(n, TILE)", 2]
block = 256
cluster = [2]
shared = "TILE * 1024"
when = "k > 0"
overlap_previous = true
persistent = "k > 8"
args = [{ tensor_map = "t" }, { struct = [{ operand = "c" }, { i64 = "c_stride0" }, { u32 = "m" }] }, { workspace = "w" }, { f32 = 0.5 }]
)toml"));
  ASSERT_TRUE(plan) << plan.error().text();
  const LaunchPlan& p = **plan;
  EXPECT_EQ(p.needs[0].reason, "whole chunks");
  EXPECT_TRUE(p.workspaces[0].zero);
  EXPECT_THAT(p.tensor_maps[0].box, ElementsAre("64", "TILE"));
  EXPECT_THAT(p.kernels[0].grid, ElementsAre("ceil_div(n, TILE)", "2"));
  EXPECT_THAT(p.kernels[0].block, ElementsAre("256"));
  EXPECT_EQ(p.kernels[0].args[1].members.size(), 3u);
  EXPECT_EQ(p.kernels[0].persistent, "k > 8");
  const auto again = parse_record<LaunchPlan>(to_line(p));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(to_line(*again), to_line(p));
}

TEST(LaunchPlan, ErrorsOfReadingNameLineFieldAndWhatIsAllowed) {
  EXPECT_THAT(parse_error("[[kernel]]\nsymbol = \"k\"\ngrid = [1]"), HasSubstr("line 3: key \"block\" is missing"));
  EXPECT_THAT(parse_error(kKernel + "grids = 1"), HasSubstr("line 7: unknown key \"grids\""));
  EXPECT_THAT(parse_error("[[kernel]]\nsymbol = \"k\"\ngrid = [1, 2, 3, 4]\nblock = 1"),
              HasSubstr("line 5: \"grid\" has 4 entries; 1 to 3 are possible"));
  EXPECT_THAT(parse_error("[[kernel]]\nsymbol = \"k\"\ngrid = [\"m +\"]\nblock = 1"), HasSubstr("expression \"m +\""));
  EXPECT_THAT(parse_error(kKernel + "args = [{ i16 = 1 }]"), HasSubstr("\"i16\" is no kind of argument"));
  EXPECT_THAT(parse_error(kKernel + "args = [{ operand = \"a\", i32 = 1 }]"), HasSubstr("an argument is one of"));
  EXPECT_THAT(parse_error(kKernel + "args = [{ struct = [{ tensor_map = \"t\" }] }]"), HasSubstr("inside a struct"));
  EXPECT_THAT(parse_error(kKernel + "args = [{ workspace = \"w\" }]"), HasSubstr("no [[workspace]] is called \"w\""));
  Candidate without_kernel;
  without_kernel.sources = {{"a.cu", "/* ridge-launch\n[[workspace]]\nname = \"w\"\nbytes = 4\n*/"}};
  EXPECT_THAT(launch_plan(without_kernel).error().text(), HasSubstr("the smallest: [[kernel]]"));
  EXPECT_THAT(parse_error("[[kernels]]\n"), HasSubstr("none of [[struct]], [[kernel]], [[workspace]]"));
  EXPECT_THAT(parse_error(kKernel + "[[tensor_map]]\nname = \"t\"\noperand = \"a\"\nsizes = [8, 8]\nbox = [8, 8]"),
              HasSubstr("2 sizes need 1 strides"));
  EXPECT_THAT(parse_error(kKernel + "[[tensor_map]]\nname = \"t\"\noperand = \"a\"\nsizes = 8\nbox = 8\nswizzle = 48"),
              HasSubstr("\"swizzle\" is 48; it must be one of 0, 32, 64, 128"));
  EXPECT_THAT(parse_launch_plan("/* ridge-launch\n").error().message, HasSubstr("not closed"));
}

TEST(LaunchPlan, AListIsOfOneKernelWithOneArgument) {
  const std::string one =
      "[[kernel]]\nsymbol = \"k\"\nlist = \"k_list\"\ngrid = [1]\nblock = 32\nargs = [{ operand = \"a\" }";
  const auto plan = parse_launch_plan(block(one + "]\n"));
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_EQ((*plan)->kernels[0].list, "k_list");
  EXPECT_EQ(parse_record<LaunchPlan>(to_line(**plan))->kernels[0].list, "k_list");
  EXPECT_THAT(parse_error(one + ", { i32 = 1 }]\n"),
              HasSubstr("list = \"k_list\" is for a plan of one kernel with one"));
  EXPECT_THAT(parse_error(one + "]\n[[workspace]]\nname = \"w\"\nbytes = 4\n"), HasSubstr("without workspaces"));
  EXPECT_THAT(parse_error(one + "]\ncluster = 2\n"), HasSubstr("no clusters"));
}

TEST(LaunchPlan, ResolvesToTheNumbersOfACase) {
  const auto plan = parse_launch_plan(block(R"toml(
[[workspace]]
name = "w"
bytes = "m * n * 4"
[[tensor_map]]
name = "unused"
operand = "b"
sizes = ["k - 300"]
box = [8]
[[tensor_map]]
name = "t"
operand = "a"
sizes = ["k", "m"]
strides = ["a_stride0 * a_bytes"]
box = [64, "TILE"]
[[kernel]]
symbol = "never"
grid = ["m - 100"]
block = [32]
args = [{ tensor_map = "unused" }]
[[kernel]]
symbol = "skipped"
grid = [1]
block = [0]
when = "k == 0"
[[kernel]]
symbol = "runs"
grid = ["ceil_div(n, TILE)", "ceil_div(m, TILE)"]
block = [256]
shared = "TILE * 1024"
args = [{ tensor_map = "t" }, { struct = [{ u32 = "m" }, { operand = "c" }, { i32 = -1 }] }, { workspace = "w" }, { f32 = "1 / 4" }, { i64 = "-k" }]
)toml"));
  ASSERT_TRUE(plan) << plan.error().text();
  const auto resolved = resolve(**plan, gemm_facts(100, 200, 300));
  ASSERT_TRUE(resolved) << resolved.error().text();
  EXPECT_EQ(resolved->workspaces[0].bytes, 80000u);
  ASSERT_EQ(resolved->kernels.size(), 1u) << "a kernel with an empty grid or a false condition is not launched";
  const ResolvedKernel& kernel = resolved->kernels[0];
  EXPECT_EQ(kernel.symbol, "runs");
  EXPECT_THAT(kernel.grid, ElementsAre(4, 2, 1));
  EXPECT_EQ(kernel.shared_bytes, 65536u);
  ASSERT_EQ(resolved->tensor_maps.size(), 1u) << "maps of kernels that are not launched are not encoded";
  EXPECT_THAT(resolved->tensor_maps[0].sizes, ElementsAre(300, 100));
  EXPECT_THAT(resolved->tensor_maps[0].strides_bytes, ElementsAre(608));
  EXPECT_EQ(resolved->tensor_maps[0].dtype, DType::kBf16);
  ASSERT_EQ(kernel.parameters.size(), 5u);
  EXPECT_EQ(kernel.parameters[0].bytes, 128u);
  EXPECT_EQ(kernel.parameters[0].parts[0].index, 0u);
  const ResolvedParameter& record = kernel.parameters[1];
  EXPECT_EQ(record.bytes, 24u) << "u32, padding, address, i32, padding";
  EXPECT_EQ(record.parts[1].offset, 8u);
  EXPECT_EQ(record.parts[1].index, 2u);
  EXPECT_EQ(record.parts[2].offset, 16u);
  EXPECT_EQ(static_cast<std::uint32_t>(record.parts[2].bits), 0xffffffffu);
  EXPECT_EQ(kernel.parameters[3].parts[0].bits, std::bit_cast<std::uint32_t>(0.25f));
  EXPECT_EQ(kernel.parameters[4].parts[0].bits, static_cast<std::uint64_t>(std::int64_t{-300}));
}

TEST(LaunchPlan, ErrorsOfACaseNameFieldExpressionAndValue) {
  const auto map = [](const std::string& strides) {
    return "[[tensor_map]]\nname = \"t\"\noperand = \"a\"\nsizes = [\"k\", \"m\"]\nstrides = [\"" + strides +
           "\"]\nbox = [64, 64]\n" + kKernel + "args = [{ tensor_map = \"t\" }]";
  };
  EXPECT_THAT(resolve_error(map("a_stride0 * a_bytes"), gemm_facts(100, 200, 301)),
              HasSubstr("tensor map t, strides[0] = \"a_stride0 * a_bytes\" is 610 bytes; the copy engine wants"));
  EXPECT_THAT(resolve_error("[[kernel]]\nsymbol = \"k\"\ngrid = [\"m / 64\"]\nblock = 32"),
              HasSubstr("kernel k, grid[0]: expression \"m / 64\": 1.5625 is no integer"));
  EXPECT_THAT(resolve_error("[[kernel]]\nsymbol = \"k\"\ngrid = [\"0 - m\"]\nblock = 32"),
              HasSubstr("grid[0] = \"0 - m\" is -100; it must be 0 to"));
  EXPECT_THAT(resolve_error("[[kernel]]\nsymbol = \"k\"\ngrid = 1\nblock = [\"m - 100\"]"),
              HasSubstr("block[0] = \"m - 100\" is 0; it must be 1 to"));
  EXPECT_THAT(resolve_error(kKernel + "args = [{ operand = \"d\" }]"),
              HasSubstr("kernel k, args[0]: the operator has no operand \"d\" (its operands: a, b, c)"));
  EXPECT_THAT(resolve_error(kKernel + "args = [{ i32 = \"m * 1000000000\" }]"), HasSubstr("it must be -2147483648 to"));
  EXPECT_THAT(resolve_error(kKernel + "args = [{ u64 = \"-m\" }]"), HasSubstr("it must be 0 to"));
  EXPECT_THAT(resolve_error(kKernel + "shared = \"SPLIT\""),
              HasSubstr("SPLIT is not known (known: TILE, a_align, a_bytes"));
}

TEST(LaunchPlan, NeedsRefuseACaseWithTheReasonAndTheValues) {
  const auto plan =
      parse_launch_plan(block("[[needs]]\nexpression = \"k % 8 == 0\"\nreason = \"whole chunks\"\n" + kKernel));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(resolve(**plan, gemm_facts(1, 1, 16)));
  const auto refused = resolve(**plan, gemm_facts(1, 1, 17));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("needs k % 8 == 0: whole chunks; k=17"));
}

TEST(LaunchPlan, ARealParameterOrScalarIsAnArgumentByItsName) {
  PlanFacts facts = gemm_facts(1, 1, 16);
  facts.reals = {{"scale", 0.1}};
  const auto plan = parse_launch_plan(block(
      "[[kernel]]\nsymbol = \"k\"\ngrid = [1]\nblock = [32]\nargs = [{ f32 = \"scale\" }, { f64 = \"2 * scale\" }]\n"));
  ASSERT_TRUE(plan) << plan.error().text();
  const auto resolved = resolve(**plan, facts);
  ASSERT_TRUE(resolved) << resolved.error().text();
  const auto& parameters = resolved->kernels[0].parameters;
  EXPECT_EQ(parameters[0].parts[0].bits, std::bit_cast<std::uint32_t>(0.1f));
  EXPECT_EQ(parameters[1].parts[0].bits, std::bit_cast<std::uint64_t>(0.2));
  EXPECT_THAT(resolve_error(kKernel + "args = [{ f32 = \"eps\" }]\n", facts), HasSubstr("eps is not known (known:"));
  EXPECT_THAT(resolve_error("[[kernel]]\nsymbol = \"k\"\ngrid = [\"scale\"]\nblock = [32]\n", facts),
              HasSubstr("0.10000000000000001 is no integer"));
}

TEST(Expression, AnOpenOneFollowsItsNames) {
  const std::vector<std::string> open = {"unused", "scale", "seed"};
  OpenExpression expression("2 * scale + n * seed", {{"n", 3}, {"m", 9}}, open);
  EXPECT_EQ(expression.at(std::vector<double>{7, 0.1, 0}), 0.2);
  EXPECT_EQ(expression.at(std::vector<double>{7, 0.25, 2}), 6.5);
}

// Everything else of a prepared launch is kept from call to call, so nothing else may name a scalar.
TEST(LaunchPlan, RealArgumentsFollowTheScalarsOfACallAndNothingElseMay) {
  PlanFacts facts = gemm_facts(8, 1, 16);
  facts.reals = {{"eps", 0.5}};
  facts.scalars = {{"rate", 0.25}, {"scale", 0.1}};
  const auto plan = parse_launch_plan(block(
      kKernel + "args = [{ f32 = \"m * scale + eps\" }, { f64 = \"rate\" }, { f64 = \"eps\" }, { i32 = \"m\" }]\n"));
  ASSERT_TRUE(plan) << plan.error().text();
  const auto resolved = resolve(**plan, facts);
  ASSERT_TRUE(resolved) << resolved.error().text();
  using Kind = ResolvedArgument::Kind;
  const auto part = [&](std::size_t i) { return resolved->kernels[0].parameters[i].parts[0]; };
  EXPECT_EQ(part(0).kind, Kind::kFormula);
  EXPECT_EQ(part(0).bytes, 4u);
  EXPECT_EQ(part(0).bits, std::bit_cast<std::uint32_t>(static_cast<float>(8 * 0.1 + 0.5)));
  EXPECT_EQ(resolved->formulas[part(0).index].known, (std::map<std::string, double>{{"m", 8}, {"eps", 0.5}}));
  EXPECT_EQ(part(1).kind, Kind::kFormula);
  EXPECT_EQ(part(1).bits, std::bit_cast<std::uint64_t>(0.25));
  EXPECT_EQ(part(2).kind, Kind::kValue);
  EXPECT_EQ(part(3).kind, Kind::kValue);
  ASSERT_EQ(resolved->scalars.size(), 2u);
  EXPECT_THAT(resolve_error(kKernel + "args = [{ i32 = \"rate\" }]\n", facts), HasSubstr("rate is not known"));
  EXPECT_THAT(resolve_error("[[value]]\nname = \"twice\"\nexpression = \"2 * rate\"\n" + kKernel, facts),
              HasSubstr("rate is not known"));
}

TEST(LaunchPlan, ANumberIsZeroWhereItsConditionDoesNotHold) {
  const auto plan = parse_launch_plan(
      block(kKernel + "args = [{ struct = [{ i64 = \"a_stride0\", when = \"m > 5\" }, "
                      "{ f32 = \"d_stride0\", when = \"m > 100\" }, { u32 = \"a_align >= 16\" }] }]\n"));
  ASSERT_TRUE(plan) << plan.error().text();
  PlanFacts facts = gemm_facts(8, 1, 16);
  facts.operands[0].alignment = 8;
  const auto resolved = resolve(**plan, facts);
  ASSERT_TRUE(resolved) << "what is not asked for may name an operand that the case lacks; " << resolved.error().text();
  const auto& parts = resolved->kernels[0].parameters[0].parts;
  EXPECT_EQ(parts[0].bits, 20u);
  EXPECT_EQ(parts[1].kind, ResolvedArgument::Kind::kZeros);
  EXPECT_EQ(parts[1].bytes, 4u);
  EXPECT_EQ(parts[2].offset, 12u);
  EXPECT_EQ(parts[2].bits, 0u);
  EXPECT_EQ(resolve(**plan, gemm_facts(2, 1, 16))->kernels[0].parameters[0].parts[0].kind,
            ResolvedArgument::Kind::kZeros);
  EXPECT_THAT(parse_error(kKernel + "args = [{ i64 = \"m\", else = \"n\" }]"), HasSubstr("an argument is one of"));
}

TEST(LaunchPlan, ClearsMemoryOfOperandsThatIsTheirs) {
  const std::string clear = "[[clear]]\noperand = \"c\"\nbytes = \"m * n * c_bytes\"\nwhen = \"k > 4\"\n" + kKernel;
  const auto plan = parse_launch_plan(block(clear));
  ASSERT_TRUE(plan) << plan.error().text();
  const auto resolved = resolve(**plan, gemm_facts(3, 5, 7));
  ASSERT_TRUE(resolved) << resolved.error().text();
  ASSERT_EQ(resolved->clears.size(), 1u);
  EXPECT_EQ(resolved->clears[0].operand, 2u);
  EXPECT_EQ(resolved->clears[0].bytes, 60u);
  EXPECT_TRUE(resolve(**plan, gemm_facts(3, 5, 4))->clears.empty());
  const auto again = parse_record<LaunchPlan>(to_line(**plan));
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(to_line(*again), to_line(**plan));
  EXPECT_THAT(resolve_error("[[clear]]\noperand = \"c\"\nbytes = \"m * n * 4 + 1\"\n" + kKernel),
              HasSubstr("clear of c, bytes = \"m * n * 4 + 1\" is 80001; it must be 0 to 80000"));
  EXPECT_THAT(resolve_error("[[clear]]\noperand = \"d\"\nbytes = 4\n" + kKernel), HasSubstr("no operand \"d\""));
}

TEST(LaunchPlan, AStructIsDeclaredOnceForSeveralKernels) {
  const std::string sizes = "[[struct]]\nname = \"sizes\"\nmembers = [{ i32 = \"m\" }, { i64 = \"n\" }]\n";
  const auto plan = parse_launch_plan(block(kKernel + "args = [{ struct = \"sizes\" }]\n" + kKernel +
                                            "args = [{ operand = \"a\" }, { struct = \"sizes\" }]\n" + sizes));
  ASSERT_TRUE(plan) << plan.error().text();
  ASSERT_EQ((*plan)->kernels[1].args[1].members.size(), 2u);
  EXPECT_EQ(resolve(**plan, gemm_facts(3, 5, 7))->kernels[0].parameters[0].bytes, 16u);
  EXPECT_THAT(parse_error(kKernel + "args = [{ struct = \"sizes\" }]\n"),
              HasSubstr("line 7: no [[struct]] is called \"sizes\""));
  EXPECT_THAT(parse_error(sizes + sizes), HasSubstr("struct \"sizes\" is declared twice"));
  EXPECT_THAT(parse_error("[[struct]]\nname = \"s\"\n" + kKernel), HasSubstr("\"members\" is missing"));
}

TEST(LaunchPlan, TheStrideOfADimensionOfOneElementIsNotRead) {
  const std::string map =
      "[[tensor_map]]\nname = \"t\"\noperand = \"a\"\nsizes = [\"k\", \"m\", \"n\"]\n"
      "strides = [\"a_stride0 * a_bytes\", 7]\nbox = [8, 1, 1]\n" +
      kKernel + "args = [{ tensor_map = \"t\" }]\n";
  const auto plan = parse_launch_plan(block(map));
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_THAT(resolve(**plan, gemm_facts(3, 1, 4))->tensor_maps[0].strides_bytes, ElementsAre(16, 48));
  EXPECT_THAT(resolve(**plan, gemm_facts(1, 1, 11))->tensor_maps[0].strides_bytes, ElementsAre(32, 32));
  EXPECT_THAT(resolve_error(map, gemm_facts(3, 2, 4)), HasSubstr("strides[1] = \"7\" is 7"));
}

TEST(LaunchPlan, OfTheShippedCandidateResolvesForEveryLayout) {
  const auto text = read_file(source_dir().string() + "/data/candidates/gemm_bf16_tiled.cu");
  ASSERT_TRUE(text);
  Candidate candidate;
  candidate.sources = {{"gemm_bf16_tiled.cu", *text}};
  candidate.defines = {{"TILE_M", 32}};
  const auto plan = launch_plan(candidate);
  ASSERT_TRUE(plan) << plan.error().text();
  const auto defines = define_values(candidate);
  ASSERT_TRUE(defines);
  for (std::int64_t layout = 0; layout < 4; ++layout) {
    PlanFacts facts = gemm_facts(100, 200, 300);
    facts.operands[2].dtype = DType::kBf16;
    facts.values.insert(defines->begin(), defines->end());
    facts.values.insert({{"dtype", 1}, {"out", 0}, {"layout", layout}, {"accumulate", 0}});
    facts.values.insert({{"batch", 1}, {"bias", 0}, {"activation", 0}, {"residual", 0}});
    const auto resolved = resolve(*plan, facts);
    ASSERT_TRUE(resolved) << resolved.error().text();
    EXPECT_THAT(resolved->kernels[0].grid, ElementsAre(4, 4, 1));
    EXPECT_THAT(resolved->kernels[0].block, ElementsAre(128, 1, 1));
    EXPECT_EQ(resolved->kernels[0].parameters[1].parts[0].bits, layout >= 2 ? 1u : 304u);
  }
}

// What the library's kernels need beside candidates: shared values, arguments and maps that depend on the case.
TEST(LaunchPlan, ValuesAndConditionsFollowTheCase) {
  const std::string toml =
      "[[value]]\nname = \"tiles\"\nexpression = \"ceil_div(m, 64)\"\n"
      "[[value]]\nname = \"twice\"\nexpression = \"tiles * 2\"\n"
      "[[tensor_map]]\nname = \"map\"\noperand = \"a\"\nsizes = [\"k\", \"m\"]\nstrides = [\"k * 4 + 16 - k * 4 % "
      "16\"]\n"
      "box = [32, 64]\nl2_promotion = \"m > 64 ? 128 : 256\"\nwhen = \"m > 64\"\n"
      "[[kernel]]\nsymbol = \"f\"\ngrid = [\"twice\"]\nblock = [32]\n"
      "args = [{ tensor_map = \"map\" }, { operand = \"a\", when = \"m > 64\", else = \"b\" }, "
      "{ operand = \"c\", when = \"m > 64\" }, { operand = \"none\", when = \"0\", else = \"nothing\" }]\n";
  const LaunchPlan plan = parse_launch_plan("/* ridge-launch\n" + toml + "*/")->value();
  using Kind = ResolvedArgument::Kind;
  const ResolvedPlan large = *resolve(plan, gemm_facts(100, 200, 300));
  const auto& arguments = large.kernels.at(0).parameters;
  EXPECT_EQ(large.kernels[0].grid[0], 4u);
  EXPECT_EQ(large.tensor_maps.at(0).l2_promotion_bytes, 128);
  EXPECT_EQ(arguments[0].parts[0].kind, Kind::kTensorMap);
  EXPECT_EQ(arguments[1].parts[0].index, 0u);
  EXPECT_EQ(arguments[2].parts[0].kind, Kind::kOperand);
  EXPECT_EQ(arguments[3].parts[0].kind, Kind::kZeros);
  const ResolvedPlan small = *resolve(plan, gemm_facts(10, 200, 300));
  EXPECT_TRUE(small.tensor_maps.empty());
  EXPECT_EQ(small.kernels[0].parameters[0].parts[0].kind, Kind::kZeros);
  EXPECT_EQ(small.kernels[0].parameters[0].bytes, 128u);
  EXPECT_EQ(small.kernels[0].parameters[1].parts[0].index, 1u);
  EXPECT_EQ(small.kernels[0].parameters[2].parts[0].kind, Kind::kZeros);
}

TEST(LaunchPlan, AValueMayNotHideANumberOfTheCase) {
  const std::string kernel = "[[kernel]]\nsymbol = \"f\"\ngrid = [1]\nblock = [32]\nargs = []\n";
  EXPECT_THAT(resolve_error("[[value]]\nname = \"m\"\nexpression = \"1\"\n" + kernel), HasSubstr("value m"));
  EXPECT_THAT(resolve_error("[[value]]\nname = \"x\"\nexpression = \"y + 1\"\n" + kernel), HasSubstr("y is not known"));
}

// What a search must keep to on a case: needs with its numbers in them, over tunables alone.
TEST(LaunchPlan, NeedsOfTunablesHaveTheNumbersOfTheCase) {
  const std::string toml =
      "[[value]]\nname = \"rows\"\nexpression = \"TILE > 0 ? TILE : m - 350\"\n"
      "[[value]]\nname = \"bytes\"\nexpression = \"rows * k + missing\"\n"
      "[[needs]]\nexpression = \"m > 5\"\nreason = \"of the case\"\n"
      "[[needs]]\nexpression = \"max(rows, 1) * STAGES <= k\"\nreason = \"too large\"\n"
      "[[needs]]\nexpression = \"bytes * STAGES > 0\"\nreason = \"not known\"\n"
      "[[needs]]\nexpression = \"TILE % 1e1 == m - 300\"\nreason = \"an exponent is no name\"\n"
      "[[kernel]]\nsymbol = \"f\"\ngrid = [1]\nblock = [32]\nargs = []\n";
  const LaunchPlan plan = parse_launch_plan("/* ridge-launch\n" + toml + "*/")->value();
  TuneSpace space;
  space.tunables.resize(2);
  space.tunables[0].name = "TILE";
  space.tunables[1].name = "STAGES";
  PlanFacts facts = gemm_facts(300, 200, 100);
  facts.values["TILE"] = 64;  // as a candidate sets it: still open
  const std::vector<Constraint> needs = needs_of_tunables(plan, facts, space);
  ASSERT_EQ(needs.size(), 2u);
  EXPECT_EQ(needs[0].reason, "too large");
  EXPECT_EQ(needs[1].expression, "TILE % 1e1 == (300) - 300");
  const auto holds = [&](std::int64_t tile, std::int64_t stages) {
    return *evaluate(needs[0].expression, {{"TILE", tile}, {"STAGES", stages}});
  };
  EXPECT_EQ(holds(50, 2), 1);
  EXPECT_EQ(holds(50, 3), 0);
  EXPECT_EQ(holds(0, 100), 1);  // rows are -50
  EXPECT_EQ(holds(0, 101), 0);
}

TEST(LaunchPlan, SourcesOfACandidateMakeOnePlan) {
  Candidate candidate;
  candidate.sources = {
      {"a.cu", "/* ridge-launch\n[[needs]]\nexpression = \"m > 5\"\nreason = \"small\"\n*/\n#include \"b.cu\"\n"},
      {"b.cu", "/* ridge-launch\n[[kernel]]\nsymbol = \"f\"\ngrid = [1]\nblock = [32]\nargs = []\n*/"}};
  const LaunchPlan plan = launch_plan(candidate).value();
  EXPECT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(plan.needs.size(), 1u);
}

}  // namespace
}  // namespace ridge::record
