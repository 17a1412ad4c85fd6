// Counting a listing.
#pragma once

#include "inspect/listing.h"
#include "record/inspection.h"

namespace ridge::inspect {

record::InstructionCounts count(Isa isa, const Function& function, std::size_t first, std::size_t last);

// Fills counts, opcodes and loops of `kernel` from the function.
void count_kernel(Isa isa, const Function& function, record::KernelInspection& kernel);

}  // namespace ridge::inspect
