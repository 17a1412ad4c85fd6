// One table: every operator x every implementation x every check case. A failure prints the case as the command line
// that reruns it: `ridge check <case>`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <set>

#include "device/cpu/matrix_unit.h"
#include "dispatch/choice.h"
#include "dispatch/launch.h"
#include "ops/harness.h"
#include "ops/matmul/simd/driver.h"

namespace ridge::testing {
namespace {

struct Row {
  const ops::Operator* op = nullptr;
  const ops::Implementation* implementation = nullptr;
  int configuration = -1;
  [[nodiscard]] dispatch::Choice choice() const { return {implementation, configuration}; }
  [[nodiscard]] bool supports(const ops::Problem& problem) const {
    return !dispatch::why_not(choice(), problem, ops::device_info(Stream::cpu())).has_value();
  }
  // Held to itself: a part of the cases shows that it takes every layout and leaves what it should.
  [[nodiscard]] bool is_reference() const { return implementation->name == "reference"; }
  // Those to check, in its configuration.
  [[nodiscard]] std::vector<ops::Problem> problems() const {
    std::vector<ops::Problem> all = check_problems(*op);
    for (ops::Problem& problem : all) problem.configuration = configuration;
    return all;
  }
};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const ops::Operator* op : all_operators()) {
    for (const ops::Implementation& implementation : op->implementations) {
      if (implementation.backend != Backend::kCpu) continue;
      all.push_back({op, &implementation});
      for (int i = 0; i < std::ssize(implementation.configurations); ++i) all.push_back({op, &implementation, i});
    }
  }
  return all;
}

std::string row_name(const ::testing::TestParamInfo<Row>& info) {
  std::string name = info.param.op->name + "_" + info.param.choice().name();
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

class Conformance : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Table, Conformance, ::testing::ValuesIn(rows()), row_name);

TEST_P(Conformance, MatchesTheReferenceOnEveryCheckCase) {
  const Row row = GetParam();
  int ran = 0;
  std::uint64_t seed = 1;
  const std::vector<ops::Problem> problems = row.problems();
  for (std::size_t p = 0; p < problems.size(); p += row.is_reference() ? 4 : 1) {
    const ops::Problem& problem = problems[p];
    if (!row.supports(problem)) continue;
    ++ran;
    for (const Layout& layout : {kPacked, kAwkward}) {
      const int threads = layout.row_gap == 0 ? 1 : row.implementation->vendor ? 2 : 3;
      EXPECT_EQ(check_run(*row.op, *row.implementation, problem, layout, ++seed, threads), "")
          << "ridge check " << problem.problem_case.text() << "   (" << layout.name << ", " << threads << " threads)";
    }
  }
  const std::string& name = row.implementation->name;
  const bool here = name == "cpu_amx"       ? device::cpu::matrix_unit_missing().empty()
                    : name == "cpu_bf16dot" ? ops::matmul::simd::bf16dot_missing().empty()
                                            : true;
  const bool own = here && !row.implementation->vendor && row.configuration < 0;
  EXPECT_TRUE(ran > 0 || !own) << "an implementation of ours that supports no check case";
}

TEST_P(Conformance, RefusesWithASentenceThatHoldsTheReason) {
  const Row row = GetParam();
  for (const ops::Problem& problem : row.problems()) {
    const ops::Refusal refusal = dispatch::why_not(row.choice(), problem, ops::device_info(Stream::cpu()));
    if (!refusal) continue;
    EXPECT_GT(refusal->size(), 10u) << problem.problem_case.text();
  }
}

TEST_P(Conformance, GivesTheSameBitsInTenRuns) {
  const Row row = GetParam();
  const std::vector<ops::Problem> problems = row.problems();
  for (std::size_t p = 0; p < problems.size(); p += 5) {
    const ops::Problem& problem = problems[p];
    if (!row.supports(problem)) continue;
    Operands first = make_operands(problem, kAwkward, 77);
    ASSERT_TRUE(row.implementation->run(problem, {first.views(), first.scalars}, Stream::cpu(2)).ok());
    for (int run = 0; run < 9; ++run) {
      Operands again = make_operands(problem, kAwkward, 77);
      // The thread count must not matter to us; other libraries do not promise that.
      const int threads = row.implementation->vendor ? 2 : 1 + run % 4;
      ASSERT_TRUE(row.implementation->run(problem, {again.views(), again.scalars}, Stream::cpu(threads)).ok());
      for (std::size_t i = 0; i < again.all.size(); ++i) {
        ASSERT_EQ(again.all[i].values(), first.all[i].values())
            << problem.problem_case.text() << " with " << threads << " threads, operand " << i;
      }
    }
  }
}

