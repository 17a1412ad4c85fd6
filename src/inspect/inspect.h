// Everything `ridge inspect` says about a file: resources of its kernels, what their instructions are for, per kernel
// and per loop, how many blocks a compute unit holds, and what stands out. No GPU, and for resources no disassembler.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hardware/spec.h"
#include "record/inspection.h"

namespace ridge::inspect {

struct Options {
  std::string kernel;                       // only kernels whose name contains it
  const hardware::Spec* product = nullptr;  // occupancy on it
  std::int64_t threads_per_block = 0;       // 0: what the kernel declares
  std::int64_t dynamic_shared_bytes = 0;
  bool expect_matrix = false;  // the matrix units must be used, whatever the kernel is called
  bool listing = true;         // disassemble where a tool is found
  bool assembly = false;       // keep every instruction; without a tool that is an error
};

// One inspection per image: a fat binary holds one for each architecture.
Result<std::vector<record::Inspection>> inspect_file(const std::filesystem::path& file, const Options& options);
Result<std::vector<record::Inspection>> inspect_bytes(std::string_view bytes, const std::string& name,
                                                      const Options& options);

// Instructions, classes and resources in which two inspections differ, kernel by kernel. Kernels are paired by name;
// when each side has one kernel, those two are.
std::vector<record::InstructionDifference> difference(const record::Inspection& left, const record::Inspection& right);

}  // namespace ridge::inspect
