// Compiler evidence from the machine code itself: what the compiler did, not what it was asked to do.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ridge::toolchain {

// Counts over an `objdump -d --no-show-raw-insn` listing (x86-64, AT&T syntax) of a candidate's object file:
//   instructions                             all of them
//   fma_vector, fma_scalar                   fused multiply-adds on vectors and on single elements
//   fma_zmm, fma_ymm, fma_xmm                fma_vector by register width
//   dot_bf16                                 bf16 dot-product instructions
//   gather, scatter                          indexed vector loads and stores
//   vector_bits                              widest register of a vector FMA (else of any packed arithmetic); 0: none
//   stack_spill                              vector loads from and stores to the stack inside loops
//   loops                                    innermost loops found
//   hot_loop_instructions, hot_loop_fma, hot_loop_loads, hot_loop_stores, hot_loop_spill, hot_loop_registers
//                                            of the innermost loop with the most FMAs (else the most instructions);
//                                            registers are distinct vector registers
std::map<std::string, double> count_listing(std::string_view listing);

}  // namespace ridge::toolchain
