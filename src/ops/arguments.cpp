#include "ops/arguments.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"

namespace ridge::ops {
namespace {

// Bytes from the first to behind the last element; {0, 0} when there are none.
struct Extent {
  std::uintptr_t begin = 0, end = 0;
};

Extent extent(const TensorView& view) {
  if (view.data == nullptr || view.element_count() == 0) return {};
  std::int64_t last = 0;
  for (int d = 0; d < view.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    last += (view.shape[i] - 1) * view.stride[i];
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  return {begin, begin + size_bytes(view.dtype, last + 1)};
}

std::span<const std::int64_t> sizes(const TensorView& view) {
  return {view.shape.data(), static_cast<std::size_t>(view.rank)};
}

// Columns of one matrix that are side by side: the halves of a packed matrix, say.
bool side_by_side(const TensorView& x, const TensorView& y, std::uintptr_t distance) {
  if (x.rank != 2 || y.rank != 2 || x.shape[0] < 2 || y.shape[0] < 2) return false;
  const std::size_t row = size_bytes(x.dtype, x.stride[0]);
  if (row == 0 || row != size_bytes(y.dtype, y.stride[0])) return false;
  const std::size_t apart = distance % row;
  return apart >= size_bytes(x.dtype, x.shape[1]) && apart + size_bytes(y.dtype, y.shape[1]) <= row;
}

Status check_addressable(std::string_view where, std::string_view operand, std::span<const std::int64_t> shape) {
  constexpr std::int64_t kLimit = std::numeric_limits<std::int64_t>::max() / 16;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size != 0 && count > kLimit / size) {
      return with_hint(invalid("{}: {} would have {} elements, at most {} can be addressed", where, operand,
                               fmt::join(shape, " x "), kLimit),
                       "use smaller sizes");
    }
    count *= size;
  }
  return ok_status();
}

// No negative size, and memory where there are elements.
Status check_memory(std::string_view op, std::string_view name, const TensorView& view) {
  if (std::ranges::any_of(sizes(view), [](std::int64_t size) { return size < 0; })) {
    return invalid("{}: {} is {}; sizes must not be negative", op, name, view.describe());
  }
  if (view.element_count() == 0 || view.data != nullptr) return ok_status();
  return invalid("{}: {} is {} but its data pointer is null", op, name, view.describe());
}

}  // namespace

record::Case with_dtype_names(record::Case requested, std::initializer_list<std::string_view> params) {
  for (const std::string_view name : params) {
    const auto dtype = parse_dtype(requested.get(name));
    if (dtype) requested.set(name, std::string(to_string(*dtype)));
  }
  return requested;
}

Status check_layout(std::string_view op, std::string_view name, const TensorView& view, int rank,
                    std::string_view way_out) {
  if (view.rank != rank) {
    return with_hint(invalid("{}: {} has rank {}; it must have rank {}", op, name, view.rank, rank),
                     std::string(way_out));
  }
  RIDGE_CHECK_OK(check_memory(op, name, view));
  if (view.element_count() == 0) return ok_status();
  std::int64_t needed = 1;  // elements that one step of the dimension spans
  for (int d = rank - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    const bool right = d == rank - 1 ? view.stride[i] == 1 : view.stride[i] >= needed;
    if (view.shape[i] > 1 && !right) {
      return with_hint(
          invalid("{}: {} is {} with strides [{}]; columns must be contiguous and rows at least {} elements apart", op,
                  name, view.describe(), fmt::join(view.stride.begin(), view.stride.begin() + view.rank, ", "),
                  view.shape[static_cast<std::size_t>(rank - 1)]),
          std::string(way_out));
    }
    needed = view.shape[i] > 1 ? (view.shape[i] - 1) * view.stride[i] + needed : needed;
  }
  return ok_status();
}

Status check_addressable(const Problem& problem) {
  for (const OperandSpec& operand : problem.operands) {
    RIDGE_CHECK_OK(check_addressable(problem.problem_case.text(), operand.name, operand.shape));
  }
  return ok_status();
}

Status check_addressable(std::string_view where, std::string_view operand, std::int64_t rows, std::int64_t cols) {
  const std::int64_t shape[] = {rows, cols};
  return check_addressable(where, operand, shape);
}

Status check_row_length(std::string_view where, std::int64_t cols) {
  if (cols >= 1) return ok_status();
  return with_hint(invalid("{}: rows of {} elements", where, cols), "give rows of at least one element");
}