TEST_P(Conformance, CarriesNanAndInfThrough) {
  const Row row = GetParam();
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<ops::Problem> problems = row.problems();
  for (std::size_t p = 0; p < problems.size(); p += row.is_reference() ? 12 : 3) {
    const ops::Problem& problem = problems[p];
    if (!row.supports(problem)) continue;
    for (const double special : {nan, inf, -inf}) {
      Operands operands = make_operands(problem, kAwkward, 5);
      Operand& input = operands.all[0];
      if (input.view().element_count() == 0) continue;
      std::vector<double> values = input.values();
      values[values.size() / 2] = special;
      input.assign(values);
      const auto expected = row.op->reference(problem, {operands.views(), operands.scalars});
      ASSERT_TRUE(expected.ok());
      ASSERT_TRUE(row.implementation->run(problem, {operands.views(), operands.scalars}, Stream::cpu()).ok());
      std::size_t output = 0;
      for (const Operand& operand : operands.all) {
        if (!operand.spec().output) continue;
        EXPECT_EQ(compare(operand.values(), (*expected)[output++], operand.spec().dtype), "")
            << problem.problem_case.text() << " with " << special;
      }
    }
  }
}

class EveryOperator : public ::testing::TestWithParam<const ops::Operator*> {};
INSTANTIATE_TEST_SUITE_P(Table, EveryOperator, ::testing::ValuesIn(all_operators()),
                         [](const auto& row) { return row.param->name; });

TEST_P(EveryOperator, ListsTheReferenceLast) { EXPECT_EQ(GetParam()->implementations.back().name, "reference"); }

TEST_P(EveryOperator, BindsItsDefaultsAndItsOwnNormalForm) {
  const ops::Operator& op = *GetParam();
  record::Case empty;
  empty.op = op.name;
  const auto defaults = op.bind(empty);
  ASSERT_TRUE(defaults.ok()) << defaults.error().text();
  EXPECT_EQ(defaults->problem_case.params.size(), op.params.size());
  for (const ops::Problem& problem : check_problems(op)) {
    const auto again = op.bind(problem.problem_case);
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again->problem_case, problem.problem_case);
    EXPECT_EQ(ops::case_of(op, problem.values), problem.problem_case);
  }
}

TEST_P(EveryOperator, RefusesParametersItDoesNotHave) {
  const ops::Operator& op = *GetParam();
  record::Case wrong;
  wrong.op = op.name;
  wrong.set("no_such_parameter", "1");
  const auto bound = op.bind(wrong);
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.error().text().find("no_such_parameter"), std::string::npos);
}

// What the RMS line is held against: without it a shorter type passes.
TEST_P(EveryOperator, SaysHowFarTheIdealKernelIsFromEveryElement) {
  const ops::Operator& op = *GetParam();
  for (const ops::Problem& problem : check_problems(op)) {
    const Operands operands = make_operands(problem, kPacked, 1);
    const auto outputs = op.reference(problem, {operands.views(), operands.scalars});
    ASSERT_TRUE(outputs.ok());
    std::vector<ops::OperandSpec> specs = problem.operands;
    std::erase_if(specs, [](const ops::OperandSpec& spec) { return !spec.output; });
    ASSERT_EQ(specs.size(), outputs->size());
    for (std::size_t o = 0; o < specs.size(); ++o) {
      const ops::ReferenceOutput& output = (*outputs)[o];
      if (specs[o].check == ops::Check::kExact) continue;  // nothing is allowed
      ASSERT_EQ(output.ideal_square.size(), output.value.size()) << problem.problem_case.text();
      for (std::size_t e = 0; e < output.value.size(); ++e) {
        ASSERT_GT(output.ideal_square[e], 0) << problem.problem_case.text();
        ASSERT_LE(std::sqrt(output.ideal_square[e]), output.allowed[e]) << problem.problem_case.text();
      }
    }
  }
}

