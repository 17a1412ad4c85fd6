#include "ops/row_device_check.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"

namespace ridge::ops::rows {
namespace {

using Argument = CheckLaunch::Argument;

constexpr std::size_t kMostOperands = 16;  // of row_check.cu
constexpr std::int64_t kThreads = 256, kStrip = 32;
constexpr std::int64_t kMostBlocks = 132 * 16;               // of a loop over rows: enough to fill any GPU
constexpr std::int64_t kShortRow = 2048;                     // up to it a warp has a row, above it a block
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 32;  // elements or pieces that are counted in 32 bits

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::uint32_t blocks(std::int64_t count, std::int64_t each) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(count, each), 1, kMostBlocks));
}

// Operands of row_check.cu.
struct Table {
  std::array<DeviceMatrix, kMostOperands> input{}, output{};
  std::array<std::int64_t, kMostOperands> reads{};
  std::array<Format, kMostOperands> format{};
  std::array<std::int64_t, kMostOperands> outputs{};
  std::int64_t output_count = 0, rows = 0, columns = 0;
};

// What is read by its place in a vector is one row, unless its rows have gaps.
DeviceMatrix as_vector(DeviceMatrix matrix) {
  if (matrix.pitch != matrix.columns && matrix.rows > 1) return matrix;
  matrix.columns *= matrix.rows;
  matrix.pitch = matrix.columns;
  matrix.rows = 1;
  return matrix;
}

Table table_of(const Problem& problem, std::span<const TensorView> operands, std::span<const Reads> how) {
  Table table;
  std::size_t old = problem.operands.size();
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const OperandSpec& spec = problem.operands[i];
    const Reads reads = how[i];
    const auto matrix = [&](const TensorView& view) {
      return reads == kRow ? device_matrix(view) : as_vector(device_matrix(view));
    };
    table.reads[i] = reads;
    if (spec.output) {
      table.output[i] = matrix(operands[i]);
      table.format[i] = format_of(spec.dtype);
      table.outputs[static_cast<std::size_t>(table.output_count++)] = static_cast<std::int64_t>(i);
    } else {
      table.input[i] = matrix(operands[i]);
    }
    if (spec.read_write) table.input[i] = matrix(operands[old++]);
    if (reads != kRow) continue;
    const DeviceMatrix whole = device_matrix(operands[i]);
    table.rows = std::max(table.rows, whole.rows);
    table.columns = std::max(table.columns, whole.columns);
  }
  if (table.columns == 0) table.rows = 0;
  return table;
}

class Plan {
 public:
  Plan(const Problem& problem, std::span<const TensorView> operands, DeviceModel model)
      : model_(std::move(model)),
        table_(table_of(problem, operands, model_.reads)),
        words_(CheckLaunch::words(table_)) {}

  [[nodiscard]] const Table& table() const { return table_; }
  [[nodiscard]] bool empty() const { return table_.rows == 0; }
  [[nodiscard]] Argument model() const { return model_.words; }
  [[nodiscard]] Argument operands() const { return words_; }
  // Threads that share a row.
  [[nodiscard]] std::int64_t lanes() const { return model_.elementwise || table_.columns <= kShortRow ? 32 : kThreads; }
  // Rows, or pieces of them.
  [[nodiscard]] std::int64_t units() const {
    return table_.rows * (model_.elementwise ? ceil_div(table_.columns, kPiece) : 1);
  }
  [[nodiscard]] CheckLaunch sums(std::int64_t output, double* value, double* error, double* variance) const {
    return {"rows_sums",
            static_cast<std::uint32_t>(ceil_div(table_.rows, kStrip)),
            1,
            static_cast<std::uint32_t>(kThreads),
            {model(), operands(), CheckLaunch::number(output), CheckLaunch::pointer(value), CheckLaunch::pointer(error),
             CheckLaunch::pointer(variance)}};
  }

 private:
  DeviceModel model_;
  Table table_;
  std::vector<std::uint64_t> words_;
};

// Two numbers for every output, then three for every column of a sum.
constexpr std::size_t kTallies = 2 * kMostOperands;

std::int64_t columns_of(const Problem& problem, std::span<const Reads> reads) {
  std::int64_t columns = 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const std::vector<std::int64_t>& shape = problem.operands[i].shape;
    if (reads[i] == kRow) columns = std::max(columns, shape.empty() ? 1 : shape.back());
  }
  return columns;
}

