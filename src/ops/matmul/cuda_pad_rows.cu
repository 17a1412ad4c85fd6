// Copies of the operands of a matrix product whose rows do not start on 16 bytes, with rows that start on lines of 128:
// what the copy engine, and with it cuda_wgmma.cu, can read. A, B and scales that run along K go in one launch.
//
// A thread makes four chunks of 16 bytes of the copy. Each lies across two aligned chunks of the row it comes from,
// which are read whole and shifted; a neighbour's second one is in the first-level cache. All reads of a thread are in
// flight before the first chunk is stored. Behind the end of a row its last chunk holds zeros; what comes after that is
// left as it is, because the copy engine, which knows where rows end, does not read it.
//
// Bound by memory: every byte is read and written once. It pays wherever the matrix unit then multiplies fifteen times
// as fast as cuda_simt.cu, which needs no copy, so for all but a few sums of a few dozen products.

// clang-format off
/* ridge-kernel
op = ["gemm", "gemm_fp8"]
# Three blocks share a multiprocessor: 48 KiB on their way.
max_registers = 80
sass = [{ opcode = "LDG" }, { opcode = "STG" }]
[configs]
default = { }
[variants]
nt_bf16 = { case = "gemm m=4096 n=4096 k=4095 dtype=bf16 layout=nt", every = true }
*/
/* ridge-launch
[[value]]
name = "rows_a"
expression = "a_mn_major ? k : m"
[[value]]
name = "bytes_a"
expression = "(a_mn_major ? m : k) * size_a"
[[value]]
name = "rows_b"
expression = "b_mn_major ? k : n"
[[value]]
name = "bytes_b"
expression = "(b_mn_major ? n : k) * size_a"
[[value]]
name = "rows_of_scales"
expression = "ceil_div(k, 128)"
# Rows of the copies, bytes.
[[value]]
name = "pitch_a"
expression = "round_up(bytes_a, 128)"
[[value]]
name = "pitch_b"
expression = "round_up(bytes_b, 128)"
[[value]]
name = "pitch_scale_a"
expression = "round_up(m * 4, 128)"
[[value]]
name = "pitch_scale_b"
expression = "round_up(n * 4, 128)"
# Chunks of 16 bytes; of what is not copied none.
[[value]]
name = "chunks_a"
expression = "a_align < 16 ? rows_a * ceil_div(bytes_a, 16) : 0"
[[value]]
name = "chunks_b"
expression = "b_align < 16 ? rows_b * ceil_div(bytes_b, 16) : 0"
[[value]]
name = "chunks_scale_a"
expression = "(scales == 3 || scales == 4) && align_scale_a < 16 ? rows_of_scales * ceil_div(m * 4, 16) : 0"
[[value]]
name = "chunks_scale_b"
expression = "scales == 4 && align_scale_b < 16 ? rows_of_scales * ceil_div(n * 4, 16) : 0"
[[value]]
name = "chunks"
expression = "chunks_a + chunks_b + chunks_scale_a + chunks_scale_b"

[[needs]]
expression = "batch == 1"
reason = "one matrix at a time"
[[needs]]
expression = "chunks > 0"
reason = "every row starts on 16 bytes: nothing to copy"
[[needs]]
expression = "max(bytes_a, bytes_b) <= 4294967295 && chunks <= 2147483647"
reason = "bytes of a row and chunks are counted in 32 bits"

[[workspace]]
name = "padded_a"
bytes = "chunks_a > 0 ? rows_a * pitch_a : 0"
[[workspace]]
name = "padded_b"
bytes = "chunks_b > 0 ? rows_b * pitch_b : 0"
[[workspace]]
name = "padded_scale_a"
bytes = "chunks_scale_a > 0 ? rows_of_scales * pitch_scale_a : 0"
[[workspace]]
name = "padded_scale_b"
bytes = "chunks_scale_b > 0 ? rows_of_scales * pitch_scale_b : 0"

[[kernel]]
symbol = "ridge_pad_rows"
grid = ["ceil_div(chunks_a, 1024) + ceil_div(chunks_b, 1024) + ceil_div(chunks_scale_a, 1024) + ceil_div(chunks_scale_b, 1024)"]
block = [256]
args = [{ struct = [
  { operand = "a" }, { workspace = "padded_a" }, { i64 = "row_a * size_a" }, { i64 = "(rows_a - 1) * row_a * size_a + bytes_a" }, { i64 = "pitch_a" }, { u32 = "bytes_a" }, { u32 = "ceil_div(bytes_a, 16)" },
  { u32 = "chunks_a" }, { u32 = "ceil_div(chunks_a, 1024)" },
  { operand = "b" }, { workspace = "padded_b" }, { i64 = "row_b * size_a" }, { i64 = "(rows_b - 1) * row_b * size_a + bytes_b" }, { i64 = "pitch_b" }, { u32 = "bytes_b" }, { u32 = "ceil_div(bytes_b, 16)" },
  { u32 = "chunks_b" }, { u32 = "ceil_div(chunks_b, 1024)" },
  { operand = "scale_a", when = "scales > 0" }, { workspace = "padded_scale_a" }, { i64 = "scale_stride_a * 4" }, { i64 = "(rows_of_scales - 1) * scale_stride_a * 4 + m * 4" }, { i64 = "pitch_scale_a" }, { u32 = "m * 4" }, { u32 = "ceil_div(m * 4, 16)" },
  { u32 = "chunks_scale_a" }, { u32 = "ceil_div(chunks_scale_a, 1024)" },
  { operand = "scale_b", when = "scales > 0" }, { workspace = "padded_scale_b" }, { i64 = "scale_stride_b * 4" }, { i64 = "(rows_of_scales - 1) * scale_stride_b * 4 + n * 4" }, { i64 = "pitch_scale_b" }, { u32 = "n * 4" }, { u32 = "ceil_div(n * 4, 16)" },
  { u32 = "chunks_scale_b" }, { u32 = "ceil_div(chunks_scale_b, 1024)" },
] }]
*/
// clang-format on

