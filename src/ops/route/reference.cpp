// The definition: the right choice, and the weights of the chosen experts as numbers that carry the error of fp32
// along.
#include <fmt/format.h>

#include <cmath>

#include "numerics/convert.h"
#include "ops/route/right_choice.h"
#include "ops/row_check.h"
// clang-format off
#include "ops/route/power.cuh"
// clang-format on

namespace ridge::ops::route {
namespace {

using rows::Number;

Number sum_of(const std::vector<Number>& terms) {
  rows::Sum sum;
  for (const Number& term : terms) sum.add(term);
  return rows::total(static_cast<double>(terms.size()), sum);
}

// Shares of some logits in the sum over `all` of them.
std::vector<Number> shares_of(const std::vector<double>& some, const std::vector<double>& all) {
  double most = -HUGE_VAL;
  for (const double x : all) most = x > most || std::isnan(x) ? x : most;
  std::vector<Number> powers;
  for (const double x : all) powers.push_back(power(Number(x), Number(most)));
  const Number sum = sum_of(powers);
  std::vector<Number> shares;
  for (const double x : some) shares.push_back(power(Number(x), Number(most)) / sum);
  return shares;
}

std::vector<Number> weights_of(const Shape& shape, const std::vector<double>& logits,
                               const std::vector<std::int64_t>& experts, double scale) {
  std::vector<double> chosen;
  for (const std::int64_t expert : experts) chosen.push_back(logits[static_cast<std::size_t>(expert)]);
  std::vector<Number> weights;
  if (shape.sigmoid) {
    for (const double x : chosen) weights.push_back(rows::sigmoid(Number(x)));
  } else {
    weights = shares_of(chosen, shape.top_first ? chosen : logits);
  }
  const Number sum = sum_of(weights) + rows::rounded(kBesideSum);
  for (Number& weight : weights) weight = (shape.renormalize ? weight / sum : weight) * Number(scale);
  return weights;
}

// Reads rows of a call.
class Rows {
 public:
  Rows(const Problem& problem, const Arguments& arguments)
      : shape_(shape_of(problem)),
        scale_(arguments.scalar(problem, kScale).real()),
        logits_(numerics::to_doubles(operand(problem, arguments, "logits"))) {
    if (shape_.bias) bias_ = numerics::to_doubles(operand(problem, arguments, "bias"));
  }
  [[nodiscard]] std::vector<double> logits(std::int64_t row) const {
    const auto begin = logits_.begin() + row * shape_.experts;
    return {begin, begin + shape_.experts};
  }
  [[nodiscard]] RightChoice choice(std::int64_t row) const { return {shape_, logits(row), bias_}; }
  [[nodiscard]] std::vector<Number> weights(std::int64_t row, const std::vector<std::int64_t>& experts) const {
    return weights_of(shape_, logits(row), experts, scale_);
  }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] double scale() const { return scale_; }

 private:
  Shape shape_;
  double scale_;
  std::vector<double> logits_, bias_;
};

std::string text_of(const std::vector<std::int64_t>& experts) { return fmt::format("{}", fmt::join(experts, ", ")); }

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const Rows table(problem, arguments);
  const rows::Format format = rows::format_of(DType::kF32);
  ReferenceOutput weights, experts;
  for (std::int64_t row = 0; row < table.shape().tokens; ++row) {
    const RightChoice choice = table.choice(row);
    const std::vector<Number> right = table.weights(row, choice.experts());
    // Of an open row, anything that weights and experts may be: which of them are right is what spot_check() says.
    const double any_weight = choice.open() ? std::fabs(table.scale()) : 0;
    const double any_expert = choice.open() ? static_cast<double>(table.shape().experts) : 0.25;
    for (std::size_t k = 0; k < right.size(); ++k) {
      rows::Stored stored = rows::stored(format, right[k]);
      stored.allowed += any_weight, stored.ideal_square += any_weight * any_weight;
      rows::append(weights, stored);
      rows::append(experts, {static_cast<double>(choice.experts()[k]), any_expert, any_expert * any_expert / 4, 0});
    }
  }
  return std::vector{std::move(weights), std::move(experts)};
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t) {
  const Rows table(problem, arguments);
  const auto at = *problem.position("weights");
  const std::vector<double> weights = numerics::to_doubles(arguments[at]);
  const std::vector<double> all = numerics::to_doubles(operand(problem, arguments, "experts"));
  rows::Judge judge(problem, at);
  SpotCheck result;
  result.allowed = result.blind_factor = 1;
  for (std::int64_t row = 0; row < table.shape().tokens; ++row) {
    const std::int64_t first = row * table.shape().top;
    const std::vector<std::int64_t> found(all.begin() + first, all.begin() + first + table.shape().top);
    const RightChoice choice = table.choice(row);
    if (choice.open() ? !choice.allows(found) : found != choice.experts()) {
      result.residual = HUGE_VAL;
      result.detail = fmt::format("{}: row {} has the experts {}, not {}", problem.problem_case.text(), row,
                                  text_of(found), text_of(choice.experts()));
      return result;
    }
    const std::vector<Number> right = table.weights(row, found);
    for (std::size_t k = 0; k < right.size(); ++k) {
      judge.see(row, static_cast<std::int64_t>(k), weights[static_cast<std::size_t>(first) + k], right[k]);
    }
  }
  judge.conclude(result, true);
  return result;
}

}  // namespace ridge::ops::route
