#include "inspect/listing.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"

namespace ridge::inspect {
namespace {

// The braces around two instructions that are issued together, and around a scope of PTX.
constexpr std::string_view kBlanksAndBraces = " \t\r\n{}";

std::optional<std::uint64_t> hex(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return failure == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                     : std::nullopt;
}

std::string_view first_word(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" \t"), text.size()));
}

// "@!P0 LDG.E R0, [R2]" into predicate, opcode and operands.
Instruction split(std::string_view text, std::uint64_t address) {
  Instruction instruction;
  instruction.address = address;
  while (text.starts_with('@')) {
    const std::string_view word = first_word(text);
    instruction.predicate = word;
    text = trimmed(text.substr(word.size()));
  }
  instruction.opcode = first_word(text);
  instruction.operands = trimmed(text.substr(instruction.opcode.size()));
  return instruction;
}

class Builder {
 public:
  explicit Builder(Isa isa) { listing_.isa = isa; }

  void begin(std::string_view name) {
    if (!listing_.functions.empty() && listing_.functions.back().code.empty()) listing_.functions.pop_back();
    listing_.functions.push_back({std::string(name), {}, {}});
  }
  void add(Instruction instruction) {
    if (listing_.functions.empty()) begin("");
    listing_.functions.back().code.push_back(instruction);
  }
  void label(std::string_view name) {
    if (!listing_.functions.empty())
      listing_.functions.back().labels.push_back({name, listing_.functions.back().code.size()});
  }
  // The last instruction goes on in `rest`, of the same text.
  void go_on(std::string_view rest) {
    if (listing_.functions.empty() || listing_.functions.back().code.empty() || rest.empty()) return;
    std::string_view& operands = listing_.functions.back().code.back().operands;
    if (operands.empty()) operands = rest;
    operands = {operands.data(), static_cast<std::size_t>(rest.data() + rest.size() - operands.data())};
  }
  void target(std::string_view name) { listing_.target = name; }
  [[nodiscard]] std::string_view current() const {
    return listing_.functions.empty() ? std::string_view{} : std::string_view(listing_.functions.back().name);
  }
  Listing take() {
    if (!listing_.functions.empty() && listing_.functions.back().code.empty()) listing_.functions.pop_back();
    return std::move(listing_);
  }

 private:
  Listing listing_;
};

bool is_sass_branch(std::string_view opcode) {
  return opcode.starts_with("BRA") || opcode.starts_with("JMP") || opcode.starts_with("BRX") ||
         opcode.starts_with("UBRA");
}

// "        /*0110*/   @P0 BRA `(.L_x_3) ;   /* 0x... */"
void sass_line(std::string_view line, Builder& builder) {
  line = trimmed(line, kBlanksAndBraces);
  if (line.starts_with("Function : ")) return builder.begin(trimmed(line.substr(11)));
  if (line.starts_with(".target")) return builder.target(trimmed(line.substr(7)));
  if (line.starts_with("code for ")) return builder.target(trimmed(line.substr(9)));
  if (line.starts_with(".text.") && line.ends_with(':')) return builder.begin(line.substr(6, line.size() - 7));
  if (line.starts_with(".L_") && line.ends_with(':')) return builder.label(line.substr(0, line.size() - 1));
  if (!line.starts_with("/*")) return;
  const std::size_t close = line.find("*/");
  if (close == std::string_view::npos) return;
  const auto address = hex(line.substr(2, close - 2));
  if (!address || line.substr(2, 3) == " 0x") return;
  std::string_view text = line.substr(close + 2);
  text = trimmed(text.substr(0, std::min(text.find(';'), text.find("/*"))), kBlanksAndBraces);
  if (text.empty() || text.front() == '.') return;  // data of a section that is no code
  Instruction instruction = split(text, *address);
  if (is_sass_branch(instruction.opcode)) {
    const std::size_t tick = instruction.operands.find("`(");
    if (tick != std::string_view::npos) {
      const std::string_view rest = instruction.operands.substr(tick + 2);
      instruction.target = rest.substr(0, rest.find(')'));
    } else {
      const std::size_t last = instruction.operands.rfind("0x");
      if (last != std::string_view::npos) instruction.target = instruction.operands.substr(last);
    }
  }
  builder.add(instruction);
}

