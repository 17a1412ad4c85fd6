// The checks of coded copies: the reference on the host and what runs on a GPU, both from the row model of what is
// coded (ops/row_check.h) and one text about codes and scales (right_codes.cuh).
//
//   op.reference = coding::reference<row_model, coding_of>;
//   op.device_check = coding::device_check<row_model, coding_of>("ops/.../row_model.cuh", "...::RowModel");
//
// The model is elementwise, its output 0 is y; inputs are read by rows or one per row, outputs are Reads::kApart.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/coding/coding.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/coding/right_codes.cuh"
// clang-format on

namespace ridge::ops::coding {

// The outputs from y [rows, cols] in row-major order; given_amax() may refuse.
Result<std::vector<ReferenceOutput>> reference_of(const Problem& problem, std::span<const TensorView> operands,
                                                  const Coding& coding, std::span<const rows::Number> y);

template <class Definition>
Result<std::vector<rows::Number>> numbers_of(const Problem& problem, std::span<const TensorView> operands,
                                             const rows::Model<Definition>& model) {
  static_assert(rows::kElementwise<Definition>);
  RIDGE_CHECK_OK(rows::Reader::takes(problem, model.reads));
  rows::Reader reader(problem, operands, model.reads, false);
  std::vector<rows::Number> y;
  if (reader.columns() == 0) return y;
  y.reserve(static_cast<std::size_t>(reader.rows() * reader.columns()));
  for (std::int64_t index = 0; index < reader.rows(); ++index) {
    const rows::RowOf<rows::Number> row(reader.inputs(index, 0, reader.columns()));
    for (std::int64_t j = 0; j < reader.columns(); ++j) {
      const rows::Number* const no_statistics = nullptr;
      y.push_back(right_codes::in_fp32(model.definition.element(row, no_statistics, 0, j)));
    }
  }
  return y;
}

template <auto row_model, auto coding_of>
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_TRY(y, numbers_of(problem, arguments.operands, row_model(problem, arguments)));
  return reference_of(problem, arguments.operands, coding_of(problem), y);
}

// `file` and `type`: of the model, as rows::device_check takes them.
std::shared_ptr<const DeviceCheck> device_check_of(std::string_view file, std::string_view type,
                                                   rows::ModelOfCall model, Coding (*coding_of)(const Problem&));
template <auto row_model, auto coding_of>
std::shared_ptr<const DeviceCheck> device_check(std::string_view file, std::string_view type) {
  const auto model = [](const Problem& problem, const Arguments& arguments) {
    return rows::on_device(row_model(problem, arguments));
  };
  return device_check_of(file, type, model, coding_of);
}

}  // namespace ridge::ops::coding
