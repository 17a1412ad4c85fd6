// The definition, group by group, in fp64 from the stored inputs. Shares no code with any kernel.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "numerics/convert.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/product.h"
#include "ops/row_check.h"
// clang-format off
#include "ops/gating/definition.cuh"
// clang-format on

namespace ridge::ops::grouped_gemm {
namespace {

constexpr activation::Definition kSwigluOf{activation::Definition::kSilu, 0, 0};

ProductModel model_of(const Shape& s, const GroupProduct& product) {
  return {product.m, product.n, product.k, s.out, s.accumulate};
}

// The rows of a group as a matrix, element by element; memory of its own where they are found by index.
struct Rows {
  TensorView view;
  std::vector<std::uint8_t> memory;

  Rows(const TensorView& stored, std::span<const std::int32_t> index, bool gathered) : view(stored) {
    if (!gathered) return;
    const auto size = static_cast<std::size_t>(size_bytes(stored.dtype, 1)),
               width = static_cast<std::size_t>(stored.shape[1]);
    memory.assign(std::max<std::size_t>(index.size() * width * size, 1), 0);
    for (std::size_t at = 0; at < index.size() * width; ++at) {
      const std::int64_t row = index[at / width], column = static_cast<std::int64_t>(at % width);
      if (row < 0) continue;
      const auto* const from = static_cast<const std::uint8_t*>(stored.data) +
                               static_cast<std::size_t>(row * stored.stride[0] + column) * size;
      std::copy_n(from, size, memory.data() + at * size);
    }
    view =
        TensorView::contiguous(memory.data(), stored.dtype, {static_cast<std::int64_t>(index.size()), stored.shape[1]});
  }
};

ProductSums sums_of(const Shape& s, const GroupProduct& p) {
  std::vector<double> old;
  if (s.accumulate) old = numerics::to_doubles(p.c);
  const Rows a(p.a, p.index, s.gather == kOfA), b(p.b, p.index, s.gather == kOfB);
  return product_sums(model_of(s, p), load_matrix(a.view, p.trans_a), load_matrix(b.view, p.trans_b), std::move(old));
}

ReferenceOutput one_group(const Shape& s, const GroupProduct& p) {
  return product_reference(model_of(s, p), sums_of(s, p));
}

// What the sums of a group are followed by: all outputs of rows of its own, or of none.
struct Outputs {
  ReferenceOutput c, y, dprobs;

