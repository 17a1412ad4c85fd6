#include "evaluate/artifact.h"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "evaluate/artifact_imports.h"
#include "toolchain/build.h"

namespace ridge::evaluate {
namespace {

using Refusal = std::optional<std::string>;

constexpr std::string_view kNoConstructors =
    "nothing of a kernel runs while it is loaded: make it a static variable inside the function that uses it, or do "
    "the "
    "work in the first call";

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? text.get() : symbol;
}

struct Section {
  std::uint64_t type = 0, offset = 0, bytes = 0, address = 0, link = 0;
};

struct Symbol {
  std::string name;
  unsigned type = 0;
  bool defined = false;
  std::uint64_t value = 0, bytes = 0;
  std::size_t index = 0;
};

struct Relocation {
  std::uint64_t at = 0, type = 0, symbol = 0;
  std::int64_t addend = 0;
};

class Image {
 public:
  explicit Image(std::string bytes) : bytes_(std::move(bytes)) {}

  Refusal refuse() {
    if (!read_headers()) return "the built object is no shared object of this machine that can be read";
    if (Refusal why = refuse_segments()) return why;
    if (!read_dynamic()) return "the built object has no dynamic section that can be read";
    for (const auto& look : {&Image::refuse_constructors, &Image::refuse_dependencies, &Image::refuse_relocations,
                             &Image::refuse_symbols}) {
      if (Refusal why = (this->*look)()) return why;
    }
    return std::nullopt;
  }