TEST_P(EveryOperator, VariesACaseInsideItsDomainAtNoMoreCost) {
  const ops::Operator& op = *GetParam();
  ASSERT_TRUE(op.vary) << "candidates would be checked on the shapes they know only";
  for (const ops::Problem& problem : check_problems(op)) {
    std::set<std::string> labels;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      for (const ops::Variation variation : {ops::Variation::kNeighbour, ops::Variation::kReduced,
                                             ops::Variation::kAlignedNeighbour, ops::Variation::kAlignedReduced}) {
        const auto other = op.bind(op.vary(problem, variation, seed));
        ASSERT_TRUE(other.ok()) << problem.problem_case.text() << ": " << other.error().text();
        EXPECT_LE(op.cost(*other).flop, op.cost(problem).flop);
        EXPECT_LE(op.cost(*other).bytes, op.cost(problem).bytes);
        for (std::size_t i = 0; i < problem.operands.size(); ++i) {
          EXPECT_EQ(other->operands[i].dtype, problem.operands[i].dtype);
          EXPECT_EQ(other->operands[i].read_write, problem.operands[i].read_write);
          EXPECT_EQ(other->operands[i].element_count() == 0, problem.operands[i].element_count() == 0);
        }
        if (variation == ops::Variation::kNeighbour) labels.insert(other->problem_case.label());
        if (variation == ops::Variation::kReduced || variation == ops::Variation::kAlignedReduced) {
          EXPECT_LE(op.cost(*other).flop, 1e6);
        }
      }
    }
    if (op.cost(problem).flop > 1e4) {
      EXPECT_GT(labels.size(), 3u) << problem.problem_case.text();
    }
  }
}

TEST_P(EveryOperator, HasTargetAndBenchCasesThatBindAndCostSomething) {
  const ops::Operator& op = *GetParam();
  for (const ops::CaseSet set : {ops::CaseSet::kTarget, ops::CaseSet::kBench}) {
    const auto cases = op.cases(set, Backend::kCpu);
    EXPECT_FALSE(cases.empty());
    for (const record::Case& one : cases) {
      const auto problem = op.bind(one);
      ASSERT_TRUE(problem.ok()) << one.text() << ": " << problem.error().text();
      EXPECT_GT(op.cost(*problem).flop, 0) << one.text();
      EXPECT_GT(op.cost(*problem).bytes, 0) << one.text();
    }
  }
}

// The sum of every element of every output that has a gradient, each times its weight: a scalar whose derivative is
// known by differences.
double weighted_sum(const ops::Operator& op, const ops::Problem& problem, const Operands& operands,
                    const std::vector<std::vector<double>>& weights) {
  const auto outputs = op.reference(problem, {operands.views(), operands.scalars});
  EXPECT_TRUE(outputs.ok());
  double sum = 0.0;
  for (std::size_t o = 0; o < weights.size(); ++o) {
    for (std::size_t e = 0; e < weights[o].size(); ++e) sum += weights[o][e] * (*outputs)[o].value[e];
  }
  return sum;
}

// Odd sixteenths: none is 0, where relu has no derivative.
std::vector<double> sixteenths(std::size_t count, unsigned start) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<double>((start + 7u * i) % 23u) / 8.0 - 1.1875;
  return values;
}

// Gradients of one problem, against differences of the fp64 reference with a step that every dtype holds exactly.
class GradientCheck {
 public:
  GradientCheck(const ops::Operator& op, const ops::Problem& problem)
      : op_(op), problem_(problem), operands_(make_operands(problem, kPacked, 3)) {
    for (std::size_t i = 0; i < operands_.all.size(); ++i) {
      Operand& operand = operands_.all[i];
      const bool number = !is_integer(operand.spec().dtype), real = number && !is_statistic(operand.spec().name);
      if (number) operand.assign(sixteenths(operand.values().size(), static_cast<unsigned>(5 * i)));
      if (operand.spec().output) {
        const std::size_t count = real ? operand.values().size() : 0;
        weights_.push_back(sixteenths(count, static_cast<unsigned>(11 + 3 * i)));
        upstream_.emplace_back(operand.spec(), kAwkward).assign(weights_.back());
        upstream_views_.push_back(real ? upstream_.back().view() : TensorView());
      } else {
        found_.emplace_back(operand.spec(), kAwkward).poison();
        inputs_.push_back(i);
      }
    }
    if (!saves_an_output()) return;
    const ops::Implementation& reference = op.implementations.back();
    EXPECT_TRUE(reference.run(problem, {operands_.views(), operands_.scalars}, Stream::cpu()).ok());
  }

