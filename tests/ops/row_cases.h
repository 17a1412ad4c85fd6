// Problems with row models in host memory, and how their outputs can be wrong: for the tests that compare the host's
// check with the kernels', run on the host or on a GPU.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/convert.h"
#include "numerics/fill.h"
#include "ops/operand_memory.h"
#include "ops/row_device_check.h"
#include "ops/row_models.cuh"

namespace ridge::testing {

template <class Definition>
class RowCase {
 public:
  RowCase(ops::Problem problem, ops::rows::Model<Definition> model)
      : problem_(std::move(problem)), model_(std::move(model)), operands_(problem_) {}

  [[nodiscard]] const ops::Problem& problem() const { return problem_; }
  [[nodiscard]] const std::vector<TensorView>& views() const { return operands_.views; }
  // The model at `file` of device_sources().
  [[nodiscard]] std::shared_ptr<const ops::DeviceCheck> device_check(std::string_view file,
                                                                     std::string_view type) const {
    const ops::rows::Model<Definition> model = model_;
    return ops::rows::device_check_of(
        {file}, type, [model](const ops::Problem&, const ops::Arguments&) { return ops::rows::on_device(model); });
  }
  void fill(numerics::Family family, std::uint64_t seed) {
    for (std::size_t i = 0; i < operands_.views.size(); ++i) {
      if (!problem_.operands[i].output) numerics::fill(operands_.views[i], family, seed + i);
    }
  }
  [[nodiscard]] std::vector<ops::ReferenceOutput> reference() const {
    return *ops::rows::reference_of(problem_, operands_.views, model_);
  }
  // Outputs as the model's exact values, rounded: what no check may refuse.
  void compute() {
    const auto references = reference();
    std::size_t next = 0;
    for (std::size_t i = 0; i < operands_.views.size(); ++i) {
      if (problem_.operands[i].output) numerics::from_doubles(references[next++].value, operands_.views[i]);
    }
  }
  [[nodiscard]] double value(std::size_t operand, std::int64_t at) const {
    return numerics::load_element(operands_.views[operand], at);
  }
  void set(std::size_t operand, std::int64_t at, double value) {
    numerics::store_element(operands_.views[operand], at, value);
  }
  [[nodiscard]] bool right_on_host() const {
    const auto found = *ops::rows::check(problem_, operands_.views, model_, 3);
    return found.finite && found.residual <= 1;
  }

 private:
  ops::Problem problem_;
  ops::rows::Model<Definition> model_;
  OperandMemory operands_;
};

// As src/evaluate/cuda/output_verifier.cpp judges a projection.
inline bool right_by(const ops::ProjectionResult& seen) {
  const double worst = std::bit_cast<float>(static_cast<std::uint32_t>(seen.worst >> 32));
  const double mean = seen.count > 0 ? seen.square_sum / seen.count : 0;
  return worst <= 1 && mean <= 4 * (1 + 8 / std::sqrt(std::max(seen.count, 1.0))) && seen.not_finite == 0;
}

using NormCase = RowCase<ops::row_models::Norm>;
inline NormCase norm_case(std::int64_t rows, std::int64_t columns, DType dtype) {
  using namespace ops::rows;
  ops::Problem problem;
  problem.problem_case.op = "norm";
  problem.operands = {{"x", dtype, {rows, columns}, false, false},
                      {"weight", dtype, {columns}, false, false},
                      {"y", dtype, {rows, columns}, true, false},
                      {"rstd", DType::kF32, {rows}, true, false}};
  return {problem, model({kRow, kShared, kRow, kScalar}, ops::row_models::Norm{1e-6})};
}

struct RowMutant {
  const char* name;
  std::function<void()> make;
};
// What may be wrong with the outputs of `one`; `other` holds those of other inputs.
inline std::vector<RowMutant> norm_mutants(NormCase& one, NormCase& other) {
  const std::int64_t rows = one.problem().operands[0].shape[0], columns = one.problem().operands[0].shape[1];
  const auto row = [&one, columns](std::int64_t index, double factor) {
    for (std::int64_t j = 0; j < columns; ++j)
      one.set(2, index * columns + j, factor * one.value(2, index * columns + j));
  };
  const auto element = [&one](std::int64_t at) { one.set(2, at, 1.02 * one.value(2, at) + 0.01); };
  return {{"one element", [=] { element(5 * columns + columns / 2); }},
          {"the first element", [=] { element(0); }},
          {"the last element", [=] { element(rows * columns - 1); }},
          {"a statistic", [&one] { one.set(3, 4, 1.001 * one.value(3, 4)); }},
          {"a row with a wrong statistic", [=] { row(9, 1.02); }},
          {"the last row left out", [=] { row(rows - 1, 0); }},
          {"the last column left out",
           [=, &one] {
             for (std::int64_t i = 1; i <= rows; ++i) one.set(2, i * columns - 1, 0);
           }},
          {"the output of another launch",
           [=, &one, &other] {
             for (std::int64_t e = 0; e < rows * columns; ++e) one.set(2, e, other.value(2, e));
           }},
          {"a NaN", [=, &one] { one.set(2, 11 * columns, std::nan("")); }},
          {"an infinite statistic", [&one] { one.set(3, 2, HUGE_VAL); }},
          {"two rows swapped", [=, &one] {
             for (std::int64_t j = 0; j < columns; ++j) {
               const double kept = one.value(2, j);
               one.set(2, j, one.value(2, 3 * columns + j));
               one.set(2, 3 * columns + j, kept);
             }
           }}};
}

// Both gradients of the norm, one of them a column sum.
inline RowCase<ops::row_models::NormBackward> norm_backward_case(std::int64_t rows, std::int64_t columns) {
  using namespace ops::rows;
  ops::Problem problem;
  problem.problem_case.op = "norm_backward";
  problem.operands = {
      {"dy", DType::kBf16, {rows, columns}, false, false}, {"x", DType::kBf16, {rows, columns}, false, false},
      {"weight", DType::kBf16, {columns}, false, false},   {"rstd", DType::kF32, {rows}, false, false},
      {"dx", DType::kBf16, {rows, columns}, true, false},  {"dweight", DType::kF32, {columns}, true, false}};
  return {problem, model({kRow, kRow, kShared, kScalar, kRow, kSum}, ops::row_models::NormBackward{1})};
}
// Leaves the term of the last row out of one sum.
inline void drop_a_term(RowCase<ops::row_models::NormBackward>& one) {
  const std::int64_t rows = one.problem().operands[0].shape[0], columns = one.problem().operands[0].shape[1];
  const std::int64_t column = columns / 3, last = (rows - 1) * columns + column;
  one.set(5, column, one.value(5, column) - one.value(0, last) * one.value(1, last) * one.value(3, rows - 1));
}

}  // namespace ridge::testing
