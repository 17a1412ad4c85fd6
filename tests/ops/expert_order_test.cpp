// What is particular to expert_order: the sort against a plain one, choices that are none, rows without a choice, runs
// shared out to threads, checks that no wrong order can pass, and launches that fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/harness.h"
#include "record/case.h"
#include "ridge/ops/expert_order.h"

namespace ridge::testing {
namespace {

using Numbers = std::vector<std::int32_t>;

const ops::Operator& the_operator() { return **ops::find_operator("expert_order"); }
ops::Problem bound(const std::string& words) { return *the_operator().bind(*record::parse_case(words)); }

// A call with memory of its own. Some choices are none, and few experts have most of the others.
struct Batch {
  std::int64_t tokens, count, top, align, places;
  Numbers experts, offsets, token_of, rows, choices;

  Batch(std::int64_t rows_of_experts, std::int64_t how_many, std::int64_t most, std::int64_t multiple)
      : tokens(rows_of_experts), count(how_many), top(most), align(multiple) {
    places = (tokens * top + count * (align - 1)) / align * align;
    std::mt19937 generator(9);
    for (std::int64_t i = 0; i < tokens * top; ++i) {
      const auto high = static_cast<std::int64_t>(generator() % static_cast<unsigned>(count + 3)) - 1;
      experts.push_back(static_cast<std::int32_t>(generator() % 2 == 0 ? high : high / 4));
    }
    offsets.assign(static_cast<std::size_t>(count + 1), -7);
    token_of.assign(static_cast<std::size_t>(places), -7);
    rows.assign(experts.size(), -7);
    choices.assign(static_cast<std::size_t>(places), -7);
  }
  ExpertOrderArgs args() {
    const auto vector = [](Numbers& numbers) {
      return TensorView::contiguous(numbers.data(), DType::kI32, {std::ssize(numbers)});
    };
    ExpertOrderArgs call;
    call.experts = TensorView::contiguous(experts.data(), DType::kI32, {tokens, top});
    call.rows = TensorView::contiguous(rows.data(), DType::kI32, {tokens, top});
    call.offsets = vector(offsets), call.tokens = vector(token_of), call.choices = vector(choices);
    call.align = align;
    return call;
  }
};

// The rows of each expert in turn, found by looking through all choices for it.
Batch plain(Batch batch) {
  std::fill(batch.token_of.begin(), batch.token_of.end(), -1);
  std::fill(batch.choices.begin(), batch.choices.end(), -1);
  std::fill(batch.rows.begin(), batch.rows.end(), -1);
  std::int32_t row = 0;
  for (std::int32_t e = 0; e < batch.count; ++e) {
    batch.offsets[static_cast<std::size_t>(e)] = row;
    for (std::size_t i = 0; i < batch.experts.size(); ++i) {
      if (batch.experts[i] != e) continue;
      batch.choices[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(i);
      batch.token_of[static_cast<std::size_t>(row)] =
          static_cast<std::int32_t>(static_cast<std::int64_t>(i) / batch.top);
      batch.rows[i] = row++;
    }
    while (row % batch.align != 0) ++row;
  }
  batch.offsets.back() = row;
  return batch;
}

TEST(ExpertOrder, SortsAsAPlainProgramSorts) {
  for (const std::int64_t align : {1, 8, 100}) {
    for (const int threads : {1, 2, 7}) {
      Batch batch(211, 13, 3, align);
      const Batch want = plain(batch);
      ASSERT_TRUE(expert_order(batch.args(), Stream::cpu(threads)).ok());
      EXPECT_EQ(batch.offsets, want.offsets) << align;
      EXPECT_EQ(batch.token_of, want.token_of) << align;
      EXPECT_EQ(batch.rows, want.rows) << align;
      EXPECT_EQ(batch.choices, want.choices) << align;
    }
  }
}

TEST(ExpertOrder, ChoicesBeyondTheExpertsAreNone) {
  Batch batch(3, 2, 2, 4);
  batch.experts = {1, 2, -5, 0, 2147483647, 1};
  ASSERT_TRUE(expert_order(batch.args(), Stream::cpu()).ok());
  EXPECT_EQ(batch.offsets, (Numbers{0, 4, 8}));
  EXPECT_EQ(batch.rows, (Numbers{4, -1, -1, 0, -1, 5}));
  EXPECT_EQ(batch.choices, (Numbers{3, -1, -1, -1, 0, 5, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(batch.token_of, (Numbers{1, -1, -1, -1, 0, 2, -1, -1, -1, -1, -1, -1}));
}

// What an implementation could do wrong, as a right result that was changed.
struct Mutant {
  const char* name;
  std::size_t operand;
  std::function<void(std::vector<double>&)> change;
};

TEST(ExpertOrder, TheChecksCatchEveryMutant) {
  const std::vector<Mutant> mutants = {
      {"nothing", 1, [](std::vector<double>&) {}},
      {"a row too far", 1, [](std::vector<double>& offsets) { offsets[3] += 1; }},
      {"not rounded up", 1, [](std::vector<double>& offsets) { offsets.back() -= 1; }},
      {"another order within an expert", 4, [](std::vector<double>& choices) { std::swap(choices[0], choices[1]); }},
      {"another token", 2, [](std::vector<double>& tokens) { tokens[1] += 1; }},
      {"rows without a token never written", 2,
       [](std::vector<double>& tokens) { *std::find(tokens.begin(), tokens.end(), -1.0) = -2139062144; }},
      {"a choice behind the last expert", 4, [](std::vector<double>& choices) { choices.back() = 0; }},
      {"two rows exchanged", 3, [](std::vector<double>& rows) { std::swap(rows[0], rows[5]); }},
      {"a dropped choice with a row", 3,
       [](std::vector<double>& rows) { *std::find(rows.begin(), rows.end(), -1.0) = 0; }}};
  const ops::Problem problem = bound("expert_order tokens=90 experts=6 top=3 align=16");
  for (const Mutant& mutant : mutants) {
    Operands before = make_operands(problem, kPacked, 8), operands = make_operands(problem, kPacked, 8);
    ASSERT_TRUE(the_operator().implementations.back().run(problem, operands.views(), Stream::cpu()).ok());
    std::vector<double> values = operands.all[mutant.operand].values();
    mutant.change(values);
    operands.all[mutant.operand].assign(values);
    const bool right = std::string(mutant.name) == "nothing";
    EXPECT_EQ(judge(the_operator(), problem, before, operands, 8).empty(), right) << "full compare: " << mutant.name;
    const auto found = the_operator().spot_check(problem, operands.views(), 3);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->residual <= found->allowed, right) << "spot check: " << mutant.name << ": " << found->detail;
  }
}

TEST(ExpertOrder, LaunchesFitAGpu) {
  const ops::DescribedKernel& kernel = ops::described_kernel("ops/expert_order/cuda_expert_order.cu");
  struct Expected {
    const char* words;
    std::uint32_t blocks, shared;
  };
  for (const Expected& one :
       {Expected{"tokens=16384 experts=256 top=8", 128, 18432}, Expected{"tokens=0 experts=8 top=2", 1, 576},
        Expected{"tokens=16384 experts=8 top=2", 32, 576}, Expected{"tokens=1048576 experts=256 top=8", 128, 18432},
        Expected{"tokens=16384 experts=4096 top=8", 32, 98304}}) {
    const ops::Problem problem = bound(std::string("expert_order ") + one.words);
    const auto plan = kernel.resolve(0, ops::plan_facts(problem));
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    ASSERT_EQ(plan->kernels.size(), 2u);
    EXPECT_EQ(plan->kernels[1].grid[0], one.blocks) << one.words;
    EXPECT_EQ(plan->kernels[1].shared_bytes, one.shared) << one.words;
    EXPECT_EQ(plan->kernels[1].parameters.at(0).bytes, 96u) << "ExpertOrderParameters";
  }
}

TEST(ExpertOrder, SaysWhatIsWrongWithACall) {
  const auto with = [&](const std::function<void(ExpertOrderArgs&)>& change) {
    Batch batch(4, 8, 2, 16);
    ExpertOrderArgs args = batch.args();
    change(args);
    const Status status = expert_order(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(with([](ExpertOrderArgs& a) { a.align = 0; }), "align=0 (give 1 to 1024)");
  has(with([](ExpertOrderArgs& a) { a.align = 8; }), "tokens");
  has(with([](ExpertOrderArgs& a) { a.experts.dtype = DType::kI64; }), "give [tokens, top] of i32");
  has(with([](ExpertOrderArgs& a) { a.offsets.shape[0] = 1; }), "give [experts + 1] of i32");
  has(with([](ExpertOrderArgs& a) { a.rows.shape[1] = 1; }), "give a matrix of the shape of experts");
  EXPECT_NE(with([](ExpertOrderArgs& a) { a.choices.data = a.tokens.data; }), "no error");
  const auto wrong = the_operator().bind(*record::parse_case("expert_order experts=5000"));
  ASSERT_FALSE(wrong.ok());
  has(wrong.error().text(), "5000 experts (give 1 to 4096)");
  has(the_operator().bind(*record::parse_case("expert_order tokens=1000000000 top=8")).error().text(), "31 bits");
}

}  // namespace
}  // namespace ridge::testing
