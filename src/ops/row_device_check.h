// The checks of row models (ops/row_check.h) on a GPU: row_check.cu behind the model's own text.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/device_check.h"
#include "ops/row_check.h"

namespace ridge::ops::rows {

// A model of a call as a kernel gets it.
struct DeviceModel {
  std::vector<Reads> reads;
  std::vector<std::uint64_t> words;  // its members
  bool elementwise = false;
};
template <class Definition>
DeviceModel on_device(const Model<Definition>& model) {
  return {model.reads, CheckLaunch::words(model.definition), kElementwise<Definition>};
}

// The operands of a call as check kernels read them: Operands of row_operands.cuh.
std::vector<std::uint64_t> operands_on_device(const Problem& problem, std::span<const TensorView> operands,
                                              std::span<const Reads> reads);

using ModelOfCall = std::function<DeviceModel(const Problem&, const Arguments&)>;
// `files`: where the model stands among device_sources(), behind those that it uses; `type`: its name from namespace
// ridge::ops.
std::shared_ptr<const DeviceCheck> device_check_of(std::initializer_list<std::string_view> files, std::string_view type,
                                                   ModelOfCall model);

// For Operator::device_check, from the function that makes the model of a call. It is also asked without operands, for
// how the model reads them.
template <auto row_model>
std::shared_ptr<const DeviceCheck> device_check(std::initializer_list<std::string_view> files, std::string_view type) {
  const auto model = [](const Problem& problem, const Arguments& arguments) {
    return on_device(row_model(problem, arguments));
  };
  return device_check_of(files, type, model);
}

// Launches for a projection of an operator that moves rows, as check_moved_rows and check_same_rows do on the host:
// `source` holds an i64 for every row of `to`; `difference` is 8 bytes of zeros.
std::vector<CheckLaunch> moved_rows(const TensorView& to, const TensorView& from, const TensorView& source,
                                    void* result);
std::vector<CheckLaunch> same_rows(const TensorView& a, const TensorView& b, std::uint64_t seed, void* difference,
                                   void* result);

}  // namespace ridge::ops::rows
