#include "codes.h"

#include <ATen/Functions.h>

#include <string>
#include <utility>

#include "shapes.h"

namespace ridge::torch_frontend::codes {
namespace {

template <class Value, std::size_t kCount>
Value named(const std::pair<std::string_view, Value> (&known)[kCount], std::string_view name, std::string_view op,
            const char* what) {
  for (const auto& [text, value] : known) {
    if (name == text) return value;
  }
  std::string all;
  for (const auto& one : known) all += (all.empty() ? "" : ", ") + std::string(one.first);
  TORCH_CHECK_VALUE(false, op, ": ", what, " \"", name, "\" is unknown; use one of ", all);
}

ScaleRule rule_of(std::string_view op, std::string_view name) {
  static constexpr std::pair<std::string_view, ScaleRule> kNames[] = {{"exact", ScaleRule::kExact},
                                                                      {"floor", ScaleRule::kFloor},
                                                                      {"even", ScaleRule::kEven},
                                                                      {"ceil", ScaleRule::kCeil}};
  return named(kNames, name, op, "rule");
}

void check_words(const Tensor& random, std::string_view op) {
  const auto type = random.scalar_type();
  TORCH_CHECK_TYPE(
      (type == at::kLong || type == at::kUInt64) && same(random.sym_numel(), 2), op, ": random is ", type_of(random),
      " of shape ", random.sym_sizes(),
      "; give two 64-bit words, seed and offset: torch.tensor([seed, offset], dtype=torch.int64), or uint64");
  TORCH_CHECK_VALUE(random.is_contiguous(), op,
                    ": random has words that are not adjacent; call .contiguous() on it first");
}

// By `make(sizes, type)`.
template <class Make>
Quantized outputs_of(const c10::SymInt& rows, const c10::SymInt& cols, const Coding& coding, const Make& make) {
  const c10::SymInt plain[] = {coding.plain_rows.value_or(rows), cols}, turned[] = {cols, rows}, none[] = {0};
  const auto codes = [&](bool wanted, c10::SymIntArrayRef sizes) { return make(wanted ? sizes : none, coding.format); };
  const auto scales = [&](bool wanted, c10::SymIntArrayRef sizes, bool of_segments) {
    if (!wanted) return make(none, at::kFloat);
    if (of_segments) return make({*coding.segments, sizes[0]}, at::kFloat);
    return make(scale_sizes(coding.granularity, sizes[0], sizes[1]), scale_type(coding.granularity));
  };
  const bool of_segments = coding.segments && coding.granularity == Granularity::kRow;
  return {codes(coding.row, plain), scales(coding.row, plain, false), codes(coding.column, turned),
          scales(coding.column, turned, of_segments)};
}

}  // namespace

Granularity granularity_of(std::string_view op, std::string_view name) {
  static constexpr std::pair<std::string_view, Granularity> kNames[] = {{"tensor", Granularity::kTensor},
                                                                        {"row", Granularity::kRow},
                                                                        {"1x128", Granularity::kVector},
                                                                        {"128x128", Granularity::kBlock},
                                                                        {"mx", Granularity::kMx}};
  return named(kNames, name, op, "granularity");
}

Coding coding_of(std::string_view op, at::ScalarType format, std::string_view granularity, std::string_view rule,
                 bool row, bool column, const OptionalTensor& random) {
  TORCH_CHECK_TYPE(format == at::kFloat8_e4m3fn || format == at::kFloat8_e5m2, op, ": format is ", name_of(format),
                   "; use torch.float8_e4m3fn or torch.float8_e5m2");
  TORCH_CHECK_VALUE(row || column, op, ": neither row nor column is asked for; set one of them, or both");
  const Coding coding{format, granularity_of(op, granularity),   rule_of(op, rule), row,
                      column, given(random) ? &*random : nullptr};
  TORCH_CHECK_VALUE(coding.rule != ScaleRule::kExact || coding.granularity != Granularity::kMx, op,
                    ": mx scales are powers of two; use rule floor, even or ceil");
  if (coding.random != nullptr) check_words(*coding.random, op);
  return coding;
}

void check_matrix(const Tensor& x, std::string_view op, std::string_view name) {
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf,
                   op, ": ", name, " is ", type_of(x), "; give torch.float32, torch.bfloat16 or torch.float16");
  TORCH_CHECK_VALUE(x.dim() == 2, op, ": ", name, " has ", x.dim(),
                    " dimensions; give a matrix, for instance x.flatten(0, -2)");
}

Quantized empty_outputs(const Tensor& like, const c10::SymInt& rows, const c10::SymInt& cols, const Coding& coding) {
  return outputs_of(rows, cols, coding, [&](c10::SymIntArrayRef sizes, at::ScalarType type) {
    return at::empty_symint(sizes, like.options().dtype(type));
  });
}

Quantized allocated_outputs(const Tensor& like, std::int64_t rows, std::int64_t cols, const Coding& coding) {
  return outputs_of(rows, cols, coding, [&](c10::SymIntArrayRef sizes, at::ScalarType type) {
    return allocated(like, C10_AS_INTARRAYREF_SLOW(sizes), type);
  });
}

}  // namespace ridge::torch_frontend::codes
