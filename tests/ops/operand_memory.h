// Memory for the operands of a problem, each dense.
#pragma once

#include <cstdint>
#include <vector>

#include "numerics/format.h"
#include "ops/op.h"

namespace ridge::testing {

struct OperandMemory {
  explicit OperandMemory(const ops::Problem& problem) {
    for (const ops::OperandSpec& spec : problem.operands) {
      memory.emplace_back(size_bytes(spec.dtype, spec.element_count()) + 64);
      TensorView view;
      view.data = memory.back().data();
      view.dtype = spec.dtype;
      view.rank = static_cast<int>(spec.shape.size());
      std::int64_t stride = 1;
      for (std::size_t d = spec.shape.size(); d-- > 0; stride *= spec.shape[d]) {
        view.shape[d] = spec.shape[d];
        view.stride[d] = stride;
      }
      views.push_back(view);
    }
  }
  std::vector<std::vector<unsigned char>> memory;
  std::vector<TensorView> views;
};

}  // namespace ridge::testing
