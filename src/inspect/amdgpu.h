// Resources of the kernels in an AMD code object, from its metadata note: no disassembler, no driver, no GPU.
#pragma once

#include <string>
#include <vector>

#include "inspect/elf.h"
#include "record/inspection.h"

namespace ridge::inspect {

struct AmdKernel {
  std::string name;
  record::KernelResources resources;
  std::int64_t wavefront_size = 64;
};

struct AmdCodeObject {
  std::string target;  // "gfx942"
  std::vector<AmdKernel> kernels;
};

Result<AmdCodeObject> read_amdgpu(const Elf& elf);
// The same of assembly text, from the metadata in it; kNotFound when it has none.
Result<AmdCodeObject> read_amdgpu_text(std::string_view assembly);

}  // namespace ridge::inspect
