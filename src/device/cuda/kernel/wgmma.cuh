// wgmma: the warpgroup matrix instruction. Four consecutive warps (the first a multiple of four) together compute a 64
// x N tile; A and B are read from shared memory through 64-bit descriptors, the accumulator lives in N/2 registers per
// thread. The instruction is asynchronous: accumulators may not be touched between the first issue and the wait, or the
// compiler serialises the whole pipeline and says so (C7510), which our build treats as an error.
//
// Accumulator layout: thread t of the warpgroup (warp w = t/32, lane l = t%32) holds in d[4j + 2h + p] the element of
// row 16w + 8h + l/4 and column 8j + 2(l%4) + p.
#pragma once
#include "swizzle.cuh"

namespace ridge::cuda {

// Tf32: fp32 in memory, of which the matrix unit reads 8 exponent and 10 mantissa bits.
enum class MatrixType { kBf16, kF16, kE4m3, kE5m2, kTf32, kF32 };
template <MatrixType kType>
inline constexpr u32 kTypeBytes = kType == MatrixType::kTf32 || kType == MatrixType::kF32    ? 4
                                  : kType == MatrixType::kE4m3 || kType == MatrixType::kE5m2 ? 1
                                                                                             : 2;
// K-major: K is contiguous in memory. MN-major: M (for A) or N (for B) is contiguous; 16-bit types only, a hardware
// limit.
enum class Major { kK, kMn };

// Bytes of K that one instruction consumes, for every type: 8 elements of 4 bytes, 16 of 2 or 32 of 1.
inline constexpr u32 kWgmmaStepBytes = 32;

// Descriptor fields, in units of 16 bytes: start address (bits 0-13), leading offset (16-29), stride offset (32-45),
// and the swizzle mode (bits 62-63, 1 = 128 bytes). K-major with a 128-byte swizzle: consecutive groups of eight rows
// are `stride` apart and the leading offset is not used. MN-major: `stride` separates groups of eight K rows and
// `leading` separates columns of 64 elements.
template <Major kMajor>
__device__ __forceinline__ u64 matrix_descriptor(u32 shared_byte_address, u32 leading_bytes) {
  const u32 leading = kMajor == Major::kK ? 1u : leading_bytes >> 4;
  const u32 low = ((shared_byte_address & 0x3FFFFu) >> 4) | (leading << 16);
  const u32 high = (kAtomBytes >> 4) | (1u << 30);
  return (static_cast<u64>(high) << 32) | low;
}

// How far one K step moves the start address. K-major: 32 bytes inside the swizzled row (the hardware applies the XOR
// to the resulting address). MN-major: 16 rows of K.
template <Major kMajor>
inline constexpr u32 kDescriptorStep = kMajor == Major::kK ? (kWgmmaStepBytes >> 4) : (16 * kRowBytes >> 4);

// Orders register writes to accumulators before the next wgmma, and opens the instruction group.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// Stops the compiler from moving reads or writes of an accumulator across this point.
template <int Count>
__device__ __forceinline__ void keep_in_registers(float (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// d = A * B + (accumulate ? d : 0). `mma` reads A from shared memory; `mma_register_a` takes it from four registers per
// thread (16-bit types and e4m3, K-major by nature): a[2i + h] holds, of row 16w + 8h + l/4, columns 8i + 2(l%4) and
// the next. These are the rows and columns of accumulators d[8c + 4i + 2h] and d[8c + 4i + 2h + 1], so a finished tile
// becomes the next product's A by packing neighbours, with no exchange between threads. Of e4m3 it holds columns 16i +
// 4(l%4) and the next three: a finished tile is that of other columns (src/ops/attention/fp8/key_order.cuh).
template <int N, MatrixType kTypeA, MatrixType kTypeB, Major kMajorA, Major kMajorB>
struct Wgmma {
  static_assert(N < 0, "no wgmma wrapper for this N: add RIDGE_WGMMA_SHAPE for it");
};

// The operand numbers inside an asm string must be literals, so each N spells its own: the accumulators take 0 .. N/2-1
// and the five inputs follow.

#define RIDGE_D8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define RIDGE_D16 RIDGE_D8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define RIDGE_D24 RIDGE_D16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define RIDGE_D32 RIDGE_D24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define RIDGE_D40 RIDGE_D32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define RIDGE_D48 RIDGE_D40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define RIDGE_D56 RIDGE_D48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define RIDGE_D64 RIDGE_D56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define RIDGE_D72 RIDGE_D64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define RIDGE_D80 RIDGE_D72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define RIDGE_D88 RIDGE_D80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define RIDGE_D96 RIDGE_D88 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define RIDGE_D104 RIDGE_D96 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define RIDGE_D112 RIDGE_D104 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define RIDGE_D120 RIDGE_D112 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define RIDGE_D128 RIDGE_D120 ",%120,%121,%122,%123,%124,%125,%126,%127"

#define RIDGE_O8(i)                                                                                           \
  "+f"(d[(i) + 0]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), \
      "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define RIDGE_O16(i) RIDGE_O8(i), RIDGE_O8((i) + 8)
#define RIDGE_O32(i) RIDGE_O16(i), RIDGE_O16((i) + 16)
#define RIDGE_O64(i) RIDGE_O32(i), RIDGE_O32((i) + 32)
#define RIDGE_OUT_16 RIDGE_O16(0)
#define RIDGE_OUT_32 RIDGE_O32(0)
#define RIDGE_OUT_40 RIDGE_O32(0), RIDGE_O8(32)
#define RIDGE_OUT_48 RIDGE_O32(0), RIDGE_O16(32)
#define RIDGE_OUT_56 RIDGE_O32(0), RIDGE_O16(32), RIDGE_O8(48)
#define RIDGE_OUT_64 RIDGE_O64(0)
#define RIDGE_OUT_80 RIDGE_O64(0), RIDGE_O16(64)
#define RIDGE_OUT_88 RIDGE_O64(0), RIDGE_O16(64), RIDGE_O8(80)
#define RIDGE_OUT_96 RIDGE_O64(0), RIDGE_O32(64)
#define RIDGE_OUT_104 RIDGE_O64(0), RIDGE_O32(64), RIDGE_O8(96)
#define RIDGE_OUT_112 RIDGE_O64(0), RIDGE_O32(64), RIDGE_O16(96)
#define RIDGE_OUT_128 RIDGE_O64(0), RIDGE_O64(64)

#define RIDGE_WGMMA_16BIT(N, KIND, R, A, B, P, TA, TB)                                                              \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND \
               " {" RIDGE_D##R "}, %" #A ", %" #B ", p, 1, 1, %" #TA ", %" #TB ";\n}\n"                             \
               : RIDGE_OUT_##R                                                                                      \
               : "l"(a), "l"(b), "r"(accumulate), "n"(kMajorA == Major::kMn ? 1 : 0),                               \
                 "n"(kMajorB == Major::kMn ? 1 : 0))
#define RIDGE_WGMMA_K_MAJOR(N, DEPTH, KIND, R, A, B, P)                                                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N DEPTH KIND \
               " {" RIDGE_D##R "}, %" #A ", %" #B ", p, 1, 1;\n}\n"                                            \
               : RIDGE_OUT_##R                                                                                 \
               : "l"(a), "l"(b), "r"(accumulate))

// A from registers: the first four inputs (numbered A, B, P, TA above) are A's, the descriptor of B is TB.
#define RIDGE_WGMMA_REGISTER_A(N, KIND, R, A0, A1, A2, A3, B, P, TB)                                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." KIND \
               " {" RIDGE_D##R "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", p, 1, 1, %" #TB ";\n}\n"         \
               : RIDGE_OUT_##R                                                                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),                               \
                 "n"(kMajorB == Major::kMn ? 1 : 0))