// Nothing is included: a test runs this on the host (tests/ops/pad_rows_test.cpp).
namespace ridge::cuda {

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

// A matrix and where its copy goes, as the launch plan fills it.
struct RowsToPad {
  const u8* from;
  u8* to;
  u64 pitch_from, span;  // bytes between rows, and from the first byte to the end of the last row
  u64 pitch_to;
  u32 row_bytes, row_chunks;
  u32 chunks;  // of all rows
  u32 blocks;  // that copy it
};
// A, B and their scales; what is not copied has no blocks.
struct PaddedOperands {
  RowsToPad each[4];
};

namespace {

constexpr u32 kThreads = 256, kPerThread = 4, kChunk = 16;

// Sixteen bytes, the lower addresses in `low`.
struct Piece {
  u64 low = 0, high = 0;

  // The address is a multiple of 16. A predicate instead of a branch, which would be waited for before the next read.
  __device__ __forceinline__ void load(u64 address, bool wanted) {
#ifdef RIDGE_CHECK_ON_HOST
    if (wanted) low = reinterpret_cast<const u64*>(address)[0], high = reinterpret_cast<const u64*>(address)[1];
#else
    const u32 on = wanted;
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p ld.global.nc.v2.u64 {%0, %1}, [%2];\n}\n"
                 : "+l"(low), "+l"(high)
                 : "l"(address), "r"(on));
#endif
  }
  // Those of its bytes that lie from `first` up to `last`.
  __device__ __forceinline__ void load_bytes(u64 address, u64 first, u64 last) {
#pragma unroll 1
    for (u32 i = 0; i < kChunk; ++i) {
      if (address + i < first || address + i >= last) continue;
      const u64 byte = *reinterpret_cast<const u8*>(address + i);
      if (i < 8) {
        low |= byte << 8 * i;
      } else {
        high |= byte << 8 * (i - 8);
      }
    }
  }
  // The first of its bytes, 1 to 16 of them, and zeros.
  __device__ __forceinline__ void keep(u32 bytes) {
    constexpr u64 kAll = ~u64{0};
    low &= bytes >= 8 ? kAll : kAll >> (64 - 8 * bytes);
    high &= bytes <= 8 ? 0 : kAll >> (128 - 8 * bytes);
  }
};

// The 16 bytes that begin `offset` bytes into two neighbours.
__device__ __forceinline__ Piece shifted(const Piece& first, const Piece& second, u32 offset) {
  const bool far = offset >= 8;
  const u64 x = far ? first.high : first.low, y = far ? second.low : first.high, z = far ? second.high : second.low;
  const u32 bits = offset % 8 * 8;  // of 64 a shift is not defined, so the upper parts go in two
  return {x >> bits | y << 1 << (63 - bits), y >> bits | z << 1 << (63 - bits)};
}

// kEdge: aligned chunks around the first and the last byte, which reach out of the matrix and maybe out of its memory.
// They are within 32 bytes of its ends: in the first block and in the last two.
template <bool kEdge>
__device__ __forceinline__ void copy_chunks(const RowsToPad& rows, u32 block) {
  const u64 begin = reinterpret_cast<u64>(rows.from), pitch = rows.pitch_from, end = begin + rows.span;
  const auto inside = [&](u64 address) { return (!kEdge) | ((address >= begin) & (address + kChunk <= end)); };
  Piece first[kPerThread], second[kPerThread];
  u32 row[kPerThread], at[kPerThread];
  const u32 number = block * (kPerThread * kThreads) + threadIdx.x;
#pragma unroll
  for (u32 i = 0; i < kPerThread; ++i) {
    const u32 chunk = number + i * kThreads;
    row[i] = chunk / rows.row_chunks;
    at[i] = (chunk - row[i] * rows.row_chunks) * kChunk;
    const u64 source = begin + row[i] * pitch + at[i], aligned = source & ~u64{kChunk - 1};
    const bool there = chunk < rows.chunks;
    const bool reaches_over = source + min(kChunk, rows.row_bytes - at[i]) > aligned + kChunk;
    first[i].load(aligned, there & inside(aligned));
    second[i].load(aligned + kChunk, there & reaches_over & inside(aligned + kChunk));
  }
#pragma unroll
  for (u32 i = 0; i < kPerThread; ++i) {
    if (number + i * kThreads >= rows.chunks) break;
    const u64 source = begin + row[i] * pitch + at[i], aligned = source & ~u64{kChunk - 1};
    if (!inside(aligned)) first[i].load_bytes(aligned, begin, end);
    if (!inside(aligned + kChunk)) second[i].load_bytes(aligned + kChunk, begin, end);
    Piece piece = shifted(first[i], second[i], static_cast<u32>(source - aligned));
    piece.keep(min(kChunk, rows.row_bytes - at[i]));
    u8* const target = rows.to + row[i] * rows.pitch_to + at[i];
    *reinterpret_cast<ulonglong2*>(target) = make_ulonglong2(piece.low, piece.high);
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(256, 3)
    ridge_pad_rows(const __grid_constant__ ridge::cuda::PaddedOperands operands) {
  ridge::cuda::u32 block = blockIdx.x, which = 0;
  while (block >= operands.each[which].blocks) block -= operands.each[which++].blocks;
  const ridge::cuda::RowsToPad& rows = operands.each[which];
  if (block == 0 || block + 2 >= rows.blocks) {
    ridge::cuda::copy_chunks<true>(rows, block);
  } else {
    ridge::cuda::copy_chunks<false>(rows, block);
  }
}
