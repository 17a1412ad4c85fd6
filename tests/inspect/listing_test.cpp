#include "inspect/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/error.h"
#include "inspect/counts.h"
#include "inspect/inspect.h"

namespace ridge::inspect {
namespace {

// The same loop as three versions of the tools print it.
constexpr const char* kCuobjdump = R"(
	code for sm_90a
		Function : _Z3sumPKfPf
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                     /* 0x00000a00ff017b82 */
                                                                              /* 0x000fe20000000800 */
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;           /* 0x00000004044b7981 */
                                                                              /* 0x000168000c1e1900 */
        /*0020*/              @!P1 FFMA R8, R4, R5, R8 ;                      /* 0x0004000404497981 */
                                                                              /* 0x000168000c1e1900 */
        /*0030*/               @P0 BRA 0x10 ;                                 /* 0x0004000404497981 */
                                                                              /* 0x000168000c1e1900 */
        /*0040*/                   EXIT ;                                     /* 0x000000000000794d */
                                                                              /* 0x000fea0003800000 */
        /*0050*/                   BRA 0x50;                                  /* 0xfffffffc00fc7947 */
                                                                              /* 0x000fc0000383ffff */
)";
constexpr const char* kNvdisasm = R"(
	.target	sm_90a
//--------------------- .text._Z3sumPKfPf      --------------------------
	.section	.text._Z3sumPKfPf,"ax",@progbits
_Z3sumPKfPf:
.text._Z3sumPKfPf:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0020*/              @!P1 FFMA R8, R4, R5, R8 ;
        /*0030*/               @P0 BRA `(.L_x_0) ;
        /*0040*/                   EXIT ;
.L_x_1:
        /*0050*/                   BRA `(.L_x_1);
)";
constexpr const char* kOldNvdisasm = R"(
.target sm_70
.text._Z3sumPKfPf:
        /*0000*/                   LDC R1, c[0x0][0x28] ;  /* 0x1 */
.L_1:
        /*0010*/                   LDG.E.128 R4, [R2] ;  /* 0x2 */
        /*0020*/              @!P1 FFMA R8, R4, R5, R8 ;  /* 0x3 */
        /*0030*/               @P0 BRA `(.L_1) ;  /* 0x4 */
        /*0040*/                   EXIT ;  /* 0x5 */
.L_2:
        /*0050*/                   BRA `(.L_2);  /* 0x6 */
)";

TEST(Sass, ReadsTheSameFromEveryVersionOfTheTools) {
  for (const char* text : {kCuobjdump, kNvdisasm, kOldNvdisasm}) {
    ASSERT_TRUE(detect_listing(text));
    EXPECT_EQ(*detect_listing(text), Isa::kSass);
    const Listing listing = parse_listing(Isa::kSass, text);
    ASSERT_EQ(listing.functions.size(), 1u) << text;
    const Function& f = listing.functions.front();
    EXPECT_EQ(f.name, "_Z3sumPKfPf");
    ASSERT_EQ(f.code.size(), 6u) << text;
    EXPECT_EQ(f.code[2].predicate, "@!P1");
    EXPECT_EQ(f.code[2].opcode, "FFMA");
    const std::vector<Loop> loops = find_loops(f);
    ASSERT_EQ(loops.size(), 1u) << "the branch to itself behind EXIT is no loop";
    EXPECT_EQ(loops[0].first, 1u);
    EXPECT_EQ(loops[0].last, 3u);
  }
}

TEST(Sass, CountsPredicatedInstructionsToo) {
  const auto inspections = inspect_bytes(kCuobjdump, "x.sass", {});
  ASSERT_TRUE(inspections) << inspections.error().text();
  const record::KernelInspection& kernel = inspections->front().kernels.front();
  EXPECT_EQ(inspections->front().target, "sm_90a");
  EXPECT_EQ(kernel.counts.instructions, 6);
  EXPECT_EQ(kernel.counts.classes.at("fma_f32"), 1);
  EXPECT_EQ(kernel.counts.widths.at("load_global 128"), 1);
  EXPECT_EQ(kernel.counts.unknown, 0);
  EXPECT_EQ(kernel.loops.front().counts.instructions, 3);
}

