// The matrix unit of x86 processors (AMX), which the operating system gives to a process that asks for it.
#pragma once

#include <string>

namespace ridge::device::cpu {

// Why this process cannot multiply bf16 on the matrix unit; empty: it can. The first call asks for the unit.
const std::string& matrix_unit_missing();

}  // namespace ridge::device::cpu
