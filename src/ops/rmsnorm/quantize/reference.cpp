// The definition: codes and scales of what rmsnorm's row model gives, with its errors. On a GPU sum and rstd are
// checked by that model, and the codes by the products of the two as they are stored.
#include "ops/coding/device_check.h"
#include "ops/rmsnorm/quantize/quantize.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/rmsnorm/row_model.cuh"
#include "ops/rmsnorm/quantize/row_model.cuh"
// clang-format on

namespace ridge::ops::rmsnorm_quantize {
namespace {

// Of sum and rstd, or of y as output 0.
rows::Model<rmsnorm::RowModel> model_of(const Problem& problem, const Arguments& arguments, bool of_y) {
  rows::Places place(problem, rows::kApart);
  place("x", rows::kRow);
  const rows::i64 residual = place("residual", rows::kRow), weight = place("weight", rows::kShared),
                  sum = place.output("sum", of_y ? rows::kApart : rows::kRow),
                  rstd = place.output("rstd", of_y ? rows::kApart : rows::kScalar);
  return rows::model(
      std::move(place.reads),
      rmsnorm::RowModel{rows::format_of(problem.operands[0].dtype), arguments.scalar(problem, row_norm::kEps).real(),
                        residual, weight, is_zero_centred(problem) ? 1 : 0, of_y ? -1 : sum, of_y ? -1 : rstd});
}
auto model_of_statistics(const Problem& problem, const Arguments& arguments) {
  return model_of(problem, arguments, false);
}

auto model_of_products(const Problem& problem, const Arguments&) {
  rows::Places place(problem, rows::kApart);
  const rows::i64 input = place(has_residual(problem) ? "sum" : "x", rows::kRow), rstd = place("rstd", rows::kScalar),
                  weight = place("weight", rows::kShared);
  return rows::model(std::move(place.reads), RowModel{input, rstd, weight, is_zero_centred(problem) ? 1 : 0});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_TRY(outputs, rows::reference<model_of_statistics>(problem, arguments));
  const coding::Coding coding = coding_of(problem);
  RIDGE_TRY(y, coding::numbers_of(problem, arguments.operands, model_of(problem, arguments, true), coding.cols));
  RIDGE_TRY(coded, coding::reference_of(problem, arguments.operands, coding, y));
  outputs.resize(outputs.size() - coded.size());
  for (ReferenceOutput& one : coded) outputs.push_back(std::move(one));
  return outputs;
}

std::shared_ptr<const DeviceCheck> device_check() {
  return coding::device_check<model_of_products, coding_of>(
      {"ops/rmsnorm/quantize/row_model.cuh"}, "rmsnorm_quantize::RowModel",
      rows::device_check<model_of_statistics>({"ops/rmsnorm/row_model.cuh"}, "rmsnorm::RowModel"), {"sum", "rstd"});
}

}  // namespace ridge::ops::rmsnorm_quantize
