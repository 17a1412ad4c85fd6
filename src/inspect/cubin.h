// Resources of the kernels in a cubin, from the ELF itself: no disassembler, no driver, no GPU.
//
// Registers, frame and barriers are attributes in .nv.info; static shared memory is the size of .nv.shared.<kernel>,
// less the part that the system reserves from sm_90 on. Bytes of spilling are the widths of all STL and LDL
// instructions, read from the encoding: what ptxas calls "bytes spill stores" and "bytes spill loads" when a kernel has
// no local array.
#pragma once

#include <string>
#include <vector>

#include "inspect/elf.h"
#include "record/inspection.h"

namespace ridge::inspect {

struct CubinKernel {
  std::string name;
  record::KernelResources resources;
};

struct Cubin {
  int sm = 0;  // 90
  // "sm_90a": architecture-specific and family-specific targets keep their letter, as far as the file says it.
  std::string target;
  std::vector<CubinKernel> kernels;
};

Result<Cubin> read_cubin(const Elf& elf);

}  // namespace ridge::inspect