TEST(Sass, TheAssemblyHasClassesLabelsAndLoopsBesideIt) {
  const auto inspections = inspect_bytes(kNvdisasm, "x.sass", {.assembly = true});
  ASSERT_TRUE(inspections) << inspections.error().text();
  const auto& assembly = inspections->front().kernels.front().assembly;
  ASSERT_TRUE(assembly.has_value());
  ASSERT_EQ(assembly->size(), 6u);
  const record::AssemblyLine& load = (*assembly)[1];
  EXPECT_EQ(load.at, "0x10");
  EXPECT_EQ(load.labels, std::vector<std::string>{".L_x_0"});
  EXPECT_EQ(load.text, "LDG.E.128 R4, desc[UR4][R2.64]");
  EXPECT_EQ(load.kind, "load_global");
  EXPECT_EQ(load.width_bits, 128);
  EXPECT_EQ(load.loops, 1);
  EXPECT_EQ((*assembly)[2].text, "@!P1 FFMA R8, R4, R5, R8");
  EXPECT_EQ((*assembly)[4].loops, 0);
  const auto without = inspect_bytes(kNvdisasm, "x.sass", {});
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->front().kernels.front().assembly.has_value());
}

TEST(Loops, NestAndMergeTheirWaysBack) {
  const char* text =
      ".text.f:\n.L_0:\n/*0000*/ NOP ;\n.L_1:\n/*0010*/ FFMA R0, R0, R0, R0 ;\n/*0020*/ @P1 BRA `(.L_1) ;\n"
      "/*0030*/ @P2 BRA `(.L_1) ;\n/*0040*/ @P0 BRA `(.L_0) ;\n/*0050*/ EXIT ;\n";
  const Listing listing = parse_listing(Isa::kSass, text);
  const std::vector<Loop> loops = find_loops(listing.functions.at(0));
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_EQ(loops[0].depth, 2);
  EXPECT_EQ(loops[1].depth, 1);
  EXPECT_EQ(loops[1].last, 3u);
}

TEST(Ptx, ReadsEntriesLoopsAndWideAccesses) {
  const char* text = R"(
.version 8.5
.target sm_90a
.address_size 64
.visible .entry gemm_kernel(
	.param .u64 p0
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<2>;
	ld.param.u64 	%rd1, [p0];
$L__BB0_1:
	ld.global.nc.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd1];
	{
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16
		{%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0;
	}
	@%p1 bra 	$L__BB0_1;
	ret;
}
)";
  ASSERT_EQ(*detect_listing(text), Isa::kPtx);
  const auto inspections = inspect_bytes(text, "x.ptx", {.assembly = true});
  ASSERT_TRUE(inspections) << inspections.error().text();
  const record::KernelInspection& kernel = inspections->front().kernels.at(0);
  ASSERT_TRUE(kernel.assembly.has_value());
  EXPECT_EQ(kernel.assembly->at(2).text,
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0")
      << "an instruction of several lines is one";
  EXPECT_EQ(kernel.assembly->at(3).text, "@%p1 bra $L__BB0_1");
  EXPECT_EQ(kernel.name, "gemm_kernel");
  EXPECT_EQ(kernel.counts.instructions, 5);
  EXPECT_EQ(kernel.counts.classes.at("matrix"), 1);
  EXPECT_EQ(kernel.counts.widths.at("load_global 128"), 1);
  EXPECT_EQ(kernel.loops.size(), 1u);
  EXPECT_EQ(kernel.verdicts.front().severity, "good");
}

