#include "inspect/amdgpu.h"

#include <algorithm>

#include "base/error.h"
#include "inspect/msgpack.h"

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

std::optional<std::int64_t> integer(const PackedValue& kernel, const char* key) {
  const PackedValue* value = kernel.find(key);
  return value != nullptr && value->kind == PackedValue::Kind::kInteger ? std::optional(value->integer) : std::nullopt;
}

std::string text(const PackedValue& value, const char* key) {
  const PackedValue* found = value.find(key);
  return found != nullptr ? found->text : std::string();
}

AmdKernel kernel_of(const PackedValue& value) {
  AmdKernel kernel;
  kernel.name = text(value, ".name");
  record::KernelResources& r = kernel.resources;
  // .vgpr_count counts vector and accumulation registers of the unified file together.
  r.registers = integer(value, ".vgpr_count");
  r.accumulation_registers = integer(value, ".agpr_count");
  if (r.registers && r.accumulation_registers) r.vector_registers = *r.registers - *r.accumulation_registers;
  r.scalar_registers = integer(value, ".sgpr_count");
  r.shared_bytes = integer(value, ".group_segment_fixed_size");
  r.stack_bytes = integer(value, ".private_segment_fixed_size");
  const auto vector_spills = integer(value, ".vgpr_spill_count"), scalar_spills = integer(value, ".sgpr_spill_count");
  if (vector_spills || scalar_spills) r.spilled_registers = vector_spills.value_or(0) + scalar_spills.value_or(0);
  r.max_threads = integer(value, ".max_flat_workgroup_size");
  kernel.wavefront_size = integer(value, ".wavefront_size").value_or(64);
  return kernel;
}

}  // namespace

Result<AmdCodeObject> read_amdgpu(const Elf& elf) {
  if (elf.machine != kMachineAmdgpu) return invalid("an ELF file of machine {}, not an AMD code object", elf.machine);
  const std::string_view note = metadata(elf);
  if (note.empty()) return Error{ErrorCode::kCorrupt, "the code object has no metadata note", {}};
  RIDGE_TRY(root, parse_msgpack(note));
  AmdCodeObject object;
  const std::string target = text(root, "amdhsa.target");  // "amdgcn-amd-amdhsa--gfx942"
  object.target = target.substr(std::min(target.rfind('-') + 1, target.size()));
  const PackedValue* kernels = root.find("amdhsa.kernels");
  if (kernels == nullptr) return Error{ErrorCode::kCorrupt, "the metadata names no kernels", {}};
  for (const PackedValue& kernel : kernels->array) object.kernels.push_back(kernel_of(kernel));
  for (AmdKernel& kernel : object.kernels) {
    for (const Symbol& symbol : elf.symbols) {
      if (symbol.is_function() && symbol.name == kernel.name)
        kernel.resources.code_bytes = static_cast<std::int64_t>(symbol.size);
    }
  }
  return object;
}

}  // namespace ridge::inspect
