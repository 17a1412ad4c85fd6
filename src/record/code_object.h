// The metadata of an AMD code object, the resources of every kernel: MessagePack in its note, YAML in assembly text.
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
// The same of the YAML that compilers write between .amdgpu_metadata and .end_amdgpu_metadata: a list of kernels, each
// with its keys in lines of their own. Lines that are not understood are left.
Result<CodeObjectMetadata> read_code_object_text(std::string_view text);

}  // namespace ridge::record