TEST(Amdgcn, ReadsAssemblyAndDisassembly) {
  const char* assembly =
      "\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n\t.text\nmfma_loop:                               ; "
      "@mfma_loop\n; %bb.0:\n"
      "\ts_load_dwordx4 s[0:3], s[4:5], 0x0\n.LBB0_1:                                ; =>This Inner Loop\n"
      "\tglobal_load_dwordx4 v[0:3], v[4:5], off\n\ts_waitcnt vmcnt(0)\n"
      "\tv_mfma_f32_32x32x8_bf16_1k a[0:15], v[6:7], v[4:5], a[0:15]\n\ts_cbranch_scc1 "
      ".LBB0_1\n\ts_endpgm\n.Lfunc_end0:\n";
  const char* disassembly =
      "k.co:\tfile format elf64-amdgpu\n\nDisassembly of section .text:\n\n0000000000001900 <mfma_loop>:\n"
      "\ts_load_dwordx4 s[0:3], s[4:5], 0x0                         // 000000001900: C00A0002 00000000\n"
      "\tglobal_load_dwordx4 v[0:3], v[4:5], off                    // 000000001908: DC5C8000 007F0004\n"
      "\ts_waitcnt vmcnt(0)                                         // 000000001910: BF8C0F70\n"
      "\tv_mfma_f32_32x32x8_bf16_1k a[0:15], v[6:7], v[4:5], a[0:15]// 000000001914: D3E08000 04020906\n"
      "\ts_cbranch_scc1 65530                                       // 00000000191C: BF85FFFA <mfma_loop+0x8>\n"
      "\ts_endpgm                                                   // 000000001920: BF810000\n";
  for (const char* text : {assembly, disassembly}) {
    ASSERT_EQ(*detect_listing(text), Isa::kAmdgcn);
    const auto inspections = inspect_bytes(text, "x", {});
    ASSERT_TRUE(inspections) << inspections.error().text();
    const record::KernelInspection& kernel = inspections->front().kernels.at(0);
    EXPECT_EQ(kernel.name, "mfma_loop");
    EXPECT_EQ(kernel.counts.instructions, 6);
    EXPECT_EQ(kernel.counts.classes.at("matrix"), 1);
    ASSERT_EQ(kernel.loops.size(), 1u) << text;
    EXPECT_EQ(kernel.loops[0].counts.instructions, 4);
  }
}

// What a compiler writes behind the code of two kernels; one has spilled.
const std::string kTwoKernels =
    "\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\nspilling:\n\tscratch_store_dword off, v1, off\n\ts_endpgm\n"
    "small:\n\ts_endpgm\n";
const std::string kTwoKernelsNoted =
    "amdhsa.kernels:\n  - .agpr_count:     128\n    .args:\n      - .name:           y.coerce\n        .offset:        "
    " 0\n"
    "    .group_segment_fixed_size: 16384\n    .max_flat_workgroup_size: 256\n    .name:           spilling\n"
    "    .private_segment_fixed_size: 96\n    .sgpr_count:     20\n    .sgpr_spill_count: 2\n    .vgpr_count:     256\n"
    "    .vgpr_spill_count: 17\n    .wavefront_size: 64\n  - .name:           small\n    .vgpr_count:     4\n"
    "    .vgpr_spill_count: 0\namdhsa.target:   amdgcn-amd-amdhsa--gfx942\n";

TEST(Amdgcn, ReadsRegistersAndSpillsFromTheMetadataOfAssembly) {
  // As a compiler ends a file, as a tool keeps it without the directives, and cut off behind the last kernel.
  for (const std::string& noted :
       {"\t.amdgpu_metadata\n---\n" + kTwoKernelsNoted + "...\n\t.end_amdgpu_metadata\n",
        "---\n" + kTwoKernelsNoted + "...\n", "\t.amdgpu_metadata\n---\n" + kTwoKernelsNoted}) {
    const auto inspections = inspect_bytes(kTwoKernels + noted, "x.s", {});
    ASSERT_TRUE(inspections) << inspections.error().text();
    EXPECT_TRUE(inspections->front().notes.empty()) << inspections->front().notes.front();
    ASSERT_EQ(inspections->front().kernels.size(), 2u) << noted;
    const record::KernelInspection& spilling = inspections->front().kernels[0];
    EXPECT_EQ(spilling.name, "spilling");
    EXPECT_EQ(spilling.counts.instructions, 2);
    EXPECT_EQ(spilling.resources.registers, 256);
    EXPECT_EQ(spilling.resources.accumulation_registers, 128);
    EXPECT_EQ(spilling.resources.spilled_registers, 19);
    EXPECT_EQ(spilling.resources.shared_bytes, 16384);
    EXPECT_EQ(spilling.resources.stack_bytes, 96);
    EXPECT_EQ(spilling.resources.max_threads, 256);
    EXPECT_TRUE(std::any_of(spilling.verdicts.begin(), spilling.verdicts.end(), [](const auto& verdict) {
      return verdict.severity == "bad" && verdict.message.find("19") != std::string::npos;
    }));
    EXPECT_EQ(inspections->front().kernels[1].resources.registers, 4);
    EXPECT_EQ(inspections->front().kernels[1].counts.instructions, 1);
  }
}

