// The row model of a step, for the references of adamw and of what codes its weights.
#pragma once

#include <utility>

#include "ops/adamw/adamw.h"
#include "ops/row_device_check.h"
// clang-format off
#include "ops/adamw/row_model.cuh"
// clang-format on

namespace ridge::ops::adamw {

// `others`: how the operands that are none of adamw's meet the rows.
inline rows::Model<RowModel> model_of(const Problem& problem, const Arguments& arguments, const Form& form,
                                      rows::Reads others) {
  rows::Places place(problem, others);
  place("grad", rows::kRow), place("exp_avg", rows::kRow), place("exp_avg_sq", rows::kRow);
  const rows::i64 factor = place("factor", rows::kShared), skip = place("skip", rows::kShared),
                  param = place("param", rows::kRow), master = place("master", rows::kRow);
  const Constants c = constants_of(problem, arguments);
  return rows::model(std::move(place.reads), RowModel{c.decay, c.first, c.kept, c.second, c.step, c.root, c.eps, factor,
                                                      skip, param, master < 0 ? param : master, form.maximize ? 1 : 0});
}

}  // namespace ridge::ops::adamw
