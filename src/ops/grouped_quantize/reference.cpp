// The definition: codes and scales of y as x and the offsets say, element by element.
#include "numerics/convert.h"
#include "ops/coding/device_check.h"
#include "ops/grouped_quantize/model.h"

namespace ridge::ops::grouped_quantize {
namespace {

// The operands of a call by their place, for the row model.
class Operands {
 public:
  explicit Operands(const Problem& problem, const Arguments& arguments) {
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      values_.push_back(problem.operands[i].output ? std::vector<double>() : numerics::to_doubles(arguments[i]));
    }
  }
  rows::Exact operator()(rows::i64 operand, rows::i64 place) const {
    return rows::Exact(values_[static_cast<std::size_t>(operand)][static_cast<std::size_t>(place)]);
  }

 private:
  std::vector<std::vector<double>> values_;
};

// m in row-major order, zeros in rows of no group.
std::vector<rows::Number> made_of(const Problem& problem, const Arguments& arguments,
                                  std::span<const std::int64_t> offsets) {
  const Shape s = shape_of(problem);
  const RowModel model = own_model(problem, arguments).definition;
  const Operands operands(problem, arguments);
  std::vector<rows::Number> made(static_cast<std::size_t>(s.rows * s.cols), rows::Number(0));
  for (std::int64_t row = offsets.front(); row < offsets.back(); ++row) {
    for (std::int64_t col = 0; col < s.cols; ++col) {
      made[static_cast<std::size_t>(row * s.cols + col)] =
          right_codes::in_fp32(model.made<rows::Number>(operands, row, col));
    }
  }
  return made;
}

// Rows of y in row-major order, and where its groups begin.
struct Padded {
  std::vector<rows::Number> y;
  ReferenceOutput offsets;
};

Padded padded_of(const Shape& s, std::span<const rows::Number> made, std::span<const std::int64_t> offsets) {
  Padded padded;
  padded.offsets.value.push_back(0);
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    padded.y.insert(padded.y.end(), made.begin() + offsets[g] * s.cols, made.begin() + offsets[g + 1] * s.cols);
    std::int64_t row = offsets[g + 1] - offsets[g];
    for (; row % s.align != 0; ++row) {
      padded.y.insert(padded.y.end(), static_cast<std::size_t>(s.cols), rows::Number(0));
    }
    padded.offsets.value.push_back(padded.offsets.value.back() + static_cast<double>(row));
  }
  padded.offsets.allowed.assign(padded.offsets.value.size(), 0.0);
  padded.offsets.ideal_square = padded.offsets.allowed;
  padded.y.resize(static_cast<std::size_t>(s.capacity * s.cols), rows::Number(0));
  return padded;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = read_offsets(arguments[kOffsetsOperand]);
  RIDGE_CHECK_OK(check_numbers(problem, arguments, offsets));
  const std::vector<rows::Number> made = made_of(problem, arguments, offsets);
  Padded padded = padded_of(s, made, offsets);
  std::vector<std::int64_t> ends(padded.offsets.value.begin() + 1, padded.offsets.value.end());
  ends.back() = s.capacity;  // zeros behind all groups change no scale
  std::vector<ReferenceOutput> outputs = {std::move(padded.offsets)};
  if (s.dprobs) {
    RIDGE_TRY(factors, rows::reference<factor_model>(problem, arguments));
    for (std::vector<double>* each : {&factors[1].value, &factors[1].allowed, &factors[1].ideal_square}) {
      each->resize(static_cast<std::size_t>(s.rows));  // of no columns there are no rows to a row model
    }
    outputs.push_back(std::move(factors[1]));
  }
  const auto append = [&](const coding::Coding& coding, std::span<const rows::Number> matrix) -> Status {
    RIDGE_TRY(coded, coding::reference_of(problem, arguments.operands, coding, matrix, ends));
    for (ReferenceOutput& each : coded) outputs.push_back(std::move(each));
    return ok_status();
  };
  if (s.own_rows) {
    RIDGE_CHECK_OK(append(own_coding_of(problem), made));
    RIDGE_CHECK_OK(append(transposed_coding_of(problem), padded.y));
  } else {
    RIDGE_CHECK_OK(append(coding_of(problem), padded.y));
  }
  return outputs;
}

}  // namespace ridge::ops::grouped_quantize
