#include "ops/device_check.h"

#include <algorithm>

#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {
namespace {

using Argument = CheckLaunch::Argument;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::uint32_t blocks(std::int64_t count) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(count, 256), 1, 1 << 16));
}
Argument number(std::int64_t value) { return CheckLaunch::number(value); }
Argument granularity_of(const Shape& s) { return number(static_cast<std::int64_t>(s.granularity)); }
Argument rule_of(const Shape& s) { return number(static_cast<std::int64_t>(s.rule)); }
Argument format_of(const Shape& s) { return number(static_cast<std::int64_t>(s.format)); }

// Groups of a copy of rows x cols.
std::int64_t group_count(const Shape& s, std::int64_t rows, std::int64_t cols) {
  std::int64_t count = 1;
  for (const std::int64_t extent : scale_shape(s.granularity, rows, cols)) count *= extent;
  return count;
}

// A part of x; groups are those of this part.
struct Part {
  std::int64_t row0 = 0, row_end = 0, col0 = 0, col_end = 0;
};
// The same part named by rows and columns of a copy.
Part part_of(bool transposed, Part copy) {
  return transposed ? Part{copy.col0, copy.col_end, copy.row0, copy.row_end} : copy;
}

void find_groups(const TensorView& x, const Shape& s, const Part& part, void* as_is, void* transposed,
                 std::vector<CheckLaunch>& launches) {
  const std::int64_t rows = part.row_end - part.row0, cols = part.col_end - part.col0;
  for (const bool turned : {false, true}) {
    void* const groups = turned ? transposed : as_is;
    const std::int64_t count = turned ? group_count(s, cols, rows) : group_count(s, rows, cols);
    if (groups == nullptr || count == 0) continue;
    launches.push_back({"quantize_clear", blocks(count), 1, 256, {CheckLaunch::pointer(groups), number(count)}});
  }
  if (rows == 0 || cols == 0) return;
  launches.push_back(
      {"quantize_amax",
       static_cast<std::uint32_t>(ceil_div(rows, 32) * ceil_div(cols, 32)),
       1,
       256,
       {device_matrix(x), number(part.row0), number(part.row_end), number(part.col0), number(part.col_end),
        granularity_of(s), CheckLaunch::pointer(as_is), CheckLaunch::pointer(transposed)}});
}

// A scale that is made of a given largest magnitude: over that of x, unless it is 0. A tensor is one group.
void take_given(const Problem& problem, std::span<const TensorView> operands, void* groups,
                std::vector<CheckLaunch>& launches) {
  if (!shape_of(problem).given) return;
  launches.push_back({"quantize_given",
                      1,
                      1,
                      32,
                      {CheckLaunch::pointer(operand(problem, operands, "amax").data), CheckLaunch::pointer(groups)}});
}

// The largest magnitude of x, infinity where it holds what is not finite, to a word that holds 0.
void find_largest(const TensorView& x, void* word, std::vector<CheckLaunch>& launches) {
  const std::int64_t count = x.shape[0] * x.shape[1];
  launches.push_back({"quantize_clear", 1, 1, 256, {CheckLaunch::pointer(word), number(1)}});
  if (count == 0) return;
  launches.push_back({"quantize_largest", blocks(count), 1, 256, {device_matrix(x), CheckLaunch::pointer(word)}});
}

// Groups of both copies, one after the other, and the largest magnitude of x.
std::size_t scratch_bytes(const Problem& problem) {
  const Shape s = shape_of(problem);
  return sizeof(std::uint32_t) *
         static_cast<std::size_t>(group_count(s, s.rows, s.cols) + group_count(s, s.cols, s.rows) + 1);
}

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const Shape s = shape_of(request.problem);
  const std::vector<Copy> copies = copies_of(s);
  auto* const words = static_cast<std::uint32_t*>(request.scratch);
  std::uint32_t* groups[2] = {};
  DeviceMatrix codes[2];
  for (const Copy& copy : copies) {
    groups[copy.transposed] = words + (copy.transposed ? group_count(s, s.rows, s.cols) : 0);
    codes[copy.transposed] = device_matrix(request.operands[copy.q]);
  }
  const TensorView& x = request.operands[0];
  std::vector<CheckLaunch> launches;
  find_groups(x, s, {0, s.rows, 0, s.cols}, groups[0], groups[1], launches);
  if (s.given) {
    std::uint32_t* const largest = words + group_count(s, s.rows, s.cols) + group_count(s, s.cols, s.rows);
    find_largest(x, largest, launches);
    launches.push_back({"quantize_found",
                        1,
                        1,
                        32,
                        {CheckLaunch::pointer(request.operands.back().data), CheckLaunch::pointer(largest),
                         CheckLaunch::pointer(request.result)}});
  }
  for (const Copy& copy : copies) {
    take_given(request.problem, request.operands, groups[copy.transposed], launches);
    const DeviceMatrix scale = device_matrix(request.operands[copy.q + 1]);
    if (scale.rows * scale.columns == 0) continue;
    launches.push_back({"quantize_scales",
                        blocks(scale.rows * scale.columns),
                        1,
                        256,
                        {scale, CheckLaunch::pointer(groups[copy.transposed]), rule_of(s), format_of(s),
                         CheckLaunch::pointer(request.result)}});
  }
  if (s.rows == 0 || s.cols == 0) return launches;
  launches.push_back(
      {"quantize_codes",
       static_cast<std::uint32_t>(ceil_div(s.rows, 32) * ceil_div(s.cols, 32)),
       1,
       256,
       {device_matrix(x), codes[0], codes[1], CheckLaunch::pointer(groups[0]), CheckLaunch::pointer(groups[1]),
        granularity_of(s), rule_of(s), number(s.stochastic ? 1 : 0), CheckLaunch::pointer(request.result)}});
  return launches;
}