  void add(const Outputs& part) {
    append(part.c, c);
    append(part.y, y);
    append(part.dprobs, dprobs);
  }
};

void append_zeros(const Shape& s, std::int64_t rows, Outputs& all) {
  const auto zeros = [&](std::int64_t columns, DType dtype, ReferenceOutput& output) {
    append_exact(std::vector<double>(static_cast<std::size_t>(rows * columns), 0.0), dtype, output);
  };
  zeros(s.c_columns(), s.out, all.c);
  zeros(s.inner(), s.out, all.y);
  zeros(1, DType::kF32, all.dprobs);
}

// p silu(gate) up. What silu of gates far below 0 may be off by is not its slope times what they are: it is a power.
rows::Number swiglu(const rows::Number& gate, const rows::Number& up, double probs) {
  rows::Number silu = kSwigluOf.value(gate);
  const double own = kSwigluOf.value(rows::Number(gate.value)).error;
  for (const double end : {gate.value - gate.error, gate.value + gate.error}) {
    silu.error = std::max(silu.error, own + std::abs(kSwigluOf.value(end) - silu.value));
  }
  return silu * up * rows::Exact(probs);
}

// The factors of the rows from `first` on.
std::vector<double> factors(const Shape& s, std::span<const TensorView> operands, std::int64_t first,
                            std::int64_t count) {
  if (!s.probs) return std::vector<double>(static_cast<std::size_t>(count), 1.0);
  return numerics::to_doubles(rows_of(operands[s.probs_at()], first, first + count));
}

// Of C as it is stored, which is the nearest number, or another one as far off as its reference says.
ReferenceOutput swiglu_of(const Shape& s, const ReferenceOutput& c, std::span<const double> probs) {
  const rows::Format format = rows::format_of(s.dtype);
  const auto inner = static_cast<std::size_t>(s.inner());
  const auto element = [&](std::size_t at) {
    const double nearest = format.round(c.value[at]);
    return rows::Number(nearest, c.allowed[at] + std::abs(nearest - c.value[at]), c.ideal_square[at]);
  };
  ReferenceOutput y;
  for (std::size_t row = 0; row < probs.size(); ++row) {
    for (std::size_t j = 0; j < inner; ++j) {
      const std::size_t gate = row * 2 * inner + j;
      rows::append(y, rows::stored(format, swiglu(element(gate), element(gate + inner), probs[row])));
    }
  }
  return y;
}

// From the gradient of y, whose elements are sums that were not rounded.
Outputs gradients_of(const Shape& s, const ProductSums& d, const std::vector<double>& gate_up,
                     std::span<const double> probs) {
  const rows::Format format = rows::format_of(s.dtype), exact = rows::format_of(DType::kF32);
  const auto inner = static_cast<std::size_t>(s.inner());
  Outputs made;
  std::vector<rows::Stored> of_up(inner);
  for (std::size_t row = 0; row < probs.size(); ++row) {
    rows::Sum sum;
    for (std::size_t j = 0; j < inner; ++j) {
      const std::size_t at = row * inner + j;
      const rows::Exact gate(gate_up[row * 2 * inner + j]), up(gate_up[(row * 2 + 1) * inner + j]);
      const rows::Number dy(d.value[at], d.allowed[at], d.square[at]), scaled = dy * rows::Exact(probs[row]);
      const rows::Number silu = kSwigluOf.value(rows::Number(gate));
      rows::append(made.c, rows::stored(format, scaled * kSwigluOf.slope(rows::Number(gate)) * up));
      of_up[j] = rows::stored(format, scaled * silu);
      rows::append(made.y, rows::stored(format, swiglu(rows::Number(gate), rows::Number(up), probs[row])));
      sum.add(dy * silu * up);
    }
    for (const rows::Stored& one : of_up) rows::append(made.c, one);
    rows::append(made.dprobs, rows::stored(exact, rows::total(static_cast<double>(inner), sum)));
  }
  return made;
}

Outputs outputs_of(const Problem& problem, std::span<const TensorView> operands,
                   std::span<const std::int64_t> offsets) {
  const Shape s = shape_of(problem);
  const GroupedOutput out = output_of(s, operands, offsets);
  Outputs all;
  append_zeros(s, offsets.front(), all);
  for (std::int64_t g = 0; g < out.groups(); ++g) {
    const std::int64_t first = offsets[static_cast<std::size_t>(g)], rows = out.rows_of(g);
    if (rows == 0) continue;
    const GroupProduct p = product_of(s, operands, offsets, g);
    const std::vector<double> probs = factors(s, operands, first, rows);
    if (s.epilogue == kSwiglu) {
      Outputs made{one_group(s, p), {}, {}};
      made.y = swiglu_of(s, made.c, probs);
      all.add(made);
    } else {
      all.add(gradients_of(s, sums_of(s, p), numerics::to_doubles(rows_of(operands[s.gate_up()], first, first + rows)),
                           probs));
    }
  }
  append_zeros(s, s.rows - offsets.back(), all);
  return all;
}

// y of the C that is there, element by element.
SpotCheck check_swiglu(const Shape& s, std::span<const TensorView> operands, std::span<const std::int64_t> offsets,
                       const std::string& label) {
  const rows::Format format = rows::format_of(s.dtype);
  const auto inner = static_cast<std::size_t>(s.inner());
  SpotCheck worst;
  worst.allowed = worst.blind_factor = 1;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::vector<double> c = numerics::to_doubles(rows_of(operands[s.c()], row, row + 1));
    const std::vector<double> y = numerics::to_doubles(rows_of(operands[s.y()], row, row + 1));
    const bool own = row >= offsets.front() && row < offsets.back();
    const double probs = own ? factors(s, operands, row, 1)[0] : 0.0;
    for (std::size_t j = 0; j < inner; ++j) {
      rows::Stored right;
      const rows::Number expected =
          own ? swiglu(rows::Number(c[j]), rows::Number(c[j + inner]), probs) : rows::Number(0.0);
      const double ratio = rows::error_ratio(format, y[j], expected, right);
      worst.finite = worst.finite && (std::isfinite(y[j]) || ratio == 0);  // products of f16 may rightly be infinite
      if (ratio <= worst.residual) continue;
      worst.residual = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
      worst.detail = fmt::format("{}: y[{}, {}] is {}, of this C it is {}", label, row, j, y[j], right.value);
    }
  }
  return worst;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  if (s.epilogue != kSums) {
    Outputs all = outputs_of(problem, operands, offsets);
    std::vector made{std::move(all.c), std::move(all.y)};
    if (s.probs && s.epilogue == kSwigluBackward) made.push_back(std::move(all.dprobs));
    return made;
  }
  return std::vector{grouped_reference(output_of(s, operands, offsets), [&](std::int64_t g) {
    return one_group(s, product_of(s, operands, offsets, g));
  })};
}

Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed) {
  const Shape s = shape_of(problem);
  if (s.epilogue == kSwigluBackward) {
    return with_right_infinities(spot_check_by_reference(problem, operands, reference));
  }
  if (s.accumulate && operands.size() < s.c() + 2) {
    return make_error(ErrorCode::kInternal, "spot check of {}: the old content of C is missing",
                      problem.problem_case.text());
  }
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  const std::string label = problem.problem_case.text();
  SpotCheck sums =
      grouped_spot_check(output_of(s, operands, offsets), label, seed, [&](std::int64_t g, std::uint64_t own) {
        const GroupProduct p = product_of(s, operands, offsets, g);
        const TensorView old = s.accumulate ? matrix_of(operands[s.c() + 1], g) : TensorView();
        const Rows a(p.a, p.index, s.gather == kOfA), b(p.b, p.index, s.gather == kOfB);
        return product_spot_check(model_of(s, p), a.view, p.trans_a, b.view, p.trans_b, p.c,
                                  s.accumulate ? &old : nullptr, label, own);
      });
  if (s.epilogue == kSums) return sums;
  SpotCheck made = check_swiglu(s, operands, offsets, label);
  made.finite = made.finite && sums.finite;
  if (made.residual * sums.allowed > sums.residual * made.allowed) return made;
  sums.finite = made.finite;
  return sums;
}

}  // namespace ridge::ops::grouped_gemm
