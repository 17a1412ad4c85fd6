#include "inspect/opcodes.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace ridge::inspect {
namespace {

struct Row {
  std::string_view name, classes;
};

// By the mnemonic before its first point.
constexpr std::pair<std::string_view, std::string_view> kSassTable[] = {
    {"matrix", "HGMMA QGMMA IGMMA BGMMA DGMMA HMMA IMMA DMMA BMMA QMMA OMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA"},
    {"dot", "IDP IDP4A"},
    {"fma_f32", "FFMA FFMA2 FFMA32I"},
    {"fma_f16", "HFMA2 HFMA2_32I BFMA2"},
    {"fma_f64", "DFMA"},
    {"arithmetic",
     "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSEL HADD2 HADD2_32I HMUL2 HMUL2_32I HMNMX2 VHMNMX DADD DMUL "
     "DMNMX FSWZADD UFADD UFMUL UFFMA UFMNMX FADD3"},
    {"special", "MUFU RRO FCHK"},
    {"integer",
     "IMAD IADD IADD3 IADD32I IADD64 IMUL IMUL32I LEA LOP LOP3 LOP32I SHF SHL SHR IABS IMNMX ISCADD ISCADD32I POPC FLO "
     "BREV BMSK "
     "SGXT VIADD VIADDMNMX VIMNMX VIMNMX3 VABSDIFF VABSDIFF4 XMAD UIADD3 UIMAD ULEA ULOP ULOP3 ULOP32I USHF USHL USHR "
     "UPOPC UFLO "
     "UBREV UBMSK USGXT UIABS UIMNMX UVIADD UVIMNMX UIADD3.64 REDUX CREDUX UREDUX SEL USEL"},
    {"compare", "ISETP ISET FSETP FSET DSETP HSETP2 HSET2 PSETP PSET PLOP3 CSETP CSET UISETP UPLOP3 UPSETP UFSETP"},
    {"convert", "F2F F2I I2F I2I F2FP I2FP F2IP I2IP FRND UF2FP UI2FP UF2I UI2F UF2F UFRND"},
    {"move",
     "MOV MOV32I UMOV PRMT UPRMT R2UR UR2UP S2R S2UR CS2R UCS2R R2P P2R UP2UR UR2P SHFL VOTE VOTEU MATCH LEPC "
     "GETLMEMBASE B2R R2B P2UR "
     "MOVM ELECT S2UP LDTRAM VIMOV"},
    {"load_global", "LDG LD LDGMC LDE"},
    {"store_global", "STG ST STE"},
    {"load_shared", "LDS LDSM LDSLK"},
    {"store_shared", "STS STSM STAS STSCUL"},
    {"load_const", "LDC ULDC LDCU"},
    {"load_local", "LDL"},
    {"store_local", "STL"},
    {"async_copy", "LDGSTS UTMALDG UBLKCP UBLKPF UTMAPF"},
    {"async_store", "UTMASTG UTMAREDG UBLKRED"},
    {"atomic", "ATOM ATOMG ATOMS RED REDG REDAS REDS"},
    {"tensor_memory", "LDTM STTM LDT STT UTCCP UTCBAR UTCATOMSWS UTCSHIFT UTCCTL"},
    {"barrier",
     "BAR SYNCS MEMBAR ERRBAR FENCE UCGABAR_ARV UCGABAR_WAIT CGAERRBAR ACQBULK ACQSHMINIT ARRIVES WARPSYNC CCTL CCTLL "
     "UTMACCTL UTMACMDFLUSH"},
    {"wait", "DEPBAR LDGDEPBAR WARPGROUP WARPGROUPSET NANOSLEEP LDTDEPBAR"},
    {"control",
     "BRA BRX BRXU JMP JMX JMXU UBRA EXIT RET CALL BSSY BSYNC BREAK BMOV YIELD KILL RPCMOV RTT SSY PBK SYNC BPT "
     "WARPSYNC.ALL ENDCOLLECTIVE "
     "USETMAXREG SETCTAID SETLMEMBASE PMTRIG PREEXIT BRK CONT PCNT RAM"},
    {"texture", "TEX TLD TLD4 TMML TXD TXQ TEXS TLDS TLD4S SULD SUST SUATOM SURED SUQUERY"},
    {"nop", "NOP"},
};

using Table = std::unordered_map<std::string_view, std::string_view>;

const Table& sass_table() {
  static const Table table = [] {
    Table built;
    for (const auto& [name, words] : kSassTable) {
      for (std::string_view rest = words; !rest.empty();) {
        const std::size_t end = std::min(rest.find(' '), rest.size());
        built.emplace(rest.substr(0, end), name);
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    return built;
  }();
  return table;
}

bool is_access(std::string_view name) {
  return name.starts_with("load_") || name.starts_with("store_") || name == "async_copy";
}

// Of "LDG.E.LTC128B.128" the part "128" alone is the width, of "LDSM.16.M88.4" the number of matrices.
int sass_width(std::string_view opcode, std::string_view base) {
  if (base == "UTMALDG" || base == "UBLKCP" || base == "UBLKPF" || base == "UTMAPF") return 0;
  const bool matrices = base == "LDSM" || base == "STSM";
  int width = matrices ? 32 : 32;
  for (std::string_view rest = opcode.substr(base.size()); !rest.empty();) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(end);
    if (matrices) {
      if (part == "2" || part == "4") width = part == "2" ? 64 : 128;
      continue;
    }
    if (part == "64" || part == "128" || part == "256" || part == "ENL2")
      width = part == "64" ? 64 : part == "128" ? 128 : 256;
    if (part == "U8" || part == "S8") width = 8;
    if (part == "U16" || part == "S16") width = 16;
  }
  return width;
}

OpcodeClass classify_sass(std::string_view opcode) {
  const std::string_view base = opcode.substr(0, std::min(opcode.find('.'), opcode.size()));
  const Table& table = sass_table();
  auto found = table.find(base);
  if (found == table.end()) return {base.starts_with("UTC") && base.ends_with("MMA") ? "matrix" : "unknown", 0};
  return {found->second, is_access(found->second) ? sass_width(opcode, base) : 0};
}

struct Prefix {
  std::string_view prefix, name;
};

template <std::size_t N>
std::string_view longest(const Prefix (&table)[N], std::string_view opcode) {
  const Prefix* best = nullptr;
  for (const Prefix& row : table) {
    if (opcode.starts_with(row.prefix) && (best == nullptr || row.prefix.size() > best->prefix.size())) best = &row;
  }
  return best == nullptr ? "unknown" : best->name;
}

constexpr Prefix kGcnTable[] = {
    {"v_mfma_", "matrix"},
    {"v_smfmac_", "matrix"},
    {"v_wmma_", "matrix"},
    {"v_swmmac_", "matrix"},
    {"v_dot", "dot"},
    {"v_fma_f32", "fma_f32"},
    {"v_fmac_f32", "fma_f32"},
    {"v_fmaak_f32", "fma_f32"},
    {"v_fmamk_f32", "fma_f32"},
    {"v_mac_f32", "fma_f32"},
    {"v_mad_f32", "fma_f32"},
    {"v_pk_fma_f32", "fma_f32"},
    {"v_dual_fma", "fma_f32"},
    {"v_fma_mix", "fma_f32"},
    {"v_fma_f16", "fma_f16"},
    {"v_fmac_f16", "fma_f16"},
    {"v_pk_fma_f16", "fma_f16"},
    {"v_pk_fmac_f16", "fma_f16"},
    {"v_fma_f64", "fma_f64"},
    {"v_fmac_f64", "fma_f64"},
    {"v_add_f", "arithmetic"},
    {"v_sub_f", "arithmetic"},
    {"v_subrev_f", "arithmetic"},
    {"v_mul_f", "arithmetic"},
    {"v_pk_add_f", "arithmetic"},
    {"v_pk_mul_f", "arithmetic"},
    {"v_max_f", "arithmetic"},
    {"v_min_f", "arithmetic"},
    {"v_max3_f", "arithmetic"},
    {"v_min3_f", "arithmetic"},
    {"v_med3_f", "arithmetic"},
    {"v_pk_max_f", "arithmetic"},
    {"v_pk_min_f", "arithmetic"},
    {"v_div_", "arithmetic"},
    {"v_ldexp", "arithmetic"},
    {"v_mul_legacy", "arithmetic"},
    {"v_frexp", "arithmetic"},
    {"v_fract", "arithmetic"},
    {"v_exp", "special"},
    {"v_log", "special"},
    {"v_rcp", "special"},
    {"v_rsq", "special"},
    {"v_sqrt", "special"},
    {"v_sin", "special"},
    {"v_cos", "special"},
    {"v_cvt_", "convert"},
    {"v_pack_", "convert"},
    {"v_rndne", "convert"},
    {"v_trunc", "convert"},
    {"v_ceil", "convert"},
    {"v_floor", "convert"},
    {"v_cmp", "compare"},
    {"v_cndmask", "compare"},
    {"v_mov", "move"},
    {"v_accvgpr", "move"},
    {"v_read", "move"},
    {"v_write", "move"},
    {"v_perm", "move"},
    {"v_swap", "move"},
    {"v_pk_mov", "move"},
    {"ds_bpermute", "move"},
    {"ds_permute", "move"},
    {"ds_swizzle", "move"},
    {"v_nop", "nop"},
    {"v_", "integer"},
    {"global_load", "load_global"},
    {"flat_load", "load_global"},
    {"buffer_load", "load_global"},
    {"global_store", "store_global"},
    {"flat_store", "store_global"},
    {"buffer_store", "store_global"},
    {"tbuffer_load", "load_global"},
    {"tbuffer_store", "store_global"},
    {"global_atomic", "atomic"},
    {"flat_atomic", "atomic"},
    {"buffer_atomic", "atomic"},
    {"global_inv", "barrier"},
    {"global_wb", "barrier"},
    {"buffer_wb", "barrier"},
    {"buffer_inv", "barrier"},
    {"buffer_gl", "barrier"},
    {"scratch_load", "load_local"},
    {"scratch_store", "store_local"},
    {"ds_read", "load_shared"},
    {"ds_load", "load_shared"},
    {"ds_write", "store_shared"},
    {"ds_store", "store_shared"},
    {"ds_", "atomic"},
    {"s_load", "load_const"},
    {"s_buffer_load", "load_const"},
    {"s_scratch_load", "load_const"},
    {"s_waitcnt", "wait"},
    {"s_wait_", "wait"},
    {"s_sleep", "wait"},
    {"s_barrier", "barrier"},
    {"s_dcache", "barrier"},
    {"s_icache", "barrier"},
    {"s_cbranch", "control"},
    {"s_branch", "control"},
    {"s_endpgm", "control"},
    {"s_setpc", "control"},
    {"s_swappc", "control"},
    {"s_getpc", "control"},
    {"s_trap", "control"},
    {"s_sethalt", "control"},
    {"s_setprio", "control"},
    {"s_set_gpr", "control"},
    {"s_nop", "nop"},
    {"s_code_end", "nop"},
    {"s_clause", "nop"},
    {"s_delay_alu", "nop"},
    {"s_", "scalar"},
    {"image_", "texture"},
};

// "global_load_dwordx4", "ds_read_b128", "ds_read2_b64", "buffer_load_ubyte", "global_load_short_d16".
int gcn_width(std::string_view opcode) {
  constexpr std::pair<std::string_view, int> kWidths[] = {
      {"dwordx4", 128}, {"dwordx3", 96}, {"dwordx2", 64}, {"dword", 32}, {"b128", 128}, {"b96", 96}, {"b64", 64},
      {"b32", 32},      {"b16", 16},     {"b8", 8},       {"ubyte", 8},  {"sbyte", 8},  {"byte", 8}, {"ushort", 16},
      {"sshort", 16},   {"short", 16},   {"u16", 16},     {"i16", 16},   {"u8", 8},     {"i8", 8}};
  const bool pair = opcode.starts_with("ds_read2") || opcode.starts_with("ds_write2") ||
                    opcode.starts_with("ds_load_2") || opcode.starts_with("ds_store_2");
  for (const auto& [word, bits] : kWidths) {
    if (opcode.find(word) != std::string_view::npos) return pair ? 2 * bits : bits;
  }
  return 0;
}

OpcodeClass classify_gcn(const Instruction& instruction) {
  std::string_view name = longest(kGcnTable, instruction.opcode);
  // A load with the modifier lds goes to LDS without registers.
  const std::string_view operands = instruction.operands;
  if (name == "load_global" && (operands.ends_with(" lds") || operands.find(" lds ") != std::string_view::npos ||
                                instruction.opcode.find("_lds_") != std::string_view::npos))
    name = "async_copy";
  return {name, is_access(name) ? gcn_width(instruction.opcode) : 0};
}

constexpr Prefix kPtxTable[] = {
    {"wgmma.mma_async", "matrix"},
    {"mma.sync", "matrix"},
    {"mma.sp", "matrix"},
    {"wmma.mma", "matrix"},
    {"tcgen05.mma", "matrix"},
    {"dp4a", "dot"},
    {"dp2a", "dot"},
    {"fma.rn.f64", "fma_f64"},
    {"fma.rn.f16", "fma_f16"},
    {"fma.rn.bf16", "fma_f16"},
    {"fma.", "fma_f32"},
    {"mad.lo", "integer"},
    {"mad.hi", "integer"},
    {"mad.wide", "integer"},
    {"mad.", "integer"},
    {"add.f", "arithmetic"},
    {"add.rn.f", "arithmetic"},
    {"sub.f", "arithmetic"},
    {"sub.rn.f", "arithmetic"},
    {"mul.f", "arithmetic"},
    {"mul.rn.f", "arithmetic"},
    {"add.ftz", "arithmetic"},
    {"mul.ftz", "arithmetic"},
    {"div.", "arithmetic"},
    {"max.f", "arithmetic"},
    {"min.f", "arithmetic"},
    {"neg.f", "arithmetic"},
    {"abs.f", "arithmetic"},
    {"add.", "integer"},
    {"sub.", "integer"},
    {"mul.", "integer"},
    {"div.s", "integer"},
    {"div.u", "integer"},
    {"rem.", "integer"},
    {"and.", "integer"},
    {"or.", "integer"},
    {"xor.", "integer"},
    {"not.", "integer"},
    {"shl.", "integer"},
    {"shr.", "integer"},
    {"shf.", "integer"},
    {"bfe.", "integer"},
    {"bfi.", "integer"},
    {"min.", "integer"},
    {"max.", "integer"},
    {"abs.", "integer"},
    {"neg.", "integer"},
    {"lop3.", "integer"},
    {"popc.", "integer"},
    {"clz.", "integer"},
    {"brev.", "integer"},
    {"prmt.", "move"},
    {"setp.", "compare"},
    {"selp.", "compare"},
    {"set.", "compare"},
    {"cvt.", "convert"},
    {"ex2.", "special"},
    {"lg2.", "special"},
    {"rcp.", "special"},
    {"rsqrt.", "special"},
    {"sqrt.", "special"},
    {"sin.", "special"},
    {"cos.", "special"},
    {"tanh.", "special"},
    {"mov.", "move"},
    {"cvta", "move"},
    {"shfl.", "move"},
    {"vote.", "move"},
    {"activemask", "move"},
    {"elect.", "move"},
    {"mapa", "move"},
    {"isspacep", "compare"},
    {"ld.global", "load_global"},
    {"ld.", "load_global"},
    {"ld.volatile.shared", "load_shared"},
    {"ldu.", "load_global"},
    {"st.global", "store_global"},
    {"st.", "store_global"},
    {"ld.shared", "load_shared"},
    {"st.shared", "store_shared"},
    {"ldmatrix", "load_shared"},
    {"stmatrix", "store_shared"},
    {"ld.local", "load_local"},
    {"st.local", "store_local"},
    {"ld.param", "load_const"},
    {"ld.const", "load_const"},
    {"st.param", "move"},
    {"cp.async.commit", "wait"},
    {"cp.async.wait", "wait"},
    {"cp.async.bulk.commit", "wait"},
    {"cp.async.bulk.wait", "wait"},
    {"cp.async.mbarrier", "barrier"},
    {"cp.async", "async_copy"},
    {"cp.reduce.async.bulk", "async_store"},
    {"prefetch", "move"},
    {"wgmma.fence", "wait"},
    {"wgmma.commit", "wait"},
    {"wgmma.wait", "wait"},
    {"tcgen05.wait", "wait"},
    {"tcgen05.commit", "wait"},
    {"tcgen05.", "tensor_memory"},
    {"atom.", "atomic"},
    {"red.", "atomic"},
    {"bar.", "barrier"},
    {"barrier.", "barrier"},
    {"mbarrier.", "barrier"},
    {"membar", "barrier"},
    {"fence.", "barrier"},
    {"griddepcontrol", "barrier"},
    {"bra", "control"},
    {"ret", "control"},
    {"exit", "control"},
    {"call", "control"},
    {"trap", "control"},
    {"setmaxnreg", "control"},
    {"nanosleep", "wait"},
    {"tex.", "texture"},
    {"suld.", "texture"},
    {"sust.", "texture"},
};

// "ld.global.nc.v4.f32": the vector length times the element.
int ptx_width(std::string_view opcode) {
  int lanes = 1, bits = 0;
  for (std::string_view rest = opcode; !rest.empty();) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part == "v2" || part == "v4" || part == "v8") lanes = part[1] - '0';
    if (part == "x2" || part == "x4") lanes = part[1] - '0';
    int value = 0;
    if (part.size() >= 2 && std::string_view("bfus").find(part[0]) != std::string_view::npos &&
        std::from_chars(part.data() + 1, part.data() + part.size(), value).ptr == part.data() + part.size()) {
      bits = value;
    }
  }
  if (opcode.starts_with("ldmatrix") || opcode.starts_with("stmatrix")) bits = 32;
  return lanes * bits;
}

