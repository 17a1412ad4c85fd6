#include "inspect/cubin.h"

#include <cctype>
#include <map>

#include "base/error.h"

namespace ridge::inspect {
namespace {

// Attributes of .nv.info, and the forms of their values.
constexpr std::uint8_t kMaxThreads = 0x05, kRequiredThreads = 0x10, kFrameSize = 0x11, kRegisterCount = 0x2f,
                       kBarriers = 0x4c;
constexpr std::uint8_t kSizedValue = 4;
// Opcodes, in the low twelve bits of an instruction, and the field that holds the width of an access.
constexpr std::uint64_t kOpcodeMask = 0xfff, kLoadLocal = 0x983, kStoreLocal = 0x387, kInstructionBytes = 16;
constexpr std::int64_t kReservedShared = 1024;

struct Attribute {
  std::uint8_t kind = 0;
  std::uint32_t inline_value = 0;
  std::string_view value;
};

std::vector<Attribute> attributes(std::string_view data) {
  std::vector<Attribute> found;
  for (std::uint64_t at = 0; at + 4 <= data.size();) {
    Attribute attribute;
    attribute.kind = static_cast<std::uint8_t>(data[at + 1]);
    attribute.inline_value = read_u16(data, at + 2);
    const bool sized = static_cast<std::uint8_t>(data[at]) == kSizedValue;
    if (sized) attribute.value = data.substr(at + 4, attribute.inline_value);
    at += 4 + (sized ? attribute.inline_value : 0);
    found.push_back(attribute);
  }
  return found;
}

std::int64_t product_of_three(std::string_view value) {
  return static_cast<std::int64_t>(read_u32(value, 0)) * read_u32(value, 4) * read_u32(value, 8);
}

// 8, 8, 16, 16, 32, 64, 128 bits: the access width of a local load or store.
std::int64_t access_bytes(std::string_view instruction) {
  const std::uint64_t code = (read_u64(instruction, 8) >> 9) & 7;
  constexpr std::int64_t kBytes[] = {1, 1, 2, 2, 4, 8, 16, 0};
  return kBytes[code];
}

void count_spills(std::string_view code, record::KernelResources& resources) {
  std::int64_t stores = 0, loads = 0;
  for (std::uint64_t at = 0; at + kInstructionBytes <= code.size(); at += kInstructionBytes) {
    const std::string_view instruction = code.substr(at, kInstructionBytes);
    const std::uint64_t opcode = read_u64(instruction, 0) & kOpcodeMask;
    if (opcode == kStoreLocal) stores += access_bytes(instruction);
    if (opcode == kLoadLocal) loads += access_bytes(instruction);
  }
  resources.spill_store_bytes = stores;
  resources.spill_load_bytes = loads;
}

void read_global_info(const Elf& elf, std::map<std::string_view, record::KernelResources>& kernels) {
  const Section* info = elf.find(".nv.info");
  if (info == nullptr) return;
  for (const Attribute& a : attributes(info->data)) {
    if (a.value.size() < 8 || (a.kind != kRegisterCount && a.kind != kFrameSize)) continue;
    const std::uint32_t symbol = read_u32(a.value, 0);
    if (symbol >= elf.symbols.size()) continue;
    const auto kernel = kernels.find(elf.symbols[symbol].name);
    if (kernel == kernels.end()) continue;
    (a.kind == kRegisterCount ? kernel->second.registers : kernel->second.stack_bytes) = read_u32(a.value, 4);
  }
}

void read_kernel_info(const Section& info, record::KernelResources& resources) {
  resources.barriers = 0;
  for (const Attribute& a : attributes(info.data)) {
    if (a.kind == kBarriers)
      resources.barriers = a.inline_value >> 8 != 0 ? a.inline_value >> 8 : a.inline_value & 0xff;
    if ((a.kind == kMaxThreads || a.kind == kRequiredThreads) && a.value.size() >= 12) {
      resources.max_threads = product_of_three(a.value);
    }
  }
}

// The target with its letter: the note .note.nv.tkinfo of newer assemblers holds their arguments ("-arch sm_90a"), and
// the flags of older files (ELF ABI below 8) mark architecture-specific code.
std::string target_of(const Elf& elf, int sm) {
  const std::string number = fmt::format("sm_{}", sm);
  if (const Section* note = elf.find(".note.nv.tkinfo"); note != nullptr) {
    const std::string argument = "-arch " + number;
    if (const std::size_t at = note->data.find(argument); at != std::string_view::npos) {
      const std::string_view rest = note->data.substr(at + argument.size());
      const bool ends = rest.size() < 2 || std::isalnum(static_cast<unsigned char>(rest[1])) == 0;
      if ((rest.starts_with("a") || rest.starts_with("f")) && ends) return number + rest.front();
    }
  }
  constexpr std::uint32_t kAccelerators = 0x800;
  return number + (elf.abi_version < 8 && (elf.flags & kAccelerators) != 0 ? "a" : "");
}

}  // namespace

Result<Cubin> read_cubin(const Elf& elf) {
  if (elf.machine != kMachineCuda) return invalid("an ELF file of machine {}, not a cubin", elf.machine);
  Cubin cubin;
  cubin.sm = static_cast<int>(elf.abi_version >= 8 ? (elf.flags >> 8) & 0xff : elf.flags & 0xff);
  cubin.target = target_of(elf, cubin.sm);
  std::map<std::string_view, record::KernelResources> kernels;
  constexpr std::string_view kText = ".text.", kShared = ".nv.shared.", kInfo = ".nv.info.";
  for (const Section& section : elf.sections) {
    if (!section.name.starts_with(kText)) continue;
    record::KernelResources& resources = kernels[section.name.substr(kText.size())];
    resources.code_bytes = static_cast<std::int64_t>(section.data.size());
    resources.shared_bytes = 0;
    count_spills(section.data, resources);
  }
  for (const Section& section : elf.sections) {
    if (section.name.starts_with(kShared)) {
      const auto kernel = kernels.find(section.name.substr(kShared.size()));
      const std::int64_t reserved = cubin.sm >= 90 ? kReservedShared : 0;
      if (kernel != kernels.end())
        kernel->second.shared_bytes = std::max<std::int64_t>(0, static_cast<std::int64_t>(section.size) - reserved);
    } else if (section.name.starts_with(kInfo)) {
      const auto kernel = kernels.find(section.name.substr(kInfo.size()));
      if (kernel != kernels.end()) read_kernel_info(section, kernel->second);
    }
  }
  read_global_info(elf, kernels);
  for (auto& [name, resources] : kernels) cubin.kernels.push_back({std::string(name), std::move(resources)});
  return cubin;
}

}  // namespace ridge::inspect
