// What an instruction is for, by the opcode table of its instruction set.
#pragma once

#include <string_view>

#include "inspect/listing.h"

namespace ridge::inspect {

// Classes, the same for every instruction set:
//   matrix                            matrix multiply-accumulate (HGMMA, QGMMA, HMMA, UTC*MMA, v_mfma, wgmma, AMX)
//   dot                               dot products of small vectors (v_dot, vdpbf16ps, vpdpbusd, IDP)
//   fma_f32 fma_f16 fma_f64           fused multiply-adds on lanes; fma_scalar on x86: on a single element
//   arithmetic                        other floating-point arithmetic      special      reciprocals, roots,
//   exponentials integer compare convert move scalar load_global store_global load_shared store_shared load_const
//   load_local store_local            spills, local arrays and scratch
//   async_copy async_store            copies that need no registers: TMA, cp.async, loads to LDS
//   atomic barrier wait control texture tensor_memory nop
//   unknown                           no row of the table
struct OpcodeClass {
  std::string_view name = "unknown";
  int width_bits = 0;  // of an access, per lane; 0: not an access, or it does not say
};

OpcodeClass classify(Isa isa, const Instruction& instruction);

}  // namespace ridge::inspect
