// A labelled set of instructions as the tools print them: what each is for, and how wide it accesses memory.
#include "inspect/opcodes.h"

#include <gtest/gtest.h>

namespace ridge::inspect {
namespace {

struct Labelled {
  Isa isa;
  const char* line;
  const char* name;
  int width = 0;
};

const Labelled kLabelled[] = {
    // SASS: matrix units by every name they have had
    {Isa::kSass, "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT, gsb0", "matrix"},
    {Isa::kSass, "QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR16], R24, gsb0", "matrix"},
    {Isa::kSass, "IGMMA.64x64x32.S8.S8 R24, gdesc[UR8], R24", "matrix"},
    {Isa::kSass, "@P0 HMMA.16816.F32.BF16 R4, R8, R12, R4", "matrix"},
    {Isa::kSass, "IMMA.16832.S8.S8 R4, R8.ROW, R12.COL, R4", "matrix"},
    {Isa::kSass, "DMMA.8x8x4 R4, R8, R12, R4", "matrix"},
    {Isa::kSass, "UTCHMMA gdesc[UR6], gdesc[UR8], tmem[UR4], tmem[UR12], idesc[UR13], UPT", "matrix"},
    {Isa::kSass, "UTCQMMA.2CTA gdesc[UR6], gdesc[UR8], tmem[UR4]", "matrix"},
    {Isa::kSass, "UTCOMMA.4X gdesc[UR6], gdesc[UR8], tmem[UR4]", "matrix"},
    // and what only looks like one
    {Isa::kSass, "HFMA2.MMA R0, -RZ, RZ, 0, 0", "fma_f16"},
    {Isa::kSass, "HFMA2.BF16_V2 R3, R4, 1, 1, R5", "fma_f16"},
    {Isa::kSass, "IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]", "integer"},
    {Isa::kSass, "FFMA R4, R4, R8, R7", "fma_f32"},
    {Isa::kSass, "@!P0 FFMA.FTZ R4, R4, R8, R7", "fma_f32"},
    {Isa::kSass, "FFMA2 R4, R8, R12, R4", "fma_f32"},
    {Isa::kSass, "DFMA R4, R8, R12, R4", "fma_f64"},
    {Isa::kSass, "FADD.FTZ R3, R4, R5", "arithmetic"},
    {Isa::kSass, "MUFU.EX2 R3, R4", "special"},
    {Isa::kSass, "F2FP.BF16.F32.PACK_AB R3, R4, R5", "convert"},
    {Isa::kSass, "ISETP.GE.AND P0, PT, R64, 0x1, PT", "compare"},
    {Isa::kSass, "R2UR UR4, R16", "move"},
    {Isa::kSass, "SHFL.BFLY PT, R3, R4, 0x10, 0x1f", "move"},
    // loads and stores with predicates, hints and scopes
    {Isa::kSass, "LDG.E R4, desc[UR6][R4.64]", "load_global", 32},
    {Isa::kSass, "@P1 LDG.E.128.CONSTANT R8, desc[UR4][R2.64]", "load_global", 128},
    {Isa::kSass, "LDG.E.LTC128B.128 R8, [R2.64]", "load_global", 128},
    {Isa::kSass, "LDG.E.LTC128B R8, [R2.64]", "load_global", 32},
    {Isa::kSass, "LDG.E.EF.64 R8, [R2.64]", "load_global", 64},
    {Isa::kSass, "LDG.E.U16.CONSTANT R8, [R2.64]", "load_global", 16},
    {Isa::kSass, "LDG.E.U8 R8, [R2.64]", "load_global", 8},
    {Isa::kSass, "LDG.E.256 R8, [R2.64]", "load_global", 256},
    {Isa::kSass, "LDG.E.64.STRONG.GPU R8, [R2.64]", "load_global", 64},
    {Isa::kSass, "LD.E.128 R4, [R2.64]", "load_global", 128},
    {Isa::kSass, "STG.E.ENL2.256 desc[UR4][R2.64], R8, R12", "store_global", 256},
    {Isa::kSass, "@!P3 STG.E.64 desc[UR4][R2.64], R8", "store_global", 64},
    {Isa::kSass, "ST.E.U8 [R2.64], R8", "store_global", 8},
    {Isa::kSass, "LDS.128 R8, [UR4]", "load_shared", 128},
    {Isa::kSass, "LDSM.16.M88.4 R8, [R3]", "load_shared", 128},
    {Isa::kSass, "LDSM.16.MT88.2 R8, [R3]", "load_shared", 64},
    {Isa::kSass, "STS.U16 [R3], R4", "store_shared", 16},
    {Isa::kSass, "STSM.16.M88.4 [R3], R4", "store_shared", 128},
    {Isa::kSass, "LDC.64 R4, c[0x0][0x210]", "load_const", 64},
    {Isa::kSass, "ULDC.64 UR6, c[0x0][0x208]", "load_const", 64},
    {Isa::kSass, "STL [R1+0x70], R3", "store_local", 32},
    {Isa::kSass, "LDL.LU.128 R8, [R1+0x10]", "load_local", 128},
    {Isa::kSass, "LDGSTS.E.BYPASS.LTC128B.128 [R7], [R2.64]", "async_copy", 128},
    {Isa::kSass, "UTMALDG.2D [UR12], [UR10]", "async_copy"},
    {Isa::kSass, "UTMALDG.3D.MULTICAST [UR8], [UR4], UR14", "async_copy"},
    {Isa::kSass, "UBLKCP [UR6], [UR4], UR8", "async_copy"},
    {Isa::kSass, "UTMASTG.2D [UR8], [UR4]", "async_store"},
    {Isa::kSass, "UTMAREDG.2D.ADD [UR8], [UR4]", "async_store"},
    {Isa::kSass, "LDTM.x32 R4, tmem[UR4]", "tensor_memory"},
    {Isa::kSass, "RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5", "atomic"},
    {Isa::kSass, "BAR.SYNC.DEFER_BLOCKING 0x0", "barrier"},
    {Isa::kSass, "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R3", "barrier"},
    {Isa::kSass, "WARPGROUP.DEPBAR.LE gsb0, 0x0", "wait"},
    {Isa::kSass, "DEPBAR.LE SB0, 0x1", "wait"},
    {Isa::kSass, "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xe8", "control"},
    {Isa::kSass, "@P0 BRA `(.L_x_3)", "control"},
    {Isa::kSass, "NOP", "nop"},
    {Isa::kSass, "FROBNICATE.X R1", "unknown"},
    // AMDGCN
    {Isa::kAmdgcn, "v_mfma_f32_32x32x8_bf16_1k a[0:15], v[6:7], v[4:5], a[0:15]", "matrix"},
    {Isa::kAmdgcn, "v_mfma_f32_16x16x32_fp8_fp8 a[0:3], v[0:1], v[2:3], a[0:3]", "matrix"},
    {Isa::kAmdgcn, "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[0:3], v20, v21", "matrix"},
    {Isa::kAmdgcn, "v_smfmac_f32_16x16x32_bf16 v[0:3], v[4:5], v[6:9], v10", "matrix"},
    {Isa::kAmdgcn, "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "matrix"},
    {Isa::kAmdgcn, "v_fma_f32 v0, v1, v2, v3", "fma_f32"},
    {Isa::kAmdgcn, "v_fmac_f32_e32 v0, v1, v2", "fma_f32"},
    {Isa::kAmdgcn, "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", "fma_f32"},
    {Isa::kAmdgcn, "v_dot2_f32_f16 v0, v1, v2, v3", "dot"},
    {Isa::kAmdgcn, "v_add_u32_e32 v0, v1, v2", "integer"},
    {Isa::kAmdgcn, "v_exp_f32_e32 v0, v1", "special"},
    {Isa::kAmdgcn, "v_accvgpr_read_b32 v0, a0", "move"},
    {Isa::kAmdgcn, "global_load_dwordx4 v[0:3], v[4:5], off", "load_global", 128},
    {Isa::kAmdgcn, "global_load_dword v0, v[4:5], off nt", "load_global", 32},
    {Isa::kAmdgcn, "global_load_ubyte v0, v[4:5], off", "load_global", 8},
    {Isa::kAmdgcn, "global_load_lds_dwordx4 v[4:5], off", "async_copy", 128},
    {Isa::kAmdgcn, "buffer_load_dword v1, s[4:7], 0 offen lds", "async_copy", 32},
    {Isa::kAmdgcn, "buffer_load_dwordx2 v[0:1], v2, s[4:7], 0 offen", "load_global", 64},
    {Isa::kAmdgcn, "flat_store_short v[0:1], v2", "store_global", 16},
    {Isa::kAmdgcn, "ds_read_b128 v[0:3], v4", "load_shared", 128},
    {Isa::kAmdgcn, "ds_read2_b64 v[0:3], v4 offset1:1", "load_shared", 128},
    {Isa::kAmdgcn, "ds_write_b64 v0, v[2:3]", "store_shared", 64},
    {Isa::kAmdgcn, "ds_bpermute_b32 v0, v1, v2", "move"},
    {Isa::kAmdgcn, "scratch_store_dwordx4 off, v[0:3], s32", "store_local", 128},
    {Isa::kAmdgcn, "scratch_load_dword v0, off, s32", "load_local", 32},
    {Isa::kAmdgcn, "s_load_dwordx4 s[0:3], s[4:5], 0x0", "load_const", 128},
    {Isa::kAmdgcn, "s_waitcnt vmcnt(0) lgkmcnt(0)", "wait"},
    {Isa::kAmdgcn, "s_barrier", "barrier"},
    {Isa::kAmdgcn, "s_cbranch_scc1 .LBB0_2", "control"},
    {Isa::kAmdgcn, "s_add_u32 s0, s1, s2", "scalar"},
    // PTX
    {Isa::kPtx, "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0", "matrix"},
    {Isa::kPtx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2}", "matrix"},
    {Isa::kPtx, "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1", "matrix"},
    {Isa::kPtx, "fma.rn.f32 %f1, %f2, %f3, %f4", "fma_f32"},
    {Isa::kPtx, "mad.lo.s32 %r1, %r2, %r3, %r4", "integer"},
    {Isa::kPtx, "@%p1 ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1]", "load_global", 128},
    {Isa::kPtx, "ld.global.u16 %rs1, [%rd1]", "load_global", 16},
    {Isa::kPtx, "st.shared.v2.b32 [%r1], {%r2,%r3}", "store_shared", 64},
    {Isa::kPtx, "cp.async.cg.shared.global [%r1], [%rd1], 16", "async_copy", 128},
    {Isa::kPtx,
     "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4]",
     "async_copy"},
    {Isa::kPtx, "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r2, %r3}], [%r4]", "async_store"},
    {Isa::kPtx, "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2", "barrier"},
    // x86-64: vectors, and scalar-only impostors
    {Isa::kX86, "vfmadd231ps %zmm0,%zmm1,%zmm2", "fma_f32"},
    {Isa::kX86, "vfmadd231ps (%rax){1to16},%zmm1,%zmm2", "fma_f32"},
    {Isa::kX86, "vfmadd231ss %xmm0,%xmm1,%xmm2", "fma_scalar"},
    {Isa::kX86, "vfmadd213pd %ymm0,%ymm1,%ymm2", "fma_f64"},
    {Isa::kX86, "vdpbf16ps %zmm0,%zmm1,%zmm2", "dot"},
    {Isa::kX86, "tdpbf16ps %tmm2,%tmm1,%tmm0", "matrix"},
    {Isa::kX86, "vmovups (%rdi),%zmm0", "load_global", 512},
    {Isa::kX86, "vmovups %ymm0,(%rdi)", "store_global", 256},
    {Isa::kX86, "vmovups %zmm0,0x40(%rsp)", "store_local", 512},
    {Isa::kX86, "vmovss (%rax),%xmm0", "load_global", 32},
    {Isa::kX86, "mulss %xmm0,%xmm1", "arithmetic"},
    {Isa::kX86, "jne 1130 <f+0x30>", "control"},
};

Instruction parsed(const Labelled& labelled) {
  std::string_view text = labelled.line;
  Instruction instruction;
  if (text.starts_with('@')) {
    instruction.predicate = text.substr(0, text.find(' '));
    text.remove_prefix(text.find(' ') + 1);
  }
  instruction.opcode = text.substr(0, std::min(text.find(' '), text.size()));
  instruction.operands =
      text.size() > instruction.opcode.size() ? text.substr(instruction.opcode.size() + 1) : std::string_view{};
  return instruction;
}

TEST(Opcodes, AreAtLeastSixtyLabelled) { EXPECT_GE(std::size(kLabelled), 60u); }

TEST(Opcodes, AreWhatTheyAreLabelled) {
  for (const Labelled& labelled : kLabelled) {
    const OpcodeClass found = classify(labelled.isa, parsed(labelled));
    EXPECT_EQ(found.name, labelled.name) << labelled.line;
    EXPECT_EQ(found.width_bits, labelled.width) << labelled.line;
  }
}

}  // namespace
}  // namespace ridge::inspect
