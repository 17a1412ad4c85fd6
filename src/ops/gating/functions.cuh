// The functions of activation and their derivatives in fp32, for all kernels that have them. In the order of the row
// models' operations or with fewer roundings, so that its bounds hold. Stands behind ptx.cuh and includes nothing: a
// test has it on the host, with special functions that are as far off as a GPU's may be.
#pragma once

namespace ridge::cuda {

enum class Function { kSilu, kGelu, kGeluTanh, kRelu, kRelu2, kClampedSilu };  // ActivationFunction

struct Limits {
  float alpha, limit;
};

// f(x) and f'(x); of relu2 half of that, which may be more than fp32 holds where its product with dy is not.
struct Value {
  float f, slope;
};

// 1 / (1 + e^-x), which is 0 where e^-x is infinite: a step of e^x, half a step of the sum and a step of the reciprocal
// off at most. __expf would be off by a step more for every |x|, which the model does not allow. The slope is
// s (1 - s), in one rounding.
__device__ __forceinline__ float sigmoid(float x) { return reciprocal(1.0f + expf(-x)); }
__device__ __forceinline__ float sigmoid_slope(float s) { return fmaf(-s, s, s); }

// 1 - Phi(|x|), and the density of x times sqrt(2 pi). erfc(z) = 2 e^(-z^2) (1/2 + w R(w)) of z = |x| / sqrt(2) and
// w = z / (z + 2), with R fitted by least squares at Chebyshev's points of z from 0 to 20. Beyond 28 both are 0 in
// fp32.
struct Normal {
  float tail, power;
};
__device__ __forceinline__ Normal normal(float x) {
  const float size = fminf(fabsf(x), 28.0f), w = size * reciprocal(size + 0x1.6a09e6p1f);
  float fit = 0x1.ef321cp-6f;
  fit = fmaf(fit, w, -0x1.02a072p-3f);
  fit = fmaf(fit, w, 0x1.6280cp-3f);
  fit = fmaf(fit, w, -0x1.126e06p-4f);
  fit = fmaf(fit, w, 0x1.98f5aap-5f);
  fit = fmaf(fit, w, -0x1.56f742p-3f);
  fit = fmaf(fit, w, -0x1.15bad2p-3f);
  fit = fmaf(fit, w, 0x1.be33c6p-1f);
  fit = fmaf(fit, w, -0x1.20dd3ap0f);
  const float power = exp2_approx(size * size * -0x1.715476p-1f);
  return {power * fmaf(w, fit, 0.5f), power};
}
// x Phi(x): x or 0, less |x| times the tail. The factor of the tail is -x above 0 as far as the tail reaches, so that
// f(inf) is inf, and x below, so that f(-inf) is NaN.
__device__ __forceinline__ float normal_product(float x, const Normal& n) {
  return fmaf(fminf(x, fmaxf(-x, -28.0f)), n.tail, x <= 0.0f ? 0.0f : x);
}

template <Function kFunction>
__device__ __forceinline__ Value value_of(float given, const Limits& limits) {
  if constexpr (kFunction == Function::kRelu || kFunction == Function::kRelu2) {
    const float x = given <= 0.0f ? 0.0f : given;  // NaN stays
    return kFunction == Function::kRelu ? Value{x, given <= 0.0f ? 0.0f : 1.0f} : Value{x * x, x};
  }
  if constexpr (kFunction == Function::kSilu) {
    const float s = sigmoid(given);
    return {given * s, fmaf(sigmoid_slope(s), given, s)};
  }
  if constexpr (kFunction == Function::kGelu) {
    const Normal n = normal(given);
    return {normal_product(given, n), fmaf(given, 0x1.988454p-2f * n.power, given < 0.0f ? n.tail : 1.0f - n.tail)};
  }
  if constexpr (kFunction == Function::kGeluTanh) {
    // Beyond 16 the sigmoid is 0 or 1, and the cube would leave fp32.
    const float x = fmaxf(fminf(given, 16.0f), -16.0f), square = x * x;
    const float s = sigmoid(x * fmaf(0x1.2444f2p-4f, square, 0x1.988454p0f));
    return {given * s, fmaf(given * sigmoid_slope(s), fmaf(0x1.b6676cp-3f, square, 0x1.988454p0f), s)};
  }
  if constexpr (kFunction == Function::kClampedSilu) {
    const float x = given > limits.limit ? limits.limit : given, s = sigmoid(limits.alpha * x);
    return {x * s, given > limits.limit ? 0.0f : fmaf(sigmoid_slope(s) * x, limits.alpha, s)};
  }
}

// What up stands for, and the derivative of that.
template <Function kFunction>
__device__ __forceinline__ Value gate_of(float up, const Limits& limits) {
  if constexpr (kFunction != Function::kClampedSilu) return {up, 1.0f};
  const float low = up < -limits.limit ? -limits.limit : up, cut = low > limits.limit ? limits.limit : low;
  return {cut + 1.0f, cut == up ? 1.0f : 0.0f};  // NaN is equal to nothing
}

}  // namespace ridge::cuda