 private:
  template <class T>
  bool read(std::uint64_t offset, T& out) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof out) return false;
    std::memcpy(&out, bytes_.data() + offset, sizeof out);
    return true;
  }

  [[nodiscard]] std::string text_at(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return {};
    const std::size_t end = bytes_.find('\0', offset);
    return end == std::string::npos ? std::string() : bytes_.substr(offset, end - offset);
  }

  // Where the loader puts the bytes of the file that it maps there.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    return std::nullopt;
  }

  bool read_headers() {
    if (!read(0, header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return false;
    const bool known = header_.e_machine == EM_X86_64 || header_.e_machine == EM_AARCH64;
    if (!known || header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_type != ET_DYN) return false;
    if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_shentsize != sizeof(Elf64_Shdr)) return false;
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr segment;
      if (!read(header_.e_phoff + i * sizeof segment, segment)) return false;
      segments_.push_back(segment);
    }
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      Elf64_Shdr section;
      if (!read(header_.e_shoff + i * sizeof section, section)) return false;
      sections_.push_back({section.sh_type, section.sh_offset, section.sh_size, section.sh_addr, section.sh_link});
    }
    return true;
  }

  [[nodiscard]] Refusal refuse_segments() const {
    bool stack = false;
    for (const Elf64_Phdr& segment : segments_) {
      const bool runs = (segment.p_flags & PF_X) != 0;
      if (segment.p_type == PT_LOAD && runs && (segment.p_flags & PF_W) != 0) {
        return "a part of it is both writable and executable; leave the flags of sections to the compiler";
      }
      if (segment.p_type != PT_GNU_STACK) continue;
      stack = true;
      if (runs) return "it asks for an executable stack; leave .note.GNU-stack and trampolines of nested functions out";
    }
    if (!stack) return "it does not say that its stack is not executable; leave .note.GNU-stack to the compiler";
    return std::nullopt;
  }

  bool read_dynamic() {
    const auto is_dynamic = [](const Elf64_Phdr& segment) { return segment.p_type == PT_DYNAMIC; };
    if (std::ranges::count_if(segments_, is_dynamic) != 1) return false;
    const Elf64_Phdr& segment = *std::ranges::find_if(segments_, is_dynamic);
    const auto first = offset_of(segment.p_vaddr);
    if (!first) return false;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_memsz; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry;
      if (!read(*first + at, entry)) return false;
      if (entry.d_tag == DT_NULL) break;
      dynamic_.push_back(entry);
    }
    const auto strings = offset_of(value_of(DT_STRTAB)), symbols = offset_of(value_of(DT_SYMTAB));
    if (!strings || !symbols) return false;
    strings_ = *strings;
    // How many symbols there are is in the section headers only; they must speak of the table that the loader uses.
    const auto table = std::ranges::find(sections_, static_cast<std::uint64_t>(SHT_DYNSYM), &Section::type);
    if (table == sections_.end() || table->address != value_of(DT_SYMTAB)) return false;
    return read_symbols(*symbols, table->bytes, strings_, dynamic_symbols_) && read_relocations();
  }

  [[nodiscard]] bool has(std::int64_t tag) const {
    return std::ranges::any_of(dynamic_, [tag](const Elf64_Dyn& entry) { return entry.d_tag == tag; });
  }
  // The last one, as for the loader.
  [[nodiscard]] std::uint64_t value_of(std::int64_t tag) const {
    std::uint64_t value = 0;
    for (const Elf64_Dyn& entry : dynamic_) {
      if (entry.d_tag == tag) value = entry.d_un.d_val;
    }
    return value;
  }

  bool read_symbols(std::uint64_t offset, std::uint64_t bytes, std::uint64_t strings, std::vector<Symbol>& into) const {
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= bytes; at += sizeof(Elf64_Sym)) {
      Elf64_Sym one;
      if (!read(offset + at, one)) return false;
      into.push_back({text_at(strings + one.st_name), ELF64_ST_TYPE(one.st_info), one.st_shndx != SHN_UNDEF,
                      one.st_value, one.st_size, into.size()});
    }
    return true;
  }

  bool read_relocations() {
    const std::pair<std::int64_t, std::int64_t> tables[] = {{DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}};
    for (const auto& [table, size] : tables) {
      if (!has(table)) continue;
      const auto first = offset_of(value_of(table));
      if (!first) return false;
      for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= value_of(size); at += sizeof(Elf64_Rela)) {
        Elf64_Rela one;
        if (!read(*first + at, one)) return false;
        relocations_.push_back({one.r_offset, ELF64_R_TYPE(one.r_info), ELF64_R_SYM(one.r_info), one.r_addend});
      }
    }
    return !has(DT_REL);
  }

  // The function at an address, from the full symbol table; for messages only.
  [[nodiscard]] std::string function_at(std::uint64_t address) const {
    for (const Section& section : sections_) {
      if (section.type != SHT_SYMTAB || section.link >= sections_.size()) continue;
      std::vector<Symbol> symbols;
      if (!read_symbols(section.offset, section.bytes, sections_[section.link].offset, symbols)) break;
      for (const Symbol& symbol : symbols) {
        const bool inside =
            address >= symbol.value && address - symbol.value < std::max<std::uint64_t>(symbol.bytes, 1);
        if (symbol.type == STT_FUNC && symbol.defined && inside) return readable(symbol.name);
      }
    }
    return fmt::format("a function at 0x{:x}", address);
  }

  // What a slot of an array of functions points to once it is relocated.
  [[nodiscard]] std::string function_in(std::uint64_t slot) const {
    for (const Relocation& one : relocations_) {
      if (one.at != slot) continue;
      const std::uint64_t base = one.symbol < dynamic_symbols_.size() ? dynamic_symbols_[one.symbol].value : 0;
      return function_at(base + static_cast<std::uint64_t>(one.addend));
    }
    return "an unknown function";
  }

  [[nodiscard]] Refusal refuse_constructors() const {
    struct Functions {
      std::int64_t table, size;
      std::string_view when;
    };
    constexpr Functions kTables[] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ, "when it is loaded"},
                                     {DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ, "when it is loaded"},
                                     {DT_FINI_ARRAY, DT_FINI_ARRAYSZ, "when it is unloaded"}};
    for (const Functions& one : kTables) {
      if (!has(one.table)) continue;
      return fmt::format("{} would run {}; {}", function_in(value_of(one.table)), one.when, kNoConstructors);
    }
    for (const auto& [tag, when] : {std::pair{DT_INIT, "loaded"}, std::pair{DT_FINI, "unloaded"}}) {
      if (!has(tag)) continue;
      return fmt::format("{} would run when it is {}; {}", function_at(value_of(tag)), when, kNoConstructors);
    }
    return std::nullopt;
  }

  [[nodiscard]] Refusal refuse_dependencies() const {
    for (const Elf64_Dyn& entry : dynamic_) {
      if (entry.d_tag != DT_NEEDED) continue;
      const std::string name = text_at(strings_ + entry.d_un.d_val);
      if (!library_allowed(name)) {
        return fmt::format("it needs the library {}; a kernel may use those of the C and C++ compiler only", name);
      }
    }
    constexpr std::array<std::pair<std::int64_t, std::string_view>, 6> kSearch = {{{DT_RPATH, "DT_RPATH"},
                                                                                   {DT_RUNPATH, "DT_RUNPATH"},
                                                                                   {DT_AUDIT, "DT_AUDIT"},
                                                                                   {DT_DEPAUDIT, "DT_DEPAUDIT"},
                                                                                   {DT_FILTER, "DT_FILTER"},
                                                                                   {DT_AUXILIARY, "DT_AUXILIARY"}}};
    for (const auto& [tag, name] : kSearch) {
      if (has(tag)) return fmt::format("it tells the loader where to look for libraries ({})", name);
    }
    return std::nullopt;
  }

  [[nodiscard]] Refusal refuse_relocations() const {
    if (has(DT_TEXTREL) || (value_of(DT_FLAGS) & DF_TEXTREL) != 0) {
      return "its code would have to be changed while it is loaded (text relocations); write position-independent "
             "code: "
             "leave -fno-pic and absolute addresses in assembly out";
    }
    const std::uint64_t indirect = header_.e_machine == EM_X86_64 ? R_X86_64_IRELATIVE : R_AARCH64_IRELATIVE;
    for (const Relocation& one : relocations_) {
      if (one.type != indirect) continue;
      return fmt::format(
          "{} would run when it is loaded, to resolve an indirect function; choose by a function-local "
          "static in place of ifunc and target_clones",
          function_at(static_cast<std::uint64_t>(one.addend)));
    }
    return std::nullopt;
  }

  [[nodiscard]] Refusal refuse_symbols() const {
    for (const Symbol& symbol : dynamic_symbols_) {
      if (symbol.name.empty()) continue;
      if (symbol.defined && symbol.type == STT_GNU_IFUNC) {
        return fmt::format(
            "{} is an indirect function, whose resolver would run when it is loaded; choose by a "
            "function-local static in place of ifunc and target_clones",
            readable(symbol.name));
      }
      if (symbol.defined && symbol.name != "ridge_kernel") {
        return fmt::format("it exports {}; only ridge_kernel may be seen by other libraries", readable(symbol.name));
      }
      if (symbol.defined || import_allowed(symbol.name, library_of(symbol.index))) continue;
      return fmt::format(
          "it imports {}, which a kernel has no use for: it may use memory, mathematics, threads and time "
          "of the system's libraries (docs/checking.md lists them)",
          readable(symbol.name));
    }
    return std::nullopt;
  }

  // The library whose version of a symbol was linked; empty where the symbol has no version.
  [[nodiscard]] std::string library_of(std::size_t symbol) const {
    const auto versions = offset_of(value_of(DT_VERSYM)), needs = offset_of(value_of(DT_VERNEED));
    std::uint16_t wanted = 0;
    if (!has(DT_VERSYM) || !has(DT_VERNEED) || !versions || !needs || !read(*versions + 2 * symbol, wanted)) return {};
    std::uint64_t at = *needs;
    for (std::uint64_t i = 0; i < value_of(DT_VERNEEDNUM); ++i) {
      Elf64_Verneed library;
      if (!read(at, library)) return {};
      std::uint64_t version_at = at + library.vn_aux;
      for (unsigned k = 0; k < library.vn_cnt; ++k) {
        Elf64_Vernaux version;
        if (!read(version_at, version)) return {};
        if ((version.vna_other & 0x7fff) == (wanted & 0x7fff)) return text_at(strings_ + library.vn_file);
        version_at += version.vna_next;
      }
      at += library.vn_next;
    }
    return {};
  }

  std::string bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Section> sections_;
  std::vector<Elf64_Dyn> dynamic_;
  std::vector<Symbol> dynamic_symbols_;
  std::vector<Relocation> relocations_;
  std::uint64_t strings_ = 0;
};

}  // namespace

std::optional<std::string> refuse_artifact(const std::filesystem::path& file) {
  std::error_code trouble;
  const std::uintmax_t bytes = std::filesystem::file_size(file, trouble);
  if (trouble) return fmt::format("{} cannot be read: {}", file.string(), trouble.message());
  if (auto refusal = toolchain::refuse_size(bytes)) return refusal;
  Result<std::string> text = read_file(file);
  if (!text) return text.error().text();
  return Image(std::move(*text)).refuse();
}

}  // namespace ridge::evaluate
