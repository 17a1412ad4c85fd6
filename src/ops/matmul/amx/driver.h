// Blocking, packing and threads around the matrix unit of x86 (AMX) for bf16.
#pragma once

#include <string>

#include "ops/matmul/simd/driver.h"

namespace ridge::ops::matmul::amx {

// Why this process cannot use the matrix unit; empty: it can. The first call asks the operating system for it.
const std::string& unusable();

// As simd::run: false when there is no memory, and the same order of every sum whatever `threads` is. bf16 only.
bool run(const simd::Arguments& arguments, int threads);

}  // namespace ridge::ops::matmul::amx
