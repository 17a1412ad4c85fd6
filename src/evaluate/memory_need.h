// What a case needs of this machine's memory, asked before anything is allocated: an absurd shape is an answer with the
// bytes that were asked for and those that there are, and no process that dies.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/tasks.h"
#include "ops/op.h"

namespace ridge::evaluate {

// Bytes that programs can still take, without swapping.
double available_memory();
// Of all operands once; a double, because an absurd shape has more than an integer holds.
double operand_bytes(const ops::Problem& problem);

// How often the operands of a case are held at once.
inline constexpr double kCopiesToCall = 1;    // tuned or benchmarked
inline constexpr double kCopiesToVerify = 4;  // the arena, what was written, what came back, the reference

// "the operands take 192000000000000 bytes, of 8000000000 that are available"; nothing when they fit.
std::optional<std::string> too_large(const ops::Problem& problem, double copies);
// The first case that does not fit, as an error with the way out.
Status check_memory(const std::vector<ops::Problem>& problems, double copies);

// The same for the cases of a request that is verified on the processor; a GPU's operands lie elsewhere.
Status check_host_memory(const Job& job, const BoundCases& bound);

}  // namespace ridge::evaluate