class PtxParser {
 public:
  void line(std::string_view line, Builder& builder) {
    const std::string_view code = trimmed(line.substr(0, line.find("//")));
    line = trimmed(code, kBlanksAndBraces);
    if (line.starts_with(".target")) return builder.target(first_word(trimmed(line.substr(7))));
    for (const std::string_view kind : {".entry ", ".func "}) {
      if (const std::size_t at = line.find(kind); at != std::string_view::npos && line.front() == '.') {
        const std::string_view rest = trimmed(line.substr(at + kind.size()));
        return builder.begin(rest.substr(0, rest.find('(')));
      }
    }
    if (line.ends_with(':')) return builder.label(line.substr(0, line.size() - 1));
    // An instruction may run over several lines, up to its semicolon; the first line has the opcode.
    const bool ends = line.ends_with(';');
    if (!inside_ && !line.empty() && (line.front() == '@' || (line.front() >= 'a' && line.front() <= 'z'))) {
      begin(line, builder);
      inside_ = !ends;
    } else if (inside_) {
      builder.go_on(code.substr(0, code.find(';')));
      inside_ = !ends;
    }
  }

 private:
  void begin(std::string_view line, Builder& builder) {
    Instruction instruction = split(line.substr(0, line.find(';')), 0);
    if (instruction.opcode.starts_with("bra")) instruction.target = instruction.operands;
    builder.add(instruction);
  }
  bool inside_ = false;
};

bool is_gcn_branch(std::string_view opcode) {
  return opcode.starts_with("s_cbranch") || opcode.starts_with("s_branch");
}

// llvm-objdump: "\ts_waitcnt lgkmcnt(0)    // 000000001910: BF8CC07F <k+0x10>", and assembly: "\ts_waitcnt lgkmcnt(0) ;
// text".
void gcn_line(std::string_view line, Builder& builder) {
  std::string_view text = trimmed(line);
  if (text.starts_with(".amdgcn_target") || text.starts_with(".amdhsa_code_object")) {
    const std::size_t dash = text.rfind('-');
    if (text.starts_with(".amdgcn_target") && dash != std::string_view::npos)
      builder.target(text.substr(dash + 1, text.rfind('"') - dash - 1));
    return;
  }
  if (text.ends_with(">:")) {  // "0000000000001900 <kernel>:"
    const std::size_t open = text.find('<');
    if (open != std::string_view::npos) builder.begin(text.substr(open + 1, text.size() - open - 3));
    return;
  }
  const std::size_t comment = std::min(text.find("//"), text.find(';'));
  const std::string_view remark =
      comment == std::string_view::npos ? std::string_view{} : text.substr(comment + (text[comment] == '/' ? 2 : 1));
  text = trimmed(text.substr(0, comment));
  if (text.ends_with(':')) {
    const std::string_view name = text.substr(0, text.size() - 1);
    if (name.starts_with(".L")) return builder.label(name);
    return builder.begin(name);
  }
  if (text.empty() || text.front() == '.' || line.find_first_not_of(" \t") == 0) return;
  const std::size_t colon = remark.find(':');
  const auto address = colon == std::string_view::npos ? std::nullopt : hex(trimmed(remark.substr(0, colon)));
  Instruction instruction = split(text, address.value_or(0));
  if (is_gcn_branch(instruction.opcode)) {
    const std::size_t open = remark.find('<');
    instruction.target =
        open == std::string_view::npos ? instruction.operands : remark.substr(open + 1, remark.find('>') - open - 1);
  }
  builder.add(instruction);
}

// objdump: "  1130:\tc4 e2 ...\tvfmadd231ps %zmm0,%zmm1,%zmm2   # comment"
void x86_line(std::string_view line, Builder& builder) {
  if (line.ends_with(">:")) {
    const std::size_t open = line.find('<');
    if (open != std::string_view::npos) builder.begin(line.substr(open + 1, line.size() - open - 3));
    return;
  }
  const std::size_t colon = line.find(":\t");
  if (colon == std::string_view::npos) return;
  const auto address = hex(trimmed(line.substr(0, colon)));
  if (!address) return;
  std::string_view text = line.substr(colon + 2);
  if (const std::size_t tab = text.find('\t');
      tab != std::string_view::npos && hex(first_word(trimmed(text.substr(0, tab)))))
    text = text.substr(tab + 1);
  text = trimmed(text.substr(0, text.find('#')));
  Instruction instruction = split(text, *address);
  if (instruction.opcode.starts_with('j')) instruction.target = first_word(instruction.operands);
  if (!instruction.opcode.empty()) builder.add(instruction);
}

