// The definition: what adamw's row model gives, and codes and scales of its weights as they are stored. The checks
// after a launch hold the codes against the stored weights themselves, which are exact.
#include "ops/adamw/model.h"
#include "ops/adamw/quantize/quantize.h"
#include "ops/coding/device_check.h"
// clang-format off
#include "ops/adamw/quantize/row_model.cuh"
// clang-format on

namespace ridge::ops::adamw_quantize {
namespace {

auto model_of_step(const Problem& problem, const Arguments& arguments) {
  return adamw::model_of(problem, arguments, form_of(problem), rows::kApart);
}

auto model_of_weights(const Problem& problem, const Arguments&) {
  rows::Places place(problem, rows::kApart);
  const rows::i64 weights = place(form_of(problem).master ? "master" : "param", rows::kRow);
  return rows::model(std::move(place.reads), RowModel{weights});
}

// The new weight as it is stored. Where it is rounded to 16 bits, it may be either of two numbers.
struct NewWeight {
  adamw::RowModel step;
  int output;
  rows::Format stored;

  static constexpr int kStatistics = 0;

  template <class Row>
  rows::Number element(const Row& row, const rows::Number* none, int, rows::i64 column) const {
    const rows::Number p = step.element(row, none, output, column);
    if (stored.is_f32 != 0 || !rows::is_finite(p.value)) return p;
    const double low = stored.round(p.value - p.error), high = stored.round(p.value + p.error);
    if (low == high) return {low};
    // Around its own value and not between both, which is zero where they differ in sign: a zero counts as exact.
    const double off = rows::most_of(high - p.value, p.value - low);
    return {p.value, off, off * off};
  }
};

rows::Model<NewWeight> model_of_new_weight(const Problem& problem, const Arguments& arguments) {
  rows::Model<adamw::RowModel> step = model_of_step(problem, arguments);
  const adamw::Form form = form_of(problem);
  const rows::Format format = rows::format_of(problem.operands[weights_of(problem)].dtype);
  return rows::model(std::move(step.reads), NewWeight{step.definition, form.master ? 3 : 0, format});
}

// After a launch: what was there before it is behind the operands.
Result<std::vector<ReferenceOutput>> reference_after(const Problem& problem, const Arguments& arguments) {
  std::vector<TensorView> before(arguments.operands.begin(), arguments.operands.begin() + std::ssize(problem.operands));
  std::size_t old = problem.operands.size();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (problem.operands[i].read_write) before[i] = arguments[old++];
  }
  return reference(problem, {before, arguments.scalars});
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  RIDGE_TRY(outputs, rows::reference<model_of_step>(problem, arguments));
  const coding::Coding coding = coding_of(problem);
  RIDGE_TRY(weights,
            coding::numbers_of(problem, arguments.operands, model_of_new_weight(problem, arguments), coding.cols));
  RIDGE_TRY(coded, coding::reference_of(problem, arguments.operands, coding, weights));
  outputs.resize(outputs.size() - coded.size());
  for (ReferenceOutput& one : coded) outputs.push_back(std::move(one));
  return outputs;
}

Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  RIDGE_TRY(step, rows::spot_check<model_of_step>(problem, arguments, seed));
  RIDGE_TRY(all, spot_check_by_reference(problem, arguments, reference_after));
  SpotCheck& worse = all.residual / all.allowed > step.residual / step.allowed ? all : step;
  worse.finite = step.finite && all.finite;
  return std::move(worse);
}

std::shared_ptr<const DeviceCheck> device_check() {
  return coding::device_check<model_of_weights, coding_of>(
      {"ops/adamw/quantize/row_model.cuh"}, "adamw_quantize::RowModel",
      rows::device_check<model_of_step>({"ops/adamw/row_model.cuh"}, "adamw::RowModel"),
      {"param", "exp_avg", "exp_avg_sq", "master"});
}

}  // namespace ridge::ops::adamw_quantize
