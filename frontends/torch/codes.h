// What operators with a result in 8-bit codes ask of a call, and their outputs: quantize.cpp, grouped_quantize.cpp,
// activation_quantize.cpp, rmsnorm_quantize.cpp and adamw_quantize.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "convert.h"
#include "operators.h"
#include "ridge/scaling.h"

namespace ridge::torch_frontend::codes {

struct Coding {
  at::ScalarType format = at::kFloat8_e4m3fn;
  Granularity granularity = Granularity::kTensor;
  ScaleRule rule = ScaleRule::kExact;
  bool row = true, column = false;  // which copies are asked for
  const Tensor* random = nullptr;   // two words of 64 bits; null: round to nearest even
  // Rows of the first copy, where they are not those of the matrix.
  std::optional<c10::SymInt> plain_rows = std::nullopt;
  // Parts of the rows, for each of which a row of the transpose has a scale.
  std::optional<c10::SymInt> segments = std::nullopt;
};

Granularity granularity_of(std::string_view op, std::string_view name);
// Errors begin with `op`; `random` outlives what is returned.
Coding coding_of(std::string_view op, at::ScalarType format, std::string_view granularity, std::string_view rule,
                 bool row, bool column, const OptionalTensor& random);
// What is coded is made of a matrix that no wider number than float32 is in.
void check_matrix(const Tensor& x, std::string_view op, std::string_view name);

// Of a matrix [rows, cols] on the device of `like`; empty where a copy is not asked for.
Quantized empty_outputs(const Tensor& like, const c10::SymInt& rows, const c10::SymInt& cols, const Coding& coding);
Quantized allocated_outputs(const Tensor& like, std::int64_t rows, std::int64_t cols, const Coding& coding);

// The members of an operator's arguments that are about codes.
template <class Args>
void give(Args& args, const Coding& coding, const Quantized& out, std::string_view op) {
  args.granularity = coding.granularity;
  args.rule = coding.rule;
  if (coding.random != nullptr) args.random = static_cast<const std::uint64_t*>(coding.random->const_data_ptr());
  if (coding.row) {
    args.q = row_major_view(std::get<0>(out), op, "q");
    args.scale = dense_view(std::get<1>(out), op, "scale");
  }
  if (coding.column) {
    args.q_t = row_major_view(std::get<2>(out), op, "q_t");
    args.scale_t = dense_view(std::get<3>(out), op, "scale_t");
  }
}

}  // namespace ridge::torch_frontend::codes