#define RIDGE_WGMMA_REGISTER_A_K_MAJOR(N, KIND, R, A0, A1, A2, A3, B, P)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k32.f32." KIND \
               " {" RIDGE_D##R "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", p, 1, 1;\n}\n"                   \
               : RIDGE_OUT_##R                                                                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate))

#define RIDGE_WGMMA_SHAPE(N, R, A, B, P, TA, TB, P4, TB4)                                                            \
  template <MatrixType kTypeA, MatrixType kTypeB, Major kMajorA, Major kMajorB>                                      \
  struct Wgmma<N, kTypeA, kTypeB, kMajorA, kMajorB> {                                                                \
    static constexpr int kAccumulators = R;                                                                          \
    static __device__ __forceinline__ void mma(float (&d)[R], u64 a, u64 b, u32 accumulate) {                        \
      if constexpr (kTypeA == MatrixType::kBf16 && kTypeB == MatrixType::kBf16) {                                    \
        RIDGE_WGMMA_16BIT(N, "bf16.bf16", R, A, B, P, TA, TB);                                                       \
      } else if constexpr (kTypeA == MatrixType::kF16 && kTypeB == MatrixType::kF16) {                               \
        RIDGE_WGMMA_16BIT(N, "f16.f16", R, A, B, P, TA, TB);                                                         \
      } else {                                                                                                       \
        static_assert(kMajorA == Major::kK && kMajorB == Major::kK, "only 16-bit wgmma reads MN-major operands");    \
        if constexpr (kTypeA == MatrixType::kTf32 && kTypeB == MatrixType::kTf32) {                                  \
          RIDGE_WGMMA_K_MAJOR(N, "k8.f32.", "tf32.tf32", R, A, B, P);                                                \
        } else if constexpr (kTypeA == MatrixType::kE4m3 && kTypeB == MatrixType::kE4m3) {                           \
          RIDGE_WGMMA_K_MAJOR(N, "k32.f32.", "e4m3.e4m3", R, A, B, P);                                               \
        } else if constexpr (kTypeA == MatrixType::kE4m3 && kTypeB == MatrixType::kE5m2) {                           \
          RIDGE_WGMMA_K_MAJOR(N, "k32.f32.", "e4m3.e5m2", R, A, B, P);                                               \
        } else if constexpr (kTypeA == MatrixType::kE5m2 && kTypeB == MatrixType::kE4m3) {                           \
          RIDGE_WGMMA_K_MAJOR(N, "k32.f32.", "e5m2.e4m3", R, A, B, P);                                               \
        } else {                                                                                                     \
          RIDGE_WGMMA_K_MAJOR(N, "k32.f32.", "e5m2.e5m2", R, A, B, P);                                               \
        }                                                                                                            \
      }                                                                                                              \
    }                                                                                                                \
    static __device__ __forceinline__ void mma_register_a(float (&d)[R], const u32 (&a)[4], u64 b, u32 accumulate) { \
      static_assert(kTypeA == kTypeB && kMajorA == Major::kK, "A in registers is K-major and of the type of B");     \
      if constexpr (kTypeA == MatrixType::kBf16) {                                                                   \
        RIDGE_WGMMA_REGISTER_A(N, "bf16.bf16", R, A, B, P, TA, TB, P4, TB4);                                         \
      } else if constexpr (kTypeA == MatrixType::kF16) {                                                             \
        RIDGE_WGMMA_REGISTER_A(N, "f16.f16", R, A, B, P, TA, TB, P4, TB4);                                           \
      } else {                                                                                                       \
        static_assert(kTypeA == MatrixType::kE4m3 && kMajorB == Major::kK, "no other type has A in registers");      \
        RIDGE_WGMMA_REGISTER_A_K_MAJOR(N, "e4m3.e4m3", R, A, B, P, TA, TB, P4);                                      \
      }                                                                                                              \
    }                                                                                                                \
  }