OpcodeClass classify_ptx(const Instruction& instruction) {
  std::string_view name = longest(kPtxTable, instruction.opcode);
  if (instruction.opcode.starts_with("cp.async.bulk") &&
      instruction.opcode.find("global.shared") != std::string_view::npos)
    name = "async_store";
  int width = is_access(name) ? ptx_width(instruction.opcode) : 0;
  if (instruction.opcode.starts_with("cp.async.c")) {  // cp.async.cg.shared.global [a], [b], 16
    const std::size_t comma = instruction.operands.rfind(',');
    int bytes = 0;
    if (comma != std::string_view::npos) {
      const std::string_view last = instruction.operands.substr(instruction.operands.find_first_not_of(' ', comma + 1));
      std::from_chars(last.data(), last.data() + last.size(), bytes);
    }
    width = 8 * bytes;
  }
  return {name, width};
}

int vector_bits(std::string_view operands) {
  return operands.find("zmm") != std::string_view::npos   ? 512
         : operands.find("ymm") != std::string_view::npos ? 256
         : operands.find("xmm") != std::string_view::npos ? 128
                                                          : 0;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view w) { return text.find(w) != std::string_view::npos; });
}

OpcodeClass classify_x86_vector(std::string_view op, std::string_view operands, int bits) {
  const bool fma = contains_any(op, {"fmadd", "fmsub", "fnmadd", "fnmsub"}),
             scalar = op.ends_with("ss") || op.ends_with("sd") || op.ends_with("sh");
  if (fma)
    return {scalar ? "fma_scalar" : op.ends_with("pd") ? "fma_f64" : op.ends_with("ph") ? "fma_f16" : "fma_f32", 0};
  if (op.starts_with("vdp") || op.starts_with("vpdp")) return {"dot", 0};
  if (op.starts_with("vcvt") || op.starts_with("cvt")) return {"convert", 0};
  if (contains_any(op, {"div", "sqrt", "rcp", "rsqrt"})) return {"special", 0};
  if (contains_any(op, {"cmp", "comis", "ptest", "blend", "pmovmsk", "max", "min"})) return {"compare", 0};
  if (contains_any(op, {"add", "sub", "mul"}) && !op.starts_with("vp") && !op.starts_with("p"))
    return {"arithmetic", 0};
  const bool move = op.starts_with("vmov") || op.starts_with("mov") || op.starts_with("vbroadcast") ||
                    op.starts_with("vgather") || op.starts_with("vscatter") || op.starts_with("vlddqu");
  if (move && operands.find('(') != std::string_view::npos) {
    const bool stack = contains_any(operands, {"(%rsp", "(%rbp"}),
               store = operands.ends_with(')');  // AT&T: the destination is last
    const int width = scalar || op.ends_with("movd") ? 32 : bits;
    return {stack ? (store ? "store_local" : "load_local") : store ? "store_global" : "load_global", width};
  }
  if (move || contains_any(op, {"perm", "shuf", "unpck", "insert", "extract", "align", "broadcast", "xorp"}))
    return {"move", 0};
  return {"integer", 0};
}