Status check_rows(const Problem& problem, std::int64_t rows, std::int64_t cols) {
  const std::string where = problem.problem_case.text();
  RIDGE_CHECK_OK(check_row_length(where, cols));
  return check_addressable(where, "x", rows, cols);
}

Status check_interleaved_layout(std::string_view op, std::string_view name, const TensorView& view,
                                std::string_view dimensions, std::string_view way_out) {
  const auto rank = static_cast<std::size_t>(std::ranges::count(dimensions, ',') + 1);
  if (static_cast<std::size_t>(view.rank) != rank) {
    return with_hint(invalid("{}: {} is {}; it must have rank {} {}", op, name, view.describe(), rank, dimensions),
                     std::string(way_out));
  }
  RIDGE_CHECK_OK(check_memory(op, name, view));
  if (view.element_count() == 0) return ok_status();
  const std::size_t last = rank - 1;
  std::array<std::size_t, kMaxRank> all{};
  const std::span<std::size_t> order = std::span(all).first(last);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t d) { return view.stride[d]; });
  std::int64_t needed = view.shape[last];
  bool right = view.shape[last] == 1 || view.stride[last] == 1;
  for (const std::size_t d : order) {
    if (view.shape[d] == 1) continue;
    right = right && view.stride[d] >= needed;
    needed += (view.shape[d] - 1) * view.stride[d];
  }
  if (right) return ok_status();
  return with_hint(invalid("{}: {} is {} with strides [{}]; rows of {} elements must be contiguous and apart", op, name,
                           view.describe(), fmt::join(std::span(view.stride).first(rank), ", "), view.shape[last]),
                   std::string(way_out));
}

Status check_heads_layout(std::string_view op, std::string_view name, const TensorView& view) {
  return check_interleaved_layout(op, name, view, "[batch, length, heads, dim]",
                                  "give a view of rank 4 whose last dimension is contiguous, or copy it");
}

bool has_shape(const TensorView& view, DType dtype, std::span<const std::int64_t> shape) {
  const auto found = sizes(view);
  return view.dtype == dtype && std::equal(found.begin(), found.end(), shape.begin(), shape.end());
}

Status check_shape(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                   std::span<const std::int64_t> shape, std::string_view way_out) {
  if (has_shape(view, dtype, shape)) return ok_status();
  return with_hint(
      invalid("{}: {} is {}; it must be {} [{}]", op, name, view.describe(), to_string(dtype), fmt::join(shape, ", ")),
      std::string(way_out));
}

Status check_like_x(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                    std::span<const std::int64_t> shape) {
  RIDGE_CHECK_OK(
      check_shape(op, name, view, dtype, shape, [&] { return fmt::format("give {} the shape and dtype of x", name); }));
  return check_layout(op, name, view, 2, "give a row-major matrix");
}

Status check_per_row(std::string_view op, std::string_view name, const TensorView& view, DType dtype,
                     std::int64_t rows) {
  const std::int64_t shape[] = {rows};
  RIDGE_CHECK_OK(check_shape(op, name, view, dtype, shape, "one number for each row"));
  return check_layout(op, name, view, 1, "give a contiguous vector");
}

bool overlap(const TensorView& x, const TensorView& y) {
  const Extent a = extent(x), b = extent(y);
  if (a.begin >= b.end || b.begin >= a.end) return false;
  return a.begin <= b.begin ? !side_by_side(x, y, b.begin - a.begin) : !side_by_side(y, x, a.begin - b.begin);
}

Status check_apart(std::string_view op, const NamedView& output, std::initializer_list<NamedView> others) {
  for (const NamedView& other : others) {
    if (!overlap(*output.view, *other.view)) continue;
    return with_hint(invalid("{}: {} is {}, {} is {}: {} overlaps {}", op, output.name, output.view->describe(),
                             other.name, other.view->describe(), output.name, other.name),
                     fmt::format("give {} memory of its own", output.name));
  }
  return ok_status();
}

TensorView dense_view(const OperandSpec& spec, void* data) {
  TensorView view;
  view.data = data;
  view.dtype = spec.dtype;
  view.rank = static_cast<int>(spec.shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    view.shape[d] = spec.shape[d];
    view.stride[d] = stride;
    stride *= spec.shape[d];
  }
  return view;
}

}  // namespace ridge::ops
