#include "ops/row_groups.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/error.h"

namespace ridge::ops {

record::ParamInfo load_param() {
  record::ParamInfo param{
      std::string(record::kLoadParam), "any",
      "rows of each group: any; uniform; skewed (as the cubes of their places); half (of all in one)"};
  for (const auto& [load, name] : record::EnumNames<record::GroupLoad>::kNames) param.values.emplace_back(name);
  param.kind = record::ParamKind::kEnumerated;
  param.of_content = true;
  return param;
}

Fill offsets_fill(std::int64_t load, std::int64_t rows, std::int64_t step) {
  const auto spread = static_cast<record::GroupLoad>(load);
  const std::int64_t of_groups = spread == record::GroupLoad::kAny ? rows - rows / 16 : rows;
  return {Fill::Rule::kOffsets, static_cast<double>(step), static_cast<double>(of_groups / step * step), spread};
}

void complete_sources(record::Case& requested, bool gathers) {
  if (gathers && requested.get("sources").empty()) requested.set("sources", requested.get("rows", "256"));
}

OperandSpec index_operand(std::int64_t rows, std::int64_t sources) {
  OperandSpec index{"index", DType::kI32, {rows}};
  index.fill = {Fill::Rule::kIndices, -1, static_cast<double>(sources - 1)};
  return index;
}

std::vector<std::int64_t> read_offsets(const TensorView& offsets) {
  std::vector<std::int64_t> all;
  for (std::int64_t g = 0; g < offsets.shape[0]; ++g) {
    all.push_back(offsets.dtype == DType::kI64 ? static_cast<const std::int64_t*>(offsets.data)[g]
                                               : std::int64_t{static_cast<const std::int32_t*>(offsets.data)[g]});
  }
  return all;
}

Status check_offsets(std::string_view op, std::span<const std::int64_t> offsets, std::int64_t rows) {
  std::int64_t before = 0;
  for (std::size_t g = 0; g < offsets.size(); ++g) {
    if (offsets[g] < before || offsets[g] > rows) {
      return with_hint(invalid("{}: offset {} is {}, after {} and of {} rows", op, g, offsets[g], before, rows),
                       "give offsets that never fall, from 0 to the number of rows");
    }
    before = offsets[g];
  }
  return ok_status();
}

Status check_index(std::string_view op, const TensorView& index, std::span<const std::int64_t> offsets,
                   std::int64_t sources, std::string_view operand) {
  const auto* const numbers = static_cast<const std::int32_t*>(index.data);
  for (std::int64_t row = offsets.front(); row < offsets.back(); ++row) {
    if (numbers[row] < sources) continue;
    return with_hint(invalid("{}: index {} is {}, of {} rows of {}", op, row, numbers[row], sources, operand),
                     "give numbers of rows, or a negative one for a row of zeros");
  }
  return ok_status();
}

Status check_group_count(std::string_view op, std::int64_t groups, std::int64_t offsets) {
  if (groups < 1) return with_hint(invalid("{}: {} groups", op, groups), "give at least one");
  if (offsets == groups + 1) return ok_status();
  return with_hint(invalid("{}: {} offsets for {} groups", op, offsets, groups),
                   fmt::format("give {}: where each begins, and where the last ends", groups + 1));
}

namespace {

// `view` from its element `offset` on. Without elements there may be no memory to point into.
TensorView moved(TensorView view, std::int64_t offset) {
  if (view.element_count() != 0) view.data = static_cast<char*>(view.data) + size_bytes(view.dtype, offset);
  return view;
}

}  // namespace

TensorView rows_of(const TensorView& matrix, std::int64_t first, std::int64_t last) {
  TensorView rows = matrix;
  rows.shape[0] = last - first;
  return moved(rows, first * matrix.stride[0]);
}

TensorView columns_of(const TensorView& matrix, std::int64_t first, std::int64_t last) {
  TensorView columns = matrix;
  columns.shape[1] = last - first;
  return moved(columns, first);
}

TensorView matrix_of(const TensorView& stack, std::int64_t index) {
  TensorView one;
  one.data = stack.data;
  one.dtype = stack.dtype;
  one.rank = stack.rank - 1;
  std::copy_n(stack.shape.begin() + 1, one.rank, one.shape.begin());
  std::copy_n(stack.stride.begin() + 1, one.rank, one.stride.begin());
  return moved(one, index * stack.stride[0]);
}

}  // namespace ridge::ops
