// Checks of the operands that callers pass, with messages that hold the values. The names in the messages are those
// of the contract.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "ops/op.h"
#include "record/case.h"
#include "ridge/result.h"
#include "ridge/tensor.h"

namespace ridge::ops {

// Where a value stands in a list, which is what a parameter with named values holds; -1: nowhere.
template <class List, class Value>
std::int64_t index_of(const List& list, const Value& value) {
  const auto found = std::find(std::begin(list), std::end(list), value);
  return found == std::end(list) ? -1 : found - std::begin(list);
}

// The case with its dtypes spelt in one way: fp32, half, ... mean the same.
record::Case with_dtype_names(record::Case requested, std::initializer_list<std::string_view> params);

// Of that rank, no negative size, memory where there are elements, the last dimension contiguous and every other at
// least as far apart as what it contains. `way_out` is said where a stride is refused.
Status check_layout(std::string_view op, std::string_view name, const TensorView& view, int rank,
                    std::string_view way_out);

// Of these `dimensions` ("[batch, length, heads, dim]"), contiguous in the last, and no two elements at one place: the
// others may lie in any order.
Status check_interleaved_layout(std::string_view op, std::string_view name, const TensorView& view,
                                std::string_view dimensions, std::string_view way_out);
Status check_heads_layout(std::string_view op, std::string_view name, const TensorView& view);

// Every byte of every operand has a 64-bit offset, whatever its dtype; asked of a case, whose sizes no memory has
// bounded. The second asks of one matrix, before anything is computed from its sizes.
Status check_addressable(const Problem& problem);
Status check_addressable(std::string_view where, std::string_view operand, std::int64_t rows, std::int64_t cols);
// At least one element in a row.
Status check_row_length(std::string_view where, std::int64_t cols);
// Both, of the matrix x of a case.
Status check_rows(const Problem& problem, std::int64_t rows, std::int64_t cols);

// Of exactly this dtype and shape.
bool has_shape(const TensorView& view, DType dtype, std::span<const std::int64_t> shape);
Status check_shape(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                   std::span<const std::int64_t> shape, std::string_view way_out);
// The same with a way out that is made where it is said: its text costs more than the checks of a small call.
template <class MakeText>
requires std::is_invocable_r_v<std::string, MakeText> Status check_shape(std::string_view op, std::string_view name,
                                                                         const TensorView& view, DType dtype,
                                                                         std::span<const std::int64_t> shape,
                                                                         MakeText&& way_out) {
  if (has_shape(view, dtype, shape)) return ok_status();
  return check_shape(op, name, view, dtype, shape, std::string_view(way_out()));
}

// A row-major matrix of this dtype and the shape of x; a contiguous vector with one number for each row.
Status check_like_x(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                    std::span<const std::int64_t> shape);
Status check_per_row(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                     std::int64_t rows);

// Whether the bytes from the first to the last element of both have any in common; columns that are side by side in one
// matrix have none.
bool overlap(const TensorView& x, const TensorView& y);

struct NamedView {
  std::string_view name;
  const TensorView* view = nullptr;
};
// An output must not share memory with anything else of the call; what is left out shares none.
Status check_apart(std::string_view op, const NamedView& output, std::initializer_list<NamedView> others);

// An operand in row-major order, no padding between rows.
TensorView dense_view(const OperandSpec& spec, void* data);

}  // namespace ridge::ops
