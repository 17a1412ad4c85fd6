// Counting a listing.
#pragma once

#include "inspect/listing.h"
#include "record/inspection.h"

namespace ridge::inspect {

record::InstructionCounts count(Isa isa, const Function& function, std::size_t first, std::size_t last);

// Fills counts, opcodes and loops of `kernel` from the function.
void count_kernel(Isa isa, const Function& function, record::KernelInspection& kernel);

// Every instruction of the function with its class and the loops around it.
std::vector<record::AssemblyLine> assembly_of(Isa isa, const Function& function);

}  // namespace ridge::inspect
