#include "inspect/elf.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::inspect {
namespace {

constexpr std::uint32_t kSymbolTable = 2, kNoBits = 8;
constexpr std::uint64_t kSectionEntry = 64, kSymbolEntry = 24;

Error damaged_elf(std::string_view what) {
  return Error{ErrorCode::kCorrupt, fmt::format("the ELF file is damaged: {}", what), {}};
}

std::string_view text_at(std::string_view table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest = table.substr(offset);
  return rest.substr(0, std::min(rest.find('\0'), rest.size()));
}

std::uint64_t read(std::string_view bytes, std::uint64_t offset, int width) {
  if (offset > bytes.size() || bytes.size() - offset < static_cast<std::uint64_t>(width)) return 0;
  std::uint64_t value = 0;
  for (int i = width - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[offset + static_cast<std::uint64_t>(i)]);
  return value;
}

void read_symbols(const Section& table, std::string_view names, std::vector<Symbol>& symbols) {
  for (std::uint64_t at = 0; at + kSymbolEntry <= table.data.size(); at += kSymbolEntry) {
    Symbol symbol;
    symbol.name = text_at(names, read_u32(table.data, at));
    symbol.info = static_cast<std::uint8_t>(read(table.data, at + 4, 1));
    symbol.section = static_cast<std::uint16_t>(read_u16(table.data, at + 6));
    symbol.value = read_u64(table.data, at + 8);
    symbol.size = read_u64(table.data, at + 16);
    symbols.push_back(symbol);
  }
}

}  // namespace

std::uint32_t read_u16(std::string_view bytes, std::uint64_t offset) {
  return static_cast<std::uint32_t>(read(bytes, offset, 2));
}
std::uint32_t read_u32(std::string_view bytes, std::uint64_t offset) {
  return static_cast<std::uint32_t>(read(bytes, offset, 4));
}
std::uint64_t read_u64(std::string_view bytes, std::uint64_t offset) { return read(bytes, offset, 8); }

bool is_elf(std::string_view bytes) {
  return bytes.starts_with(
      "\x7f"
      "ELF");
}

const Section* Elf::find(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

Result<Elf> parse_elf(std::string_view bytes) {
  if (!is_elf(bytes) || bytes.size() < 64) return invalid("not an ELF file");
  if (bytes[4] != 2 || bytes[5] != 1) return invalid("not a 64-bit little-endian ELF file");
  Elf elf;
  elf.abi_version = static_cast<std::uint8_t>(bytes[8]);
  elf.machine = static_cast<std::uint16_t>(read_u16(bytes, 18));
  elf.flags = read_u32(bytes, 48);
  const std::uint64_t table = read_u64(bytes, 40);
  const std::uint64_t entry = read_u16(bytes, 58), count = read_u16(bytes, 60), names = read_u16(bytes, 62);
  if (count > 0 && entry != kSectionEntry) return damaged_elf("unexpected size of section headers");
  if (table > bytes.size() || (bytes.size() - table) / kSectionEntry < count)
    return damaged_elf("the section headers lie outside of the file");
  std::vector<std::uint32_t> name_offsets;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = table + i * kSectionEntry;
    Section section;
    name_offsets.push_back(read_u32(bytes, at));
    section.type = read_u32(bytes, at + 4);
    section.flags = read_u64(bytes, at + 8);
    section.size = read_u64(bytes, at + 32);
    section.link = read_u32(bytes, at + 40);
    section.info = read_u32(bytes, at + 44);
    const std::uint64_t offset = read_u64(bytes, at + 24);
    if (section.type != kNoBits && section.type != 0) {
      if (offset > bytes.size() || bytes.size() - offset < section.size)
        return damaged_elf("a section lies outside of the file");
      section.data = bytes.substr(offset, section.size);
    }
    elf.sections.push_back(section);
  }
  if (names < elf.sections.size()) {
    for (std::size_t i = 0; i < elf.sections.size(); ++i)
      elf.sections[i].name = text_at(elf.sections[names].data, name_offsets[i]);
  }
  for (const Section& section : elf.sections) {
    if (section.type == kSymbolTable && section.link < elf.sections.size()) {
      read_symbols(section, elf.sections[section.link].data, elf.symbols);
    }
  }
  return elf;
}

}  // namespace ridge::inspect