RIDGE_WGMMA_SHAPE(32, 16, 16, 17, 18, 19, 20, 21, 22);
RIDGE_WGMMA_SHAPE(64, 32, 32, 33, 34, 35, 36, 37, 38);
RIDGE_WGMMA_SHAPE(80, 40, 40, 41, 42, 43, 44, 45, 46);
RIDGE_WGMMA_SHAPE(96, 48, 48, 49, 50, 51, 52, 53, 54);
RIDGE_WGMMA_SHAPE(112, 56, 56, 57, 58, 59, 60, 61, 62);
RIDGE_WGMMA_SHAPE(128, 64, 64, 65, 66, 67, 68, 69, 70);
RIDGE_WGMMA_SHAPE(160, 80, 80, 81, 82, 83, 84, 85, 86);
RIDGE_WGMMA_SHAPE(176, 88, 88, 89, 90, 91, 92, 93, 94);
RIDGE_WGMMA_SHAPE(192, 96, 96, 97, 98, 99, 100, 101, 102);
RIDGE_WGMMA_SHAPE(208, 104, 104, 105, 106, 107, 108, 109, 110);
RIDGE_WGMMA_SHAPE(224, 112, 112, 113, 114, 115, 116, 117, 118);
RIDGE_WGMMA_SHAPE(256, 128, 128, 129, 130, 131, 132, 133, 134);

#undef RIDGE_D8
#undef RIDGE_D16
#undef RIDGE_D24
#undef RIDGE_D32
#undef RIDGE_D40
#undef RIDGE_D48
#undef RIDGE_D56
#undef RIDGE_D64
#undef RIDGE_D72
#undef RIDGE_D80
#undef RIDGE_D88
#undef RIDGE_D96
#undef RIDGE_D104
#undef RIDGE_D112
#undef RIDGE_D120
#undef RIDGE_D128
#undef RIDGE_O8
#undef RIDGE_O16
#undef RIDGE_O32
#undef RIDGE_O64
#undef RIDGE_OUT_16
#undef RIDGE_OUT_32
#undef RIDGE_OUT_40
#undef RIDGE_OUT_48
#undef RIDGE_OUT_56
#undef RIDGE_OUT_64
#undef RIDGE_OUT_80
#undef RIDGE_OUT_88
#undef RIDGE_OUT_96
#undef RIDGE_OUT_104
#undef RIDGE_OUT_112
#undef RIDGE_OUT_128
#undef RIDGE_WGMMA_16BIT
#undef RIDGE_WGMMA_K_MAJOR
#undef RIDGE_WGMMA_REGISTER_A
#undef RIDGE_WGMMA_REGISTER_A_K_MAJOR
#undef RIDGE_WGMMA_SHAPE

}  // namespace ridge::cuda
