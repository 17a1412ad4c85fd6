// Machine code to text, by the public tools where they are installed.
#pragma once

#include <string>
#include <string_view>

#include "inspect/listing.h"
#include "ridge/result.h"

namespace ridge::inspect {

struct Disassembly {
  std::string text, tool;  // tool: "nvdisasm", with its path
};

// `bytes` is a cubin, an AMD code object or an x86 object, as `isa` says. The error (kUnsupported) names the tools that
// were looked for: nvdisasm, cuobjdump; llvm-objdump; objdump. Looked for in PATH, in CUDA_HOME/bin,
// /usr/local/cuda/bin, and among installed Python packages, where PyPI's nvidia-cuda-nvdisasm puts it: of the active
// virtual environment, of .venv beside or above this program or the current folder, of python3 in PATH, and of the
// user.
Result<Disassembly> disassemble(Isa isa, std::string_view bytes);

}  // namespace ridge::inspect
