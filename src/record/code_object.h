// The metadata note of an AMD code object: MessagePack with the resources of every kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct CodeObjectKernel {
  std::string name;
  std::optional<std::int64_t> vector_registers;  // accumulation registers of a unified file included
  std::optional<std::int64_t> accumulation_registers, scalar_registers;
  std::optional<std::int64_t> shared_bytes, stack_bytes;
  std::optional<std::int64_t> spilled_vector_registers, spilled_scalar_registers;
  std::optional<std::int64_t> max_threads, wavefront_size;
};

struct CodeObjectMetadata {
  std::string target;  // "amdgcn-amd-amdhsa--gfx942"
  std::vector<CodeObjectKernel> kernels;
};

// kCorrupt when the bytes are no MessagePack or name no kernels; a key that is missing or of another type stays empty.
Result<CodeObjectMetadata> read_code_object_metadata(std::string_view note);

}  // namespace ridge::record
