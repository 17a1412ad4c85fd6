#include "ops/matmul/values.h"

namespace ridge::ops::matmul {

void add_values(const ridge::cuda::GemmCase& g, Values& values) {
  const std::pair<const char*, std::int64_t> kNumbers[] = {
      {"m", g.m},
      {"n", g.n},
      {"k", g.k},
      {"type_a", static_cast<std::int64_t>(g.type_a)},
      {"type_b", static_cast<std::int64_t>(g.type_b)},
      {"type_c", static_cast<std::int64_t>(g.type_c)},
      {"size_a", ridge::cuda::bytes_of(g.type_a)},
      {"size_c", ridge::cuda::bytes_of(g.type_c)},
      {"a_mn_major", g.a_mn_major},
      {"b_mn_major", g.b_mn_major},
      {"accumulate", g.accumulate},
      {"promote", g.promote},
      {"scales", static_cast<std::int64_t>(g.scaling)},
      {"bias", g.bias},
      {"residual", g.residual},
      {"activation", static_cast<std::int64_t>(g.activation)},
      {"row_a", g.row_a()},
      {"row_b", g.row_b()},
      {"row_c", g.row_c()},
      {"row_residual", g.row_residual()},
      {"align_ab", g.base_alignment_ab},
      {"align_c", g.base_alignment_c},
      {"align_extra", g.base_alignment_extra},
      {"scale_stride_a", g.scale_stride_a},
      {"scale_stride_b", g.scale_stride_b},
      {"align_scale_a", g.alignment_scale_a},
      {"align_scale_b", g.alignment_scale_b},
  };
  for (const auto& [name, number] : kNumbers) values[name] = number;
  values.emplace("batch", 1);
}

}  // namespace ridge::ops::matmul
