// A 64-bit little-endian ELF file, read without trusting it: every offset is checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::inspect {

inline constexpr std::uint16_t kMachineX86 = 62, kMachineCuda = 190, kMachineAmdgpu = 224;

struct Section {
  std::string_view name;
  std::uint32_t type = 0, link = 0, info = 0;
  std::uint64_t flags = 0, size = 0;
  std::string_view data;  // empty for a section without content in the file
};

struct Symbol {
  std::string_view name;
  std::uint8_t info = 0;
  std::uint16_t section = 0;
  std::uint64_t value = 0, size = 0;
  [[nodiscard]] bool is_function() const { return (info & 0xf) == 2; }
};

// Views into the bytes it was parsed from, which must outlive it.
struct Elf {
  std::uint16_t machine = 0;
  std::uint8_t abi_version = 0;
  std::uint32_t flags = 0;
  std::vector<Section> sections;
  std::vector<Symbol> symbols;

  [[nodiscard]] const Section* find(std::string_view name) const;
};

bool is_elf(std::string_view bytes);
Result<Elf> parse_elf(std::string_view bytes);

// Little-endian integers out of bytes; 0 behind the end.
std::uint32_t read_u16(std::string_view bytes, std::uint64_t offset);
std::uint32_t read_u32(std::string_view bytes, std::uint64_t offset);
std::uint64_t read_u64(std::string_view bytes, std::uint64_t offset);

}  // namespace ridge::inspect
