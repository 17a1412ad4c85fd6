// A kernel of the library for CPUs that describes itself: one file src/ops/<op>/cpu_<idea>.cpp with the interface of a
// candidate (ridge/candidate.h) and a comment ridge-kernel (record/kernel_description.h). cmake/ridge_ops.cmake builds
// each of its configurations and lists them; there is no other code to write, and campaigns start from the same file.
//
// What it may not rely on, although a candidate may: that data starts on 64 bytes. What it may keep between calls, as a
// candidate may, is kept once: calls of one configuration run one after the other.
#pragma once

#include <span>
#include <string_view>

#include "ops/op.h"
#include "ridge/candidate.h"

namespace ridge::ops {

// One configuration as the build made it.
struct KernelEntry {
  std::string_view name;
  int (*call)(const ridge_call*);
};

// `source` is the text of the file. What its ridge-scope leaves out is refused with the reason; of its configurations
// those run whose instructions the processor has, by its own choice the first of them.
Implementation cpu_kernel(std::string_view name, std::string_view source, std::span<const KernelEntry> entries);

}  // namespace ridge::ops