class RowDeviceCheck {
 public:
  explicit RowDeviceCheck(ModelOfCall model) : model_(std::move(model)) {}

  [[nodiscard]] Refusal refuses(const Problem& problem) const {
    if (problem.operands.size() > kMostOperands) return "a row check on a GPU reads at most 16 operands";
    const std::vector<Reads> reads = reads_of(problem);
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      const OperandSpec& spec = problem.operands[i];
      if (reads[i] != kRow && spec.element_count() >= kMostPlaces) {
        return fmt::format("{} has {} elements; what does not go with the rows is counted in 32 bits", spec.name,
                           spec.element_count());
      }
      if (reads[i] == kRow && !spec.shape.empty() && spec.shape.back() > 0) {
        const std::int64_t columns = spec.shape.back(), rows = spec.element_count() / columns;
        if (rows * ceil_div(columns, kPiece) >= kMostPlaces)
          return fmt::format("{} has more pieces of {} columns than are counted in 32 bits", spec.name, kPiece);
      }
      if (!spec.output) continue;
      if (reads[i] == kApart || is_integer(spec.dtype)) {
        return fmt::format("{} is no number of the row model: checked on a processor only", spec.name);
      }
      if (reads[i] == kSum && spec.shape.size() != 1) {
        return fmt::format("{} has {} dimensions; column sums are a vector", spec.name, spec.shape.size());
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::size_t scratch_bytes(const Problem& problem) const {
    const std::vector<Reads> reads = reads_of(problem);
    const auto sums = static_cast<std::size_t>(std::count(reads.begin(), reads.end(), kSum));
    return (kTallies + 3 * sums * static_cast<std::size_t>(columns_of(problem, reads))) * sizeof(double);
  }

  [[nodiscard]] std::vector<CheckLaunch> projection(const DeviceCheck::ProjectionRequest& request) const {
    const Plan plan(request.problem, request.operands, model_(request.problem, {request.operands, request.scalars}));
    if (plan.empty()) return {};
    const Table& table = plan.table();
    auto* const tallies = static_cast<double*>(request.scratch);
    const Argument result = CheckLaunch::pointer(request.result);
    std::vector<CheckLaunch> launches;
    launches.push_back({"rows_elements",
                        blocks(plan.units(), kThreads / plan.lanes()),
                        1,
                        static_cast<std::uint32_t>(kThreads),
                        {plan.model(), plan.operands(), CheckLaunch::number(plan.lanes()), request.seed,
                         CheckLaunch::pointer(tallies), result}});
    double* next = tallies + kTallies;
    for (std::int64_t o = 0; o < table.output_count; ++o) {
      if (table.reads[static_cast<std::size_t>(table.outputs[static_cast<std::size_t>(o)])] != kSum) continue;
      double *const value = next, *const error = value + table.columns, *const variance = error + table.columns;
      next = variance + table.columns;
      launches.push_back(plan.sums(o, value, error, variance));
      launches.push_back(
          {"rows_sums_judge",
           blocks(table.columns, kThreads),
           1,
           static_cast<std::uint32_t>(kThreads),
           {plan.operands(), CheckLaunch::number(o), CheckLaunch::pointer(value), CheckLaunch::pointer(error),
            CheckLaunch::pointer(variance), CheckLaunch::pointer(tallies), result}});
    }
    launches.push_back(
        {"rows_conclude", 1, 1, 32, {CheckLaunch::pointer(tallies), CheckLaunch::number(table.output_count), result}});
    return launches;
  }

  [[nodiscard]] std::vector<CheckLaunch> reference(const DeviceCheck::ReferenceRequest& request) const {
    const Plan plan(request.problem, request.operands, model_(request.problem, {request.operands, request.scalars}));
    if (plan.empty()) return {};
    const Table& table = plan.table();
    std::int64_t output = 0;
    while (table.outputs[static_cast<std::size_t>(output)] != static_cast<std::int64_t>(request.output)) ++output;
    const std::int64_t reads = table.reads[request.output], columns = table.columns;
    if (reads == kSum) {
      std::vector<CheckLaunch> launches;
      for (double* array : {request.value, request.allowed, request.variance}) {
        launches.push_back({"rows_clear",
                            blocks(columns, kThreads),
                            1,
                            static_cast<std::uint32_t>(kThreads),
                            {CheckLaunch::pointer(array), CheckLaunch::number(columns)}});
      }
      launches.push_back(plan.sums(output, request.value, request.allowed, request.variance));
      launches.push_back({"rows_sums_reference",
                          blocks(columns, kThreads),
                          1,
                          static_cast<std::uint32_t>(kThreads),
                          {plan.operands(), CheckLaunch::number(output), CheckLaunch::pointer(request.value),
                           CheckLaunch::pointer(request.allowed), CheckLaunch::pointer(request.variance),
                           CheckLaunch::pointer(request.shift)}});
      return launches;
    }
    // Rows of one element each are counted along the output's own rows.
    const std::int64_t width = reads == kScalar ? 1 : columns;
    const std::int64_t per_row = reads == kScalar ? device_matrix(request.operands[request.output]).columns : 1;
    const std::int64_t first = request.first * per_row, count = request.count * per_row;
    return {{"rows_reference",
             blocks(count, kThreads / plan.lanes()),
             1,
             static_cast<std::uint32_t>(kThreads),
             {plan.model(), plan.operands(), CheckLaunch::number(output), CheckLaunch::number(first),
              CheckLaunch::number(count), CheckLaunch::number(width), CheckLaunch::number(plan.lanes()),
              CheckLaunch::pointer(request.value), CheckLaunch::pointer(request.allowed),
              CheckLaunch::pointer(request.variance), CheckLaunch::pointer(request.shift)}}};
  }

 private:
  // How a model reads does not depend on where operands lie.
  [[nodiscard]] std::vector<Reads> reads_of(const Problem& problem) const { return model_(problem, {}).reads; }
  ModelOfCall model_;
};

Argument width_of(const TensorView& view) { return CheckLaunch::number(size_bits(view.dtype) / 8); }

}  // namespace

std::vector<std::uint64_t> operands_on_device(const Problem& problem, std::span<const TensorView> operands,
                                              std::span<const Reads> reads) {
  return CheckLaunch::words(table_of(problem, operands, reads));
}

std::shared_ptr<const DeviceCheck> device_check_of(std::initializer_list<std::string_view> files, std::string_view type,
                                                   ModelOfCall model) {
  const auto rows = std::make_shared<const RowDeviceCheck>(std::move(model));
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/row_numbers.cuh", "ops/row_operands.cuh"});
  for (const std::string_view file : files) check->source += source_of(file);
  check->source += fmt::format("\n#define RIDGE_ROW_MODEL ridge::ops::{}\n", type);
  check->source += source_of("ops/row_check.cu");
  check->refuses = [rows](const Problem& problem) { return rows->refuses(problem); };
  check->scratch_bytes = [rows](const Problem& problem) { return rows->scratch_bytes(problem); };
  check->projection = [rows](const DeviceCheck::ProjectionRequest& request) { return rows->projection(request); };
  check->reference = [rows](const DeviceCheck::ReferenceRequest& request) { return rows->reference(request); };
  return check;
}

std::vector<CheckLaunch> moved_rows(const TensorView& to, const TensorView& from, const TensorView& source,
                                    void* result) {
  const DeviceMatrix matrix = device_matrix(to);
  if (matrix.rows * matrix.columns == 0) return {};
  return {
      {"rows_moved",
       blocks(matrix.rows, kThreads / 32),
       1,
       static_cast<std::uint32_t>(kThreads),
       {matrix, device_matrix(from), CheckLaunch::pointer(source.data), width_of(to), CheckLaunch::pointer(result)}}};
}

std::vector<CheckLaunch> same_rows(const TensorView& a, const TensorView& b, std::uint64_t seed, void* difference,
                                   void* result) {
  const DeviceMatrix matrix = device_matrix(a);
  if (matrix.rows * matrix.columns == 0) return {};
  return {{"rows_kept",
           blocks(matrix.rows, kThreads / 32),
           1,
           static_cast<std::uint32_t>(kThreads),
           {matrix, device_matrix(b), width_of(a), seed, CheckLaunch::pointer(difference)}},
          {"rows_kept_judge", 1, 1, 32, {CheckLaunch::pointer(difference), CheckLaunch::pointer(result)}}};
}

}  // namespace ridge::ops::rows
