// Kernels that do one thing as fast as the device can, for `ridge ceilings --on cuda`. Compiled at run time, once for
// each UNROLL: how many loads of 16 bytes a thread has in flight. Memory instructions are volatile assembly, so that
// none is moved, merged or dropped.
namespace ridge::ceiling {

using i64 = long long;
using u32 = unsigned int;
constexpr int kUnroll = UNROLL;

// How an access treats the caches: as the hardware likes, evicted first, or kept in the L2 and past the L1.
enum Policy : i64 { kPlain, kStreaming, kL2 };

template <int kPolicy>
__device__ __forceinline__ float4 load(const float4* at) {
  float4 v;
  if constexpr (kPolicy == kPlain) {
    asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
  } else if constexpr (kPolicy == kStreaming) {
    asm volatile("ld.global.cs.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
  } else {
    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
  }
  return v;
}

template <int kPolicy>
__device__ __forceinline__ void store(float4* at, float4 v) {
  if constexpr (kPolicy == kPlain) {
    asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
  } else if constexpr (kPolicy == kStreaming) {
    asm volatile("st.global.cs.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
  } else {
    asm volatile("st.global.cg.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
  }
}

// `passes` times over `count` elements of 16 bytes; the host makes it a multiple of what a block takes at a time.
template <int kPolicy, int kReads, bool kWrites>
__device__ __forceinline__ void stream(const float4* x, const float4* z, float4* y, i64 count, i64 passes) {
  constexpr float kScale = 0.75f;
  const i64 tile = static_cast<i64>(blockDim.x) * kUnroll, step = gridDim.x * tile;
  float4 sum = {1.0f, 1.0f, 1.0f, 1.0f};
  for (i64 pass = 0; pass < passes; ++pass) {
    for (i64 base = blockIdx.x * tile + threadIdx.x; base < count; base += step) {
      float4 a[kUnroll], b[kUnroll];
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) {
        const i64 at = base + static_cast<i64>(j) * blockDim.x;
        if constexpr (kReads > 0) a[j] = load<kPolicy>(x + at);
        if constexpr (kReads > 1) b[j] = load<kPolicy>(z + at);
      }
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) {
        if constexpr (kReads == 0) a[j] = sum;
        if constexpr (kReads > 1) {
          a[j] = {a[j].x + kScale * b[j].x, a[j].y + kScale * b[j].y, a[j].z + kScale * b[j].z,
                  a[j].w + kScale * b[j].w};
        }
        if constexpr (kWrites) {
          store<kPolicy>(y + base + static_cast<i64>(j) * blockDim.x, a[j]);
        } else {
          sum = {sum.x + a[j].x, sum.y + a[j].y, sum.z + a[j].z, sum.w + a[j].w};
        }
      }
    }
  }
  // Never true for sums of our data, which the compiler cannot know.
  if (!kWrites && sum.x + sum.y + sum.z + sum.w == -1.2345e-30f) y[threadIdx.x] = sum;
}

template <int kReads, bool kWrites>
__device__ __forceinline__ void stream(const float4* x, const float4* z, float4* y, i64 count, i64 passes, i64 policy) {
  if (policy == kPlain) return stream<kPlain, kReads, kWrites>(x, z, y, count, passes);
  if (policy == kStreaming) return stream<kStreaming, kReads, kWrites>(x, z, y, count, passes);
  return stream<kL2, kReads, kWrites>(x, z, y, count, passes);
}

// Independent chains of multiply-adds in registers; eight steps between two branches, so that counting costs nothing.
template <class T>
__device__ __forceinline__ void multiply_add(T* out, i64 steps) {
  constexpr int kChains = 16;
  const T scale = static_cast<T>(0.999) + static_cast<T>(blockIdx.x) * static_cast<T>(1e-9);
  T sum[kChains];
#pragma unroll
  for (int j = 0; j < kChains; ++j) sum[j] = static_cast<T>(threadIdx.x + j);
#pragma unroll 8
  for (i64 i = 0; i < steps / 8 * 8; ++i) {
#pragma unroll
    for (int j = 0; j < kChains; ++j) sum[j] = sum[j] * scale + static_cast<T>(1);
  }
  T all = 0;
#pragma unroll
  for (int j = 0; j < kChains; ++j) all += sum[j];
  if (all == static_cast<T>(-12345)) out[threadIdx.x] = all;
}

}  // namespace ridge::ceiling

using namespace ridge::ceiling;

extern "C" __global__ void ridge_read(const float4* x, const float4* z, float4* y, i64 count, i64 passes, i64 policy) {
  stream<1, false>(x, z, y, count, passes, policy);
}
extern "C" __global__ void ridge_write(const float4* x, const float4* z, float4* y, i64 count, i64 passes, i64 policy) {
  stream<0, true>(x, z, y, count, passes, policy);
}
extern "C" __global__ void ridge_copy(const float4* x, const float4* z, float4* y, i64 count, i64 passes, i64 policy) {
  stream<1, true>(x, z, y, count, passes, policy);
}
extern "C" __global__ void ridge_triad(const float4* x, const float4* z, float4* y, i64 count, i64 passes, i64 policy) {
  stream<2, true>(x, z, y, count, passes, policy);
}

// 512 threads. Every warp reads 512 bytes in a row at a time: no bank conflicts. 64 loads of 16 bytes a thread and
// step.
extern "C" __global__ void __launch_bounds__(512) ridge_shared(float* out, i64 steps) {
  constexpr int kThreads = 512, kRows = 4, kLoads = 64;
  __shared__ float4 tile[kRows * kThreads];
  for (int j = 0; j < kRows; ++j) tile[j * kThreads + threadIdx.x] = {1.0f, 2.0f, 3.0f, 4.0f};
  __syncthreads();
  const u32 start = static_cast<u32>(__cvta_generic_to_shared(tile + threadIdx.x));
  float sum = 0;
  for (i64 i = 0; i < steps; ++i) {
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      float4 v;
      asm volatile("ld.volatile.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "r"(start + (j % kRows) * kThreads * 16));
      sum += v.x;
    }
  }
  if (sum == -1.0f) out[threadIdx.x] = sum;
}

extern "C" __global__ void ridge_fma_f32(float* out, i64 steps) { multiply_add(out, steps); }
extern "C" __global__ void ridge_fma_f64(double* out, i64 steps) { multiply_add(out, steps); }

extern "C" __global__ void ridge_empty() {}
