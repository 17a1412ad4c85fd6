// What the CUDA kernels of both directions share: which rows count, a logit as the formula knows it, its powers, and
// rows that start anywhere.
#pragma once
#include "../../device/cuda/kernel/chunk.cuh"

namespace ridge::cuda {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLeastFloat = -3.402823466e38f;

// The scalars of a call. Whole numbers come as doubles, which launch plans carry: exact up to 2^53.
struct LossSettings {
  float smoothing, z_loss, cap, scale;
  double ignored, first, whole;
};

// What becomes of a row: a wrong target makes it NaN, because a kernel has no other way to say so.
enum class RowKind { kCounts, kIgnored, kWrong };

template <bool kWide>
class Targets {
 public:
  __device__ __forceinline__ Targets(const void* data, const LossSettings& s)
      : data_(data), ignored_(static_cast<i64>(s.ignored)), whole_(static_cast<i64>(s.whole)) {}

  __device__ __forceinline__ i64 operator[](i64 row) const {
    if constexpr (kWide) return static_cast<const i64*>(data_)[row];
    return static_cast<const i32*>(data_)[row];
  }
  __device__ __forceinline__ RowKind kind(i64 target) const {
    if (target == ignored_) return RowKind::kIgnored;
    return target >= 0 && target < whole_ ? RowKind::kCounts : RowKind::kWrong;
  }

 private:
  const void* data_;
  i64 ignored_, whole_;
};

// A logit as the formula knows it, cap tanh(t) of t = x / cap. Of |t| from 1/2 that is (1 - u) / (1 + u) with u =
// exp(-2 |t|), whose slope is 4 u / (1 + u)^2. Below, the difference has fewer digits the smaller t is: there it is x
// times tanh(t) / t, a polynomial in t^2 that interpolates it (with the roundings 2 units of 2^-24).
template <bool kCapped>
class LogitOf {
 public:
  __device__ __forceinline__ explicit LogitOf(float cap) : cap_(cap) {
    if constexpr (kCapped) inverse_ = fminf(1.0f / cap, -kLeastFloat);
  }
  __device__ __forceinline__ float operator()(float given) const {
    float slope;
    return (*this)(given, slope);
  }
  __device__ __forceinline__ float operator()(float given, float& slope) const {
    slope = 1.0f;
    if constexpr (!kCapped) return given;
    const float t = fabsf(given) * inverse_, square = t * t;
    const float u = exp2_approx(t * (-2.0f * kLog2E)), share = reciprocal(1.0f + u);
    slope = 4.0f * u * share * share;
    float series = fmaf(square, 0.0179887451f, -0.0533871092f);
    series = fmaf(square, series, 0.13330476f);
    series = fmaf(square, series, -0.333333105f);
    const float near = given * fmaf(square, series, 1.0f);
    return square < 0.25f ? near : copysignf((1.0f - u) * share * cap_, given);
  }

 private:
  float cap_, inverse_ = 0.0f;
};

// e^(x - base), for sums. The difference first: logits of thousands would lose it in a fused multiplication.
__device__ __forceinline__ float power_beside(float x, float base) { return exp2_approx((x - base) * kLog2E); }
// The same for gradients, where a single power counts: the product above rounds to a part of the exponent, which for
// a logit far below its base is a dozen steps of the power.
__device__ __forceinline__ float exact_power_beside(float x, float base) { return expf(x - base); }

// The gradient of a row's logits: scale (share e^(x - base) - shift) dx/dlogits. The scale comes last: multiplied in
// before the difference, its roundings would count as much as the two that are subtracted.
struct RowGradient {
  float base, share, shift, scale;

  template <bool kCapped>
  __device__ __forceinline__ float operator()(float given, const LogitOf<kCapped>& logit) const {
    float slope;
    const float x = logit(given, slope), found = fmaf(exact_power_beside(x, base), share, -shift) * scale;
    return kCapped ? found * slope : found;
  }
  template <bool kCapped, class Words>
  __device__ __forceinline__ void operator()(Words& chunk, const LogitOf<kCapped>& logit) const {
    float found[Words::kCount];
#pragma unroll
    for (u32 i = 0; i < Words::kCount; ++i) found[i] = (*this)(chunk[i], logit);
    chunk.set(found);
  }
};

// Every row of 16 bytes alike.
template <class Words>
__device__ __forceinline__ Words filled_chunk(float value) {
  float values[Words::kCount];
#pragma unroll
  for (u32 i = 0; i < Words::kCount; ++i) values[i] = value;
  Words chunk;
  chunk.set(values);
  return chunk;
}

// A run of elements that starts anywhere: `head` of them go one by one, then `chunks` of 16 bytes, then what is left.
// One by one go all of a run that is written where 16 bytes lie otherwise than where they are read.
template <class Words>
struct Span {
  i64 count, head, chunks;

  __device__ __forceinline__ Span(const u8* from, const u8* to, i64 elements) : count(elements) {
    const u32 off = static_cast<u32>(reinterpret_cast<u64>(from) & 15u);
    const bool alike = to == nullptr || ((reinterpret_cast<u64>(from) ^ reinterpret_cast<u64>(to)) & 15u) == 0;
    head = alike ? min(elements, static_cast<i64>((16u - off) % 16u / Words::kBytes)) : elements;
    chunks = (elements - head) / Words::kCount;
  }
  __device__ __forceinline__ i64 ones() const { return count - chunks * Words::kCount; }
  // The i-th of those that go one by one.
  __device__ __forceinline__ i64 one(i64 i) const { return i < head ? i : i + chunks * Words::kCount; }
  __device__ __forceinline__ i64 chunk_at(i64 chunk) const { return head + chunk * Words::kCount; }
};

}  // namespace ridge::cuda