OpcodeClass classify_x86(const Instruction& instruction) {
  const std::string_view op = instruction.opcode;
  if (op.starts_with("tdp") || op.starts_with("tcmm")) return {"matrix", 0};
  if (op.starts_with("tileload") || op.starts_with("tilestore"))
    return {op.starts_with("tileload") ? "load_global" : "store_global", 0};
  if (op.starts_with('j') || op.starts_with("call") || op.starts_with("ret") || op == "leave" || op == "hlt" ||
      op.starts_with("ud") || op.starts_with("endbr") || op == "syscall")
    return {"control", 0};
  if (op.starts_with("nop") || op.starts_with("data16") || op == "cs" || op == "pause" || op == "int3")
    return {"nop", 0};
  if (op == "lock" || op.starts_with("xadd") || op.starts_with("cmpxchg") || op.starts_with("xchg"))
    return {"atomic", 0};
  if (op.ends_with("fence")) return {"barrier", 0};
  if (op == "vzeroupper" || op == "vzeroall") return {"nop", 0};
  if (const int bits = vector_bits(instruction.operands); bits > 0)
    return classify_x86_vector(op, instruction.operands, bits);
  if (op.starts_with("cmp") || op.starts_with("test") || op.starts_with("set") || op.starts_with("cmov") ||
      op.starts_with("bt"))
    return {"compare", 0};
  if (op.starts_with("mov") || op.starts_with("push") || op.starts_with("pop") || op.starts_with("lea") ||
      op.starts_with("cwt") || op.starts_with("clt") || op.starts_with("cqt") || op.starts_with("kmov"))
    return {"move", 0};
  constexpr std::string_view kInteger[] = {
      "add",    "sub",  "imul",  "mul", "idiv", "div",  "and",  "or",    "xor",   "not",     "neg",   "shl",   "shr",
      "sal",    "sar",  "inc",   "dec", "adc",  "sbb",  "rol",  "ror",   "bsr",   "bsf",     "bswap", "tzcnt", "lzcnt",
      "popcnt", "andn", "bextr", "bls", "bzhi", "shlx", "shrx", "sarx",  "rorx",  "mulx",    "pdep",  "pext",  "k",
      "rep",    "stos", "cltq",  "cdq", "cqo",  "shld", "shrd", "rdtsc", "cpuid", "prefetch"};
  for (const std::string_view word : kInteger) {
    if (op.starts_with(word)) return {"integer", 0};
  }
  return {"unknown", 0};
}

}  // namespace

OpcodeClass classify(Isa isa, const Instruction& instruction) {
  switch (isa) {
    case Isa::kSass: return classify_sass(instruction.opcode);
    case Isa::kPtx: return classify_ptx(instruction);
    case Isa::kAmdgcn: return classify_gcn(instruction);
    case Isa::kX86: return classify_x86(instruction);
  }
  return {};
}

}  // namespace ridge::inspect
