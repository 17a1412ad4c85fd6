// The checks of coded copies: the reference on the host and what runs on a GPU, both from the row model of what is
// coded (ops/row_check.h) and one text about codes and scales (right_codes.cuh).
//
//   op.reference = coding::reference<row_model, coding_of>;
//   op.device_check = coding::device_check<row_model, coding_of>({"ops/.../row_model.cuh"}, "...::RowModel");
//
// Output 0 of the model is y, which may have more columns than what it is made of; outputs of the operator are
// Reads::kApart. On a GPU the model has no statistics.
#pragma once

#include <cmath>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/coding/coding.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/coding/right_codes.cuh"
// clang-format on

namespace ridge::ops::coding {

// The outputs from y [rows, cols] in row-major order; given_amax() may refuse. `segment_ends`: PanelSource's.
Result<std::vector<ReferenceOutput>> reference_of(const Problem& problem, std::span<const TensorView> operands,
                                                  const Coding& coding, std::span<const rows::Number> y,
                                                  std::span<const std::int64_t> segment_ends = {});

// y by its model, row by row, each of so many columns.
template <class Definition>
Result<std::vector<rows::Number>> numbers_of(const Problem& problem, std::span<const TensorView> operands,
                                             const rows::Model<Definition>& model, std::int64_t columns) {
  RIDGE_CHECK_OK(rows::Reader::takes(problem, model.reads));
  rows::Reader reader(problem, operands, model.reads, false);
  std::vector<rows::Number> y;
  if (reader.columns() == 0) return y;
  y.reserve(static_cast<std::size_t>(reader.rows() * columns));
  for (std::int64_t index = 0; index < reader.rows(); ++index) {
    const rows::Row& inputs = reader.inputs(index, 0, reader.columns());
    const rows::Statistics<Definition> statistics(model.definition, inputs);
    const rows::RowOf<rows::Number> row(inputs);
    for (std::int64_t j = 0; j < columns; ++j) {
      y.push_back(right_codes::in_fp32(model.definition.element(row, statistics.numbers.data(), 0, j)));
    }
  }
  return y;
}

template <auto row_model, auto coding_of>
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const Coding coding = coding_of(problem);
  RIDGE_TRY(y, numbers_of(problem, arguments.operands, row_model(problem, arguments), coding.cols));
  return reference_of(problem, arguments.operands, coding, y);
}

// `files`: where the model stands among device_sources(), behind those that it uses; `type`: its name from namespace
// ridge::ops. `others`: the check of the operator's outputs in
// front of the codes, of which the model reads `saved` as they were written; null: there are none.
std::shared_ptr<const DeviceCheck> device_check_of(std::initializer_list<std::string_view> files, std::string_view type,
                                                   rows::ModelOfCall model, Coding (*coding_of)(const Problem&),
                                                   std::shared_ptr<const DeviceCheck> others = nullptr,
                                                   std::vector<std::string> saved = {});
template <auto row_model, auto coding_of>
std::shared_ptr<const DeviceCheck> device_check(std::initializer_list<std::string_view> files, std::string_view type,
                                                std::shared_ptr<const DeviceCheck> others = nullptr,
                                                std::vector<std::string> saved = {}) {
  const auto model = [](const Problem& problem, const Arguments& arguments) {
    return rows::on_device(row_model(problem, arguments));
  };
  return device_check_of(files, type, model, coding_of, std::move(others), std::move(saved));
}

}  // namespace ridge::ops::coding
