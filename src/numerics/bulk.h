// Vectorised loops behind convert.h; internal. Bitwise equal to codec.h, and tested to be.
#pragma once

#include <cstdint>

#include "ridge/dtype.h"

namespace ridge::numerics::bulk {

// Nearest-even encoding of f32 to f16, bf16 or one of the 8-bit floats, or to E2M1 codes one per byte (not packed).
void encode(DType dtype, const float* in, void* out, std::int64_t n, bool saturate);
void decode_f16(const std::uint16_t* in, float* out, std::int64_t n);
void decode_bf16(const std::uint16_t* in, float* out, std::int64_t n);
const char* isa();

}  // namespace ridge::numerics::bulk