// Where a branch goes, as an index into the code.
class Targets {
 public:
  explicit Targets(const Function& function) : function_(function) {
    for (const Label& label : function.labels) labels_.emplace(label.name, label.index);
  }
  [[nodiscard]] std::optional<std::size_t> index(std::string_view target) const {
    if (const auto label = labels_.find(target); label != labels_.end()) return label->second;
    std::uint64_t base = 0;
    std::string_view offset = target;
    if (const std::size_t plus = target.rfind("+0x");
        plus != std::string_view::npos && target.substr(0, plus) == function_.name) {
      base = function_.code.front().address;
      offset = target.substr(plus + 1);
    } else if (target == function_.name) {
      return 0;
    }
    const auto address = hex(offset);
    if (!address) return std::nullopt;
    const auto found = std::lower_bound(function_.code.begin(), function_.code.end(), base + *address,
                                        [](const Instruction& i, std::uint64_t a) { return i.address < a; });
    if (found == function_.code.end() || found->address != base + *address) return std::nullopt;
    return static_cast<std::size_t>(found - function_.code.begin());
  }

 private:
  const Function& function_;
  std::unordered_map<std::string_view, std::size_t> labels_;
};

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kSass: return "SASS";
    case Isa::kPtx: return "PTX";
    case Isa::kAmdgcn: return "AMDGCN";
    case Isa::kX86: return "x86-64";
  }
  return "?";
}

Result<Isa> detect_listing(std::string_view text) {
  const std::string_view head = text.substr(0, 1u << 16);
  if (head.find(".version") != std::string_view::npos && head.find(".address_size") != std::string_view::npos)
    return Isa::kPtx;
  if (head.find("amdgcn") != std::string_view::npos || head.find("amdgpu") != std::string_view::npos ||
      head.find("s_endpgm") != std::string_view::npos || head.find("s_waitcnt") != std::string_view::npos) {
    return Isa::kAmdgcn;
  }
  if (head.find("/*0000*/") != std::string_view::npos || head.find("Function : ") != std::string_view::npos)
    return Isa::kSass;
  if (head.find(">:\n") != std::string_view::npos && head.find(":\t") != std::string_view::npos) return Isa::kX86;
  return with_hint(
      invalid("neither machine code nor a listing of SASS, PTX, AMDGCN or x86-64"),
      "give a cubin, a fat binary, an object file, or the output of nvdisasm, cuobjdump, llvm-objdump or objdump");
}

std::string_view amdgpu_metadata(std::string_view text) {
  constexpr std::string_view kBegin = ".amdgpu_metadata", kEnd = ".end_amdgpu_metadata", kKey = "\namdhsa.kernels:";
  if (const std::size_t begin = text.find(kBegin); begin != std::string_view::npos) {
    text.remove_prefix(std::min(text.find('\n', begin), text.size()));
    text = text.substr(0, text.find(kEnd));
    return text.substr(0, text.find_last_not_of(" \t") + 1);
  }
  const std::size_t key = text.find(kKey);
  if (key == std::string_view::npos) return {};
  text.remove_prefix(key);
  return text.substr(0, text.find("\n..."));
}

Listing parse_listing(Isa isa, std::string_view text) {
  Builder builder(isa);
  PtxParser ptx;
  const std::string_view metadata = isa == Isa::kAmdgcn ? amdgpu_metadata(text) : std::string_view();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    switch (isa) {
      case Isa::kSass: sass_line(line, builder); break;
      case Isa::kPtx: ptx.line(line, builder); break;
      case Isa::kAmdgcn:
        if (line.data() < metadata.data() || line.data() >= metadata.data() + metadata.size()) gcn_line(line, builder);
        break;
      case Isa::kX86: x86_line(line, builder); break;
    }
  }
  return builder.take();
}

std::vector<Loop> find_loops(const Function& function) {
  std::vector<Loop> loops;
  if (function.code.empty()) return loops;
  const Targets targets(function);
  for (std::size_t i = 0; i < function.code.size(); ++i) {
    if (function.code[i].target.empty()) continue;
    const auto first = targets.index(function.code[i].target);
    if (!first || *first >= i) continue;  // a branch to itself is the trap behind a kernel
    const auto same = std::find_if(loops.begin(), loops.end(), [&](const Loop& l) { return l.first == *first; });
    if (same != loops.end()) {
      same->last = std::max(same->last, i);  // a loop with several ways back
    } else {
      loops.push_back({*first, i});
    }
  }
  std::sort(loops.begin(), loops.end(),
            [](const Loop& a, const Loop& b) { return a.last - a.first < b.last - b.first; });
  for (std::size_t i = 0; i < loops.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (loops[j].first >= loops[i].first && loops[j].last <= loops[i].last)
        loops[i].depth = std::max(loops[i].depth, loops[j].depth + 1);
    }
  }
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.first < b.first; });
  return loops;
}

}  // namespace ridge::inspect
