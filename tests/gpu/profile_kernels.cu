// Four kernels whose character is known, for proving that `ridge profile` says the right thing about each:
//   copy           128-bit loads and stores, coalesced: the memory's ceiling
//   strided_copy   neighbouring threads 128 bytes apart: most of every sector moves for nothing
//   fma_chain      independent multiply-adds in registers: the FMA pipes
//   matrix_chain   mma.sync on registers: the matrix units
// usage: profile_kernels KERNEL; runs it a few times after a warm-up of another name.
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

static_assert(__cplusplus >= 202002L);

namespace {

constexpr long kFloats = 1L << 28;  // 1 GiB an array: no cache holds it
constexpr int kThreads = 256, kStride = 32;

__global__ void warm_up(float* data) { data[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

__global__ void copy(float4* to, const float4* from, long count) {
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) to[i] = from[i];
}

// Lane l of a warp touches l * kStride: 32 sectors for 32 floats, and the rest of each sector is not used soon.
__global__ void strided_copy(float* to, const float* from) {
  constexpr long kRows = kFloats / kStride;  // a power of two: no division, which would keep the ALU busier than memory
  const long step = static_cast<long>(gridDim.x) * blockDim.x;
  for (long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x; i < kFloats; i += step) {
    const long at = (i & (kRows - 1)) * kStride + i / kRows;
    to[at] = from[at];
  }
}

__global__ void fma_chain(float* out, int steps, float scale) {
  float sum[16];
#pragma unroll
  for (int j = 0; j < 16; ++j) sum[j] = static_cast<float>(threadIdx.x + j);
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int j = 0; j < 16; ++j) sum[j] = fmaf(sum[j], scale, 1.0f);
  }
  float all = 0;
#pragma unroll
  for (int j = 0; j < 16; ++j) all += sum[j];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

__device__ void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void matrix_chain(float* out, int steps) {
  float c[8][4] = {};
  const std::uint32_t one = 0x3f803f80u, a[4] = {one, one, one, one}, b[2] = {one, one};
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) mma(c[j], a, b);
  }
  float all = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) all += c[j][0] + c[j][1] + c[j][2] + c[j][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = all;
}

bool failed(cudaError_t error, const char* what) {
  if (error != cudaSuccess) std::fprintf(stderr, "profile_kernels: %s: %s\n", what, cudaGetErrorString(error));
  return error != cudaSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  const char* wanted = argc == 2 ? argv[1] : "";
  int units = 0;
  if (failed(cudaDeviceGetAttribute(&units, cudaDevAttrMultiProcessorCount, 0), "no device")) return 77;
  float *a = nullptr, *b = nullptr;
  if (failed(cudaMalloc(&a, kFloats * sizeof(float)), "memory") ||
      failed(cudaMalloc(&b, kFloats * sizeof(float)), "memory"))
    return 1;
  const int blocks = units * 8;
  warm_up<<<blocks, kThreads>>>(a);
  for (int i = 0; i < 3; ++i) {
    if (std::strcmp(wanted, "copy") == 0) {
      copy<<<blocks * 4, kThreads>>>(reinterpret_cast<float4*>(b), reinterpret_cast<const float4*>(a), kFloats / 4);
    } else if (std::strcmp(wanted, "strided_copy") == 0) {
      strided_copy<<<blocks * 4, kThreads>>>(b, a);
    } else if (std::strcmp(wanted, "fma_chain") == 0) {
      fma_chain<<<blocks, kThreads>>>(b, 20000, 0.999f);
    } else if (std::strcmp(wanted, "matrix_chain") == 0) {
      matrix_chain<<<blocks, kThreads>>>(b, 20000);
    } else {
      std::fprintf(stderr, "usage: profile_kernels copy|strided_copy|fma_chain|matrix_chain\n");
      return 2;
    }
  }
  if (failed(cudaGetLastError(), "launch") || failed(cudaDeviceSynchronize(), "run")) return 1;
  return 0;
}
