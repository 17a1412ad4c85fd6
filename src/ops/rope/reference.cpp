// The definition in fp64 from the stored inputs; numbers carry along how far an fp32 kernel may be off.
#include "numerics/convert.h"
#include "ops/rope/rope.h"
#include "ops/row_check.h"

namespace ridge::ops::rope {
namespace {

// One head of one token, appended to what its result may hold.
void turn(const Shape& s, std::span<const double> x, const TensorView& cos, const TensorView& sin,
          std::int64_t position, ReferenceOutput& into) {
  const rows::Format format = rows::format_of(s.dtype);
  const std::int64_t pairs = s.rotary / 2;
  for (std::int64_t e = 0; e < s.dim; ++e) {
    const auto at = [&](std::int64_t element) { return x[static_cast<std::size_t>(element)]; };
    if (e >= s.rotary) {
      rows::append(into, rows::known(format, at(e)));
      continue;
    }
    const std::int64_t pair = s.interleaved ? e / 2 : e % pairs;
    const bool second = s.interleaved ? e % 2 == 1 : e >= pairs;
    const std::int64_t other = s.interleaved ? e ^ 1 : second ? e - pairs : e + pairs;
    const auto of = [&](const TensorView& table) { return numerics::load_element(table, position * pairs + pair); };
    const rows::Exact c(of(cos)), sine(second != s.inverse ? of(sin) : -of(sin));
    rows::append(into, rows::stored(format, rows::Exact(at(e)) * c + rows::Exact(at(other)) * sine));
  }
}

ReferenceOutput all_of(const Shape& s, const TensorView& x, const TensorView& cos, const TensorView& sin,
                       const Positions& positions) {
  ReferenceOutput out;
  const std::vector<double> values = numerics::to_doubles(x);
  const std::int64_t heads = x.shape[2];
  for (std::int64_t row = 0; row < s.batch * s.length * heads; ++row) {
    const std::int64_t token = row / heads;
    const auto first = static_cast<std::size_t>(row * s.dim);
    turn(s, std::span(values).subspan(first, static_cast<std::size_t>(s.dim)), cos, sin,
         positions.at(token / s.length, token % s.length), out);
  }
  return out;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_CHECK_OK(check_positions("rope", problem, arguments));
  const Shape s = shape_of(problem);
  const Positions positions(problem, arguments);
  std::vector<ReferenceOutput> outputs;
  for (const char* name : {"q", "k"}) {
    const TensorView x = operand(problem, arguments, name);
    if (x.rank == 0) continue;
    outputs.push_back(all_of(s, x, operand(problem, arguments, "cos"), operand(problem, arguments, "sin"), positions));
  }
  return outputs;
}

}  // namespace ridge::ops::rope
