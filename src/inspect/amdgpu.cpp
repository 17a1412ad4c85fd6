#include "inspect/amdgpu.h"

#include <algorithm>

#include "base/error.h"
#include "inspect/listing.h"
#include "record/code_object.h"

namespace ridge::inspect {
namespace {

constexpr std::uint32_t kNoteSection = 7, kMetadataNote = 32;

std::uint64_t aligned(std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; }

// The payload of the note "AMDGPU" of type 32, or empty.
std::string_view metadata(const Elf& elf) {
  for (const Section& section : elf.sections) {
    if (section.type != kNoteSection) continue;
    for (std::uint64_t at = 0; at + 12 <= section.data.size();) {
      const std::uint64_t name = read_u32(section.data, at), size = read_u32(section.data, at + 4);
      const std::uint64_t start = at + 12 + aligned(name);
      if (start > section.data.size() || size > section.data.size() - start) break;
      if (read_u32(section.data, at + 8) == kMetadataNote && section.data.substr(at + 12).starts_with("AMDGPU")) {
        return section.data.substr(start, size);
      }
      at = start + aligned(size);
    }
  }
  return {};
}

AmdKernel kernel_of(const record::CodeObjectKernel& noted) {
  AmdKernel kernel;
  kernel.name = noted.name;
  record::KernelResources& r = kernel.resources;
  r.registers = noted.vector_registers;
  r.accumulation_registers = noted.accumulation_registers;
  if (r.registers && r.accumulation_registers) r.vector_registers = *r.registers - *r.accumulation_registers;
  r.scalar_registers = noted.scalar_registers;
  r.shared_bytes = noted.shared_bytes;
  r.stack_bytes = noted.stack_bytes;
  if (noted.spilled_vector_registers || noted.spilled_scalar_registers) {
    r.spilled_registers = noted.spilled_vector_registers.value_or(0) + noted.spilled_scalar_registers.value_or(0);
  }
  r.max_threads = noted.max_threads;
  kernel.wavefront_size = noted.wavefront_size.value_or(64);
  return kernel;
}

AmdCodeObject object_of(const record::CodeObjectMetadata& metadata) {
  AmdCodeObject object;
  const std::string& target = metadata.target;
  object.target = target.substr(std::min(target.rfind('-') + 1, target.size()));
  for (const record::CodeObjectKernel& kernel : metadata.kernels) object.kernels.push_back(kernel_of(kernel));
  return object;
}

}  // namespace

Result<AmdCodeObject> read_amdgpu_text(std::string_view assembly) {
  const std::string_view text = amdgpu_metadata(assembly);
  if (text.empty()) return Error{ErrorCode::kNotFound, "the assembly has no metadata", {}};
  RIDGE_TRY(metadata_of, record::read_code_object_text(text));
  return object_of(metadata_of);
}

Result<AmdCodeObject> read_amdgpu(const Elf& elf) {
  if (elf.machine != kMachineAmdgpu) return invalid("an ELF file of machine {}, not an AMD code object", elf.machine);
  const std::string_view note = metadata(elf);
  if (note.empty()) return Error{ErrorCode::kCorrupt, "the code object has no metadata note", {}};
  RIDGE_TRY(metadata_of, record::read_code_object_metadata(note));
  AmdCodeObject object = object_of(metadata_of);
  for (AmdKernel& kernel : object.kernels) {
    for (const Symbol& symbol : elf.symbols) {
      if (symbol.is_function() && symbol.name == kernel.name)
        kernel.resources.code_bytes = static_cast<std::int64_t>(symbol.size);
    }
  }
  return object;
}

}  // namespace ridge::inspect
