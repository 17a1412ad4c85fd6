// How often the checker calls a right output wrong: every implementation of every operator, the fp64 reference among
// them, on cases drawn at random (shapes, dtypes, layouts, epilogues) and every family of inputs.
//
//   RIDGE_SEEDS         how many seeds (200), each one case of every operator and all families
//   RIDGE_FIRST_SEED    the first of them (1)
//   RIDGE_RESULT        a file for the figures, as JSON
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "evaluate/judge.h"
#include "measure/quads.h"
#include "numerics/convert.h"
#include "numerics/philox.h"
#include "ridge/stream.h"

namespace ridge::evaluate {
namespace {

using numerics::Family;

constexpr double kMostFlop = 4e6;  // of a case, so that ten thousand seeds take less than an hour
constexpr double kLargest = 8;     // standard deviations, of the histogram

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Operands in memory of their own, inputs filled, outputs full of NaN.
class Memory {
 public:
  Memory(const ops::Problem& problem, Family family, std::uint64_t seed) {
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      const ops::OperandSpec& spec = problem.operands[i];
      bytes_.emplace_back(size_bytes(spec.dtype, spec.element_count()) + 64, 0xff);
      TensorView view;
      view.dtype = spec.dtype;
      view.rank = static_cast<int>(spec.shape.size());
      view.data = bytes_.back().data() + (64 - reinterpret_cast<std::uintptr_t>(bytes_.back().data()) % 64);
      std::int64_t stride = 1;
      for (int axis = view.rank - 1; axis >= 0; --axis) {
        const auto at = static_cast<std::size_t>(axis);
        view.shape[at] = spec.shape[at];
        view.stride[at] = stride;
        stride *= spec.shape[at];
      }
      views.push_back(view);
      if (!spec.output || spec.read_write) ops::fill_input(spec.fill, view, family, numerics::derive_seed(seed, i));
    }
  }

  std::vector<TensorView> views;

 private:
  std::vector<std::vector<unsigned char>> bytes_;
};

// A check case of the operator, half of the time a neighbour of it, with half of its named parameters drawn anew.
std::optional<ops::Problem> drawn_problem(const ops::Operator& op, measure::Coin& coin) {
  const std::vector<record::Case> cases = op.cases(ops::CaseSet::kCheck, Backend::kCpu);
  record::Case one = cases[coin.below(cases.size())];
  for (const record::ParamInfo& param : op.params) {
    if (param.values.empty() || !coin.flip()) continue;
    record::Case other = one;
    other.set(param.name, param.values[coin.below(param.values.size())]);
    if (op.bind(other).ok()) one = other;
  }
  auto problem = op.bind(one);
  if (problem && op.vary && coin.flip()) {
    auto neighbour = op.bind(op.vary(*problem, ops::Variation::kNeighbour, coin.next()));
    if (neighbour) problem = std::move(neighbour);
  }
  if (!problem || op.cost(*problem).flop > kMostFlop) return std::nullopt;
  return std::move(*problem);
}

struct Tally {
  std::int64_t outputs = 0, projections = 0;
  std::array<std::int64_t, static_cast<std::size_t>(kLargest) + 1> beyond{};  // outputs whose excess is above the index
  double largest_excess = 0, largest_element = 0, largest_rms = 0, largest_projection = 0;  // found / allowed
  std::vector<std::string> alarms;
  std::map<std::string, std::int64_t> by_subject, by_family;
};

class Survey {
 public:
  void run(std::uint64_t seed) {
    measure::Coin coin(numerics::derive_seed(seed, 0x616c61726d));
    for (const ops::Operator* op : ops::operators()) {
      std::optional<ops::Problem> problem;
      while (!problem) problem = drawn_problem(*op, coin);
      for (const Family family : numerics::kAllFamilies) {
        if (!op->excuses || !op->excuses(*problem, family)) compare(*op, *problem, family, coin.next(), seed);
      }
    }
  }
  [[nodiscard]] const Tally& tally() const { return tally_; }

  void compare(const ops::Operator& op, const ops::Problem& problem, Family family, std::uint64_t inputs,
               std::uint64_t seed) {
    const Memory before(problem, family, inputs);
    const auto references = op.reference(problem, before.views);
    ASSERT_TRUE(references.ok()) << references.error().text();
    for (const ops::Implementation& implementation : op.implementations) {
      if (implementation.backend != Backend::kCpu) continue;
      if (ops::why_not(implementation, problem, ops::device_info(Stream::cpu()))) continue;
      const Memory after(problem, family, inputs);
      ASSERT_TRUE(implementation.run(problem, after.views, Stream::cpu()).ok()) << problem.problem_case.text();
      const std::string what = fmt::format("seed {}: {} on {}, {} inputs", seed, implementation.name,
                                           problem.problem_case.text(), numerics::to_string(family));
      ++tally_.by_subject[op.name + " " + implementation.name];
      ++tally_.by_family[std::string(numerics::to_string(family))];
      judge_outputs(problem, after, *references, what);
      project(op, problem, before, after, numerics::derive_seed(inputs, 99), what);
    }
  }