  // How many elements were compared; nothing where the operator says that it has no gradient of this problem.
  int run() {
    std::vector<TensorView> wanted;
    for (std::size_t at = 0; at < inputs_.size(); ++at) {
      wanted.push_back(has_gradient(inputs_[at]) ? found_[at].view() : TensorView());
    }
    const auto calls =
        ops::backward_calls(op_, problem_, {forward_views(), operands_.scalars}, upstream_views_, wanted);
    if (!calls.ok() && calls.error().code == ErrorCode::kUnsupported) return 0;  // says the way out
    EXPECT_TRUE(calls.ok()) << calls.error().text();
    if (!calls.ok()) return 0;
    for (const ops::EntryCall& one : *calls) {
      const Status status = dispatch::launch(*one.op, one.call, Stream::cpu());
      EXPECT_TRUE(status.ok()) << status.error().text();
    }
    int checked = 0;
    for (std::size_t at = 0; at < inputs_.size(); ++at) {
      if (wanted[at].rank == 0) continue;
      checked += compare_with_differences(inputs_[at], found_[at].values());
      EXPECT_EQ(found_[at].guard_damage(), "");
    }
    return checked;
  }

 private:
  static bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }
  [[nodiscard]] bool has_gradient(std::size_t operand) const {
    const ops::OperandSpec& spec = problem_.operands[operand];
    if (op_.backward) return !is_integer(spec.dtype) && !contains(op_.backward->constants, spec.name);
    return std::ranges::find(op_.gradients, spec.name, &ops::Gradient::input) != op_.gradients.end();
  }

  [[nodiscard]] bool is_statistic(const std::string& output) const {
    return op_.backward && contains(op_.backward->statistics, output);
  }

  [[nodiscard]] bool saves_an_output() const {
    return op_.backward && std::ranges::any_of(problem_.operands, [&](const ops::OperandSpec& spec) {
             return spec.output && std::ranges::find(op_.backward->saved, spec.name) != op_.backward->saved.end();
           });
  }

  // What a backward entry does not declare as saved is not there.
  [[nodiscard]] std::vector<TensorView> forward_views() const {
    std::vector<TensorView> views = operands_.views();
    for (std::size_t i = 0; op_.backward && i < views.size(); ++i) {
      const auto& saved = op_.backward->saved;
      if (std::ranges::find(saved, problem_.operands[i].name) == saved.end()) views[i] = TensorView();
    }
    return views;
  }

  int compare_with_differences(std::size_t input, const std::vector<double>& found) {
    int checked = 0;
    std::vector<double> point = operands_.all[input].values();
    for (std::size_t e = 0; e < point.size(); e += 1 + point.size() / 40) {
      const double kept = point[e], step = 0x1p-7;
      const auto moved = [&](double by) {
        point[e] = kept + by;
        operands_.all[input].assign(point);
        return weighted_sum(op_, problem_, operands_, weights_);
      };
      const auto difference = [&](double by) { return (moved(by) - moved(-by)) / (2 * by); };
      const double expected = (4 * difference(step / 2) - difference(step)) / 3;  // the step's square is taken out
      static_cast<void>(moved(0));
      EXPECT_NEAR(found[e], expected, 1e-5 * (1.0 + std::abs(expected)))
          << problem_.problem_case.text() << ": gradient of " << problem_.operands[input].name << ", element " << e;
      ++checked;
    }
    return checked;
  }

  const ops::Operator& op_;
  const ops::Problem& problem_;
  Operands operands_;
  std::vector<std::vector<double>> weights_;  // by output
  std::deque<Operand> upstream_, found_;      // gradients of outputs, of inputs
  std::vector<TensorView> upstream_views_;
  std::vector<std::size_t> inputs_;
};

TEST_P(EveryOperator, GradientsMatchDifferencesOfTheReference) {
  const ops::Operator& op = *GetParam();
  int checked = 0, in_f32 = 0;  // differences of what is rounded to 16 bits say little: attention_backward_test.cpp
  for (const ops::Problem& problem : check_problems(op)) {
    const auto first_output = std::ranges::find_if(problem.operands, &ops::OperandSpec::output);
    if (first_output->dtype != DType::kF32 || problem.operands[0].dtype != DType::kF32) continue;
    ++in_f32;
    if (first_output->element_count() == 0 || first_output->element_count() > 512) continue;
    checked += GradientCheck(op, problem).run();
  }
  EXPECT_TRUE(checked > 0 || in_f32 == 0 || (op.gradients.empty() && !op.backward));
}

}  // namespace
}  // namespace ridge::testing