// The part of a copy whose groups decide about rows first .. first + count of its codes.
Part groups_of_codes(const Shape& s, std::int64_t rows, std::int64_t cols, std::int64_t first, std::int64_t count) {
  if (s.granularity == Granularity::kTensor) return {0, rows, 0, cols};
  if (s.granularity != Granularity::kBlock) return {first, first + count, 0, cols};
  return {first / kScaleBlock * kScaleBlock, std::min(rows, ceil_div(first + count, kScaleBlock) * kScaleBlock), 0,
          cols};
}
// The same for rows of its scales, as device_matrix folds them: a vector is one row.
Part groups_of_scales(const Shape& s, std::int64_t rows, std::int64_t cols, std::int64_t first, std::int64_t count) {
  switch (s.granularity) {
    case Granularity::kTensor:
    case Granularity::kRow: return {0, rows, 0, cols};
    case Granularity::kBlock: return {first * kScaleBlock, std::min(rows, (first + count) * kScaleBlock), 0, cols};
    case Granularity::kVector: return {0, rows, first * kScaleBlock, std::min(cols, (first + count) * kScaleBlock)};
    case Granularity::kMx: return {0, rows, first * kMxBlock, std::min(cols, (first + count) * kMxBlock)};
  }
  return {};
}

// Of the output `found`.
std::vector<CheckLaunch> reference_of_found(const DeviceCheck::ReferenceRequest& request) {
  std::vector<CheckLaunch> launches;
  find_largest(request.operands[0], request.shift, launches);
  launches.push_back({"quantize_reference_found",
                      1,
                      1,
                      32,
                      {CheckLaunch::pointer(request.shift), CheckLaunch::pointer(request.value),
                       CheckLaunch::pointer(request.allowed), CheckLaunch::pointer(request.variance)}});
  return launches;
}

// The memory for shifts holds the groups until they come last.
std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const Shape s = shape_of(request.problem);
  if (s.given && request.output + 1 == request.operands.size()) return reference_of_found(request);
  const std::vector<Copy> copies = copies_of(s);
  const auto copy = std::find_if(copies.begin(), copies.end(), [&](const Copy& one) {
    return request.output == one.q || request.output == one.q + 1;
  });
  const bool codes = request.output == copy->q, turned = copy->transposed;
  const std::int64_t rows = turned ? s.cols : s.rows, cols = turned ? s.rows : s.cols;
  const TensorView& x = request.operands[0];
  const DeviceMatrix output = device_matrix(request.operands[request.output]);
  const std::int64_t count = request.count * output.columns;
  const Part part = codes ? groups_of_codes(s, rows, cols, request.first, request.count)
                          : groups_of_scales(s, rows, cols, request.first, request.count);
  std::vector<CheckLaunch> launches;
  find_groups(x, s, part_of(turned, part), turned ? nullptr : request.shift, turned ? request.shift : nullptr,
              launches);
  take_given(request.problem, request.operands, request.shift, launches);
  const Argument groups = CheckLaunch::pointer(request.shift);
  const Argument value = CheckLaunch::pointer(request.value), allowed = CheckLaunch::pointer(request.allowed),
                 variance = CheckLaunch::pointer(request.variance);
  if (codes) {
    launches.push_back({"quantize_reference_codes",
                        blocks(count),
                        1,
                        256,
                        {device_matrix(x), number(turned ? 1 : 0), number(request.first), number(request.count),
                         number(part.row0), number(part.row_end - part.row0), groups, granularity_of(s), rule_of(s),
                         format_of(s), number(s.stochastic ? 1 : 0), value, allowed, variance}});
  } else {
    launches.push_back({"quantize_reference_scales",
                        blocks(count),
                        1,
                        256,
                        {groups, number(count), rule_of(s), format_of(s),
                         number(s.granularity == Granularity::kMx ? 1 : 0), value, allowed, variance}});
  }
  launches.push_back({"quantize_shifts",
                      blocks(count),
                      1,
                      256,
                      {allowed, number(count), number(s.stochastic && codes ? 1 : 0), groups}});
  return launches;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/quantize/device_check.cu"});
  check->scratch_bytes = scratch_bytes;
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::quantize