 private:
  void judge_outputs(const ops::Problem& problem, const Memory& after,
                     const std::vector<ops::ReferenceOutput>& references, const std::string& what) {
    std::size_t output = 0;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      if (!problem.operands[i].output) continue;
      const Judgement verdict =
          judge(numerics::to_doubles(after.views[i]), references[output++], problem.operands[i].dtype);
      ++tally_.outputs;
      const double excess = verdict.bias.excess;
      for (std::size_t x = 0; x < tally_.beyond.size(); ++x) {
        tally_.beyond[x] += excess > static_cast<double>(x) ? 1 : 0;
      }
      tally_.largest_excess = std::max(tally_.largest_excess, excess);
      tally_.largest_element = std::max(tally_.largest_element, verdict.error_ratio);
      if (verdict.rms_limit > 0) {
        tally_.largest_rms = std::max(tally_.largest_rms, verdict.rms_ratio / verdict.rms_limit);
      }
      if (verdict.right()) continue;
      alarm(fmt::format("{}: {} of {}: element {:.3g}, RMS {:.3g} of {:.3g}, lean {:.3g} of {:.3g} ({:.3g} deviations)",
                        what, record::name_of(verdict.gate), problem.operands[i].name, verdict.error_ratio,
                        verdict.rms_ratio, verdict.rms_limit, verdict.bias.mean, verdict.bias.limit, excess));
    }
  }

  void project(const ops::Operator& op, const ops::Problem& problem, const Memory& before, const Memory& after,
               std::uint64_t seed, const std::string& what) {
    if (!op.spot_check) return;
    std::vector<TensorView> views = after.views;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      if (problem.operands[i].read_write) views.push_back(before.views[i]);
    }
    const auto spot = op.spot_check(problem, views, seed);
    ASSERT_TRUE(spot.ok()) << spot.error().text();
    ++tally_.projections;
    if (!spot->finite) return;  // an overflow: the full comparison decides
    if (spot->allowed > 0) {
      tally_.largest_projection = std::max(tally_.largest_projection, spot->residual / spot->allowed);
    }
    if (spot->residual > spot->allowed) alarm(fmt::format("{}: projection: {}", what, spot->detail));
  }

  void alarm(std::string text) {
    std::cerr << text << std::endl;
    tally_.alarms.push_back(std::move(text));
  }

  Tally tally_;
};

void write(const Tally& tally, std::uint64_t first, std::uint64_t seeds, const std::string& path) {
  nlohmann::ordered_json out;
  out["seeds"] = seeds;
  out["first_seed"] = first;
  out["outputs_compared"] = tally.outputs;
  out["projections"] = tally.projections;
  out["alarms"] = tally.alarms;
  out["bias"] = {{"allowed_rate_per_output", numerics::kBiasFalseAlarm},
                 {"deviations_allowed", std::sqrt(2 * std::log(2 / numerics::kBiasFalseAlarm))},
                 {"largest_deviations", tally.largest_excess},
                 {"outputs_beyond_0_1_2_deviations", tally.beyond}};
  out["largest_of_allowed"] = {
      {"element", tally.largest_element}, {"rms", tally.largest_rms}, {"projection", tally.largest_projection}};
  out["by_subject"] = tally.by_subject;
  out["by_family"] = tally.by_family;
  std::ofstream(path) << out.dump(2) << "\n";
}

// One rounded scale serves all elements: its error is the same fraction of each, however many there are.
TEST(FalseAlarms, RoundedScalesAreNoLean) {
  const ops::Operator& op = **ops::find_operator("gemm_fp8");
  Survey survey;
  for (const char* scaling : {"tensor", "row", "block", "vector"}) {
    const auto problem = op.bind(
        *record::parse_case(fmt::format("gemm_fp8 m=120 n=130 k=33 layout=nt out=f32 sums=f32 scaling={}", scaling)));
    ASSERT_TRUE(problem.ok()) << problem.error().text();
    for (std::uint64_t seed = 1; seed <= 8; ++seed) survey.compare(op, *problem, Family::kNormal, seed, seed);
  }
  EXPECT_TRUE(survey.tally().alarms.empty()) << survey.tally().alarms.front();
  EXPECT_LT(survey.tally().largest_excess, 1.0);
}

TEST(FalseAlarms, NoRightOutputIsCalledWrong) {
  const std::uint64_t seeds = number_from("RIDGE_SEEDS", 200), first = number_from("RIDGE_FIRST_SEED", 1);
  Survey survey;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    survey.run(seed);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  const Tally& tally = survey.tally();
  if (const char* const path = std::getenv("RIDGE_RESULT")) write(tally, first, seeds, path);
  EXPECT_TRUE(tally.alarms.empty()) << tally.alarms.size() << " false alarms, the first: " << tally.alarms.front();
  EXPECT_GT(tally.outputs, static_cast<std::int64_t>(50 * seeds));
  // The bound that the stated rate rests on, where it can be seen.
  for (std::size_t x = 1; x < tally.beyond.size(); ++x) {
    const double bound = 2 * std::exp(-static_cast<double>(x * x) / 2) * static_cast<double>(tally.outputs);
    EXPECT_LE(static_cast<double>(tally.beyond[x]), bound + 4 * std::sqrt(bound) + 1) << x << " deviations";
  }
}

}  // namespace
}  // namespace ridge::evaluate