TEST(Amdgcn, MetadataThatIsNoneIsANoteAndTheCodeIsRead) {
  for (const char* bad : {"amdhsa.kernels: [\n", "amdhsa.kernels: 7\n", "\t\tx: : y\n"}) {
    const auto inspections =
        inspect_bytes(kTwoKernels + "\t.amdgpu_metadata\n---\n" + bad + "\t.end_amdgpu_metadata\n", "x.s", {});
    ASSERT_TRUE(inspections) << inspections.error().text();
    EXPECT_EQ(inspections->front().kernels.size(), 2u) << bad;
    ASSERT_EQ(inspections->front().notes.size(), 1u) << bad;
    EXPECT_NE(inspections->front().notes[0].find("metadata"), std::string::npos) << inspections->front().notes[0];
  }
}

TEST(Listing, IsRefusedWhenItIsNone) {
  const auto inspections = inspect_bytes("hello\nworld\n", "x.txt", {});
  ASSERT_FALSE(inspections);
  EXPECT_NE(inspections.error().hint.find("cubin"), std::string::npos);
  EXPECT_FALSE(inspect_bytes("", "x", {}));
}

TEST(Listing, Of200KilobytesTakesLessThan50Milliseconds) {
  std::string text = "\tcode for sm_90a\n\t\tFunction : big\n";
  for (int i = 0; text.size() < 200 * 1024; ++i) {
    text += fmt::format(
        "        /*{:04x}*/              @!P{} LDG.E.LTC128B.128 R{}, desc[UR4][R2.64+0x{:x}] ;   /* 0x{:016x} */\n",
        16 * i, i % 6, i % 250, 16 * i, i);
  }
  double best = 1;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto inspections = inspect_bytes(text, "x", {});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    ASSERT_TRUE(inspections);
  }
  EXPECT_LT(best, 0.050);
}

TEST(Difference, NamesInstructionsClassesAndKernels) {
  const auto left = inspect_bytes(kCuobjdump, "a", {});
  std::string changed = kCuobjdump;
  changed.replace(changed.find("LDG.E.128"), 9, "LDG.E.64 ");
  const auto right = inspect_bytes(changed, "b", {});
  const auto differences = difference(left->front(), right->front());
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].what, "LDG.E.128");
  EXPECT_EQ(differences[0].right, 0);
  EXPECT_TRUE(difference(left->front(), left->front()).empty());
}

TEST(Verdicts, TellAMatrixKernelOnTheWrongPath) {
  const std::string text =
      ".text.my_gemm:\n/*0000*/ FFMA R0, R1, R2, R0 ;\n/*0010*/ FFMA R0, R1, R2, R0 ;\n/*0020*/ EXIT ;\n";
  const auto verdict_of = [](const std::string& sass, const Options& options) {
    const auto inspections = inspect_bytes(sass, "x", options);
    const auto& verdicts = inspections->front().kernels.at(0).verdicts;
    return verdicts.empty() ? std::string("none") : verdicts.front().severity + ": " + verdicts.front().message;
  };
  EXPECT_EQ(verdict_of(text, {}), "bad: wrong path: no matrix instruction, 2 fused multiply-adds on lanes");
  std::string copy = text;
  copy.replace(copy.find("my_gemm"), 7, "my_norm");
  EXPECT_EQ(verdict_of(copy, {}), "none");
  EXPECT_TRUE(verdict_of(copy, {.expect_matrix = true}).starts_with("bad"));
  std::string matrix = text;
  matrix.replace(matrix.find("FFMA"), 4, "HGMMA.64x8x16.F32.BF16");
  EXPECT_TRUE(verdict_of(matrix, {}).starts_with("good"));
}

}  // namespace
}  // namespace ridge::inspect
