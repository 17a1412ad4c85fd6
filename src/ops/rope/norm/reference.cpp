// The definition in fp64 from the stored inputs; numbers carry along how far an fp32 kernel may be off.
#include "numerics/convert.h"
#include "ops/rope/norm/norm.h"

namespace ridge::ops::rope_norm {
namespace {

ReferenceOutput all_of(const Problem& problem, const Arguments& arguments, const TensorView& x,
                       const TensorView& weight) {
  const rope::Shape s = rope::tokens_of(problem);
  const rope::Positions positions(problem, arguments);
  const TensorView cos = operand(problem, arguments, "cos"), sin = operand(problem, arguments, "sin");
  const double eps = arguments.scalar(problem, kEps).real();
  const bool zero_centred = problem.values[kZeroCentred] == 1;
  const std::vector<double> values = numerics::to_doubles(x), factors = weights_in_fp64(weight, s.dim);
  const rows::Format format = rows::format_of(s.dtype);
  const std::int64_t heads = x.shape[2];
  ReferenceOutput out;
  for (std::int64_t row = 0; row < s.batch * s.length * heads; ++row) {
    const auto head = std::span(values).subspan(static_cast<std::size_t>(row * s.dim), static_cast<std::size_t>(s.dim));
    const rows::Number rstd = rstd_of(head, eps);
    Numbers normal;
    for (std::size_t j = 0; j < head.size(); ++j) {
      normal.push_back(weighted(rows::Exact(head[j]) * rstd, factors[j], zero_centred, weight.rank != 0));
    }
    const std::int64_t token = row / heads;
    for (const rows::Number& y : turned(s, normal, cos, sin, positions.at(token / s.length, token % s.length), false)) {
      rows::append(out, rows::stored(format, y));
    }
  }
  return out;
}

}  // namespace

rows::Number rstd_of(std::span<const double> x, double eps) {
  rows::Sum squares;
  for (const double value : x) squares.add(rows::Exact(value) * rows::Exact(value));
  if (std::isinf(squares.value)) return 0.0;  // without the error of an infinity, which is no number
  const auto length = static_cast<double>(x.size());
  return rows::rsqrt(rows::total(length, squares) / length + eps);
}

std::vector<double> weights_in_fp64(const TensorView& weight, std::int64_t dim) {
  if (weight.rank == 0) return std::vector<double>(static_cast<std::size_t>(dim), 1.0);
  return numerics::to_doubles(weight);
}

rows::Number weighted(const rows::Number& x, double weight, bool zero_centred, bool given) {
  if (!given) return x;
  if (zero_centred) return x * (rows::Number(1.0) + rows::Number(weight));
  return x * rows::Exact(weight);
}

Numbers turned(const rope::Shape& s, const Numbers& x, const TensorView& cos, const TensorView& sin,
               std::int64_t position, bool inverse) {
  Numbers out = x;
  const std::int64_t pairs = s.rotary / 2;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto one = static_cast<std::size_t>(s.interleaved ? 2 * i : i),
               other = static_cast<std::size_t>(s.interleaved ? 2 * i + 1 : i + pairs);
    const auto of = [&](const TensorView& table) { return numerics::load_element(table, position * pairs + i); };
    const rows::Exact c(of(cos)), plus(inverse ? -of(sin) : of(sin)), minus(-plus.value);
    out[one] = x[one] * c + x[other] * minus;
    out[other] = x[other] * c + x[one] * plus;
  }
  return out;
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(rope::check_positions("rope_norm", problem, arguments));
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  std::vector<ReferenceOutput> outputs = {all_of(problem, arguments, named("q"), named("q_weight"))};
  if (problem.position("k")) outputs.push_back(all_of(problem, arguments, named("k"), named("k_weight")));
  return outputs;
}

}  // namespace ridge::ops::rope_norm
