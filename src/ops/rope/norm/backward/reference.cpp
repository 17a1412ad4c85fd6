// The definition in fp64 from the stored inputs; numbers carry along how far an fp32 kernel may be off.
#include "numerics/convert.h"
#include "ops/rope/norm/backward/backward.h"

namespace ridge::ops::rope_norm_backward {
namespace {

using rope_norm::Numbers;

struct Gradients {
  ReferenceOutput x, weight;
};

Gradients all_of(const Problem& problem, const Arguments& arguments, const TensorView& dy, const TensorView& x,
                 const TensorView& weight) {
  const rope::Shape s = rope::tokens_of(problem);
  const rope::Positions positions(problem, arguments);
  const TensorView cos = operand(problem, arguments, "cos"), sin = operand(problem, arguments, "sin");
  const double eps = arguments.scalar(problem, rope_norm::kEps).real(), length = static_cast<double>(s.dim);
  const bool zero_centred = problem.values[rope_norm::kZeroCentred] == 1;
  const std::vector<double> values = numerics::to_doubles(x), arrived = numerics::to_doubles(dy),
                            factors = rope_norm::weights_in_fp64(weight, s.dim);
  const std::int64_t heads = x.shape[2], rows = s.batch * s.length * heads;
  rows::ColumnSums sums(s.dim, std::max<std::int64_t>(rows, 1));
  const rows::Format format = rows::format_of(s.dtype);
  Gradients out;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto head = [&](const std::vector<double>& of) {
      return std::span(of).subspan(static_cast<std::size_t>(row * s.dim), static_cast<std::size_t>(s.dim));
    };
    const std::int64_t token = row / heads;
    Numbers g;
    for (const double one : head(arrived)) g.push_back(rows::Exact(one));
    g = rope_norm::turned(s, g, cos, sin, positions.at(token / s.length, token % s.length), true);
    const auto x_of = [&](std::size_t j) { return rows::Exact(head(values)[j]); };
    const auto slope = [&](std::size_t j) {
      return rope_norm::weighted(g[j], factors[j], zero_centred, weight.rank != 0);
    };
    rows::Sum products;
    for (std::size_t j = 0; j < g.size(); ++j) products.add(slope(j) * x_of(j));
    const rows::Number rstd = rope_norm::rstd_of(head(values), eps),
                       c = rows::total(length, products) / length * rstd * rstd;
    for (std::size_t j = 0; j < g.size(); ++j) {
      rows::append(out.x, rows::stored(format, (slope(j) - c * x_of(j)) * rstd));
    }
    sums.add(0, s.dim, [&](std::int64_t j) {
      const auto at = static_cast<std::size_t>(j);
      return g[at] * (x_of(at) * rstd);
    });
  }
  if (weight.rank == 0) return out;
  for (std::int64_t j = 0; j < s.dim; ++j) {
    rows::append(out.weight, rows::stored(rows::format_of(weight.dtype), rows == 0 ? rows::Number(0.0) : sums.at(j)));
  }
  return out;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(rope::check_positions("rope_norm_backward", problem, arguments));
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const bool k = problem.position("k").has_value(), weights = problem.position("q_weight").has_value();
  Gradients of_q = all_of(problem, arguments, named("dq_out"), named("q"), named("q_weight")), of_k;
  if (k) of_k = all_of(problem, arguments, named("dk_out"), named("k"), named("k_weight"));
  std::vector<ReferenceOutput> outputs;
  outputs.push_back(std::move(of_q.x));
  if (k) outputs.push_back(std::move(of_k.x));
  if (weights) outputs.push_back(std::move(of_q.weight));
  if (weights && k) outputs.push_back(std::move(of_k.weight));
  return outputs;
}

}  // namespace ridge::ops::rope_norm_backward
