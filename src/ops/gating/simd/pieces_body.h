// What pieces.h declares, for the instruction set of the file that includes this. Every function of one number is
// free of branches, so that a compiler makes vectors of the loops.
#pragma once

#include "ops/exponential.h"
#include "ops/gating/simd/pieces.h"

namespace ridge::ops::activation {
namespace {

#define RIDGE_INLINE inline __attribute__((always_inline))

// Phi(x) and its density. erfc(z) = e^(-z^2) (1 + w R(w)) of w = 2 z / (z + 2), with R fitted by least squares at
// Chebyshev's points of z from 0 to 20: Phi is 2^-24 off.
struct Normal {
  float value, density;
};
RIDGE_INLINE Normal normal_of(float x) {
  const float size = size_of(x), z = (size > 28 ? 28 : size) * 0x1.6a09e6p-1F, w = 2 * z / (z + 2);
  float fit = 0x1.ef321cp-14F;  // written out as the series of an exponential is
  fit = fit * w - 0x1.02a072p-10F;
  fit = fit * w + 0x1.6280cp-9F;
  fit = fit * w - 0x1.126e06p-9F;
  fit = fit * w + 0x1.98f5aap-9F;
  fit = fit * w - 0x1.56f742p-6F;
  fit = fit * w - 0x1.15bad2p-5F;
  fit = fit * w + 0x1.be33c6p-2F;
  fit = fit * w - 0x1.20dd3ap0F;
  const float power = power_of(-z * z), tail = 0.5F * power * (1 + w * fit);
  return {x < 0 ? tail : 1 - tail, 0x1.988454p-2F * power};
}

// f(x) and f'(x); of relu2 half of that, which may be more than fp32 holds where its product with dy is not.
struct Value {
  float f, slope;
};
template <ActivationFunction kFunction>
RIDGE_INLINE Value value_of(float given, const Factors& factors) {
  using Name = ActivationFunction;
  if constexpr (kFunction == Name::kRelu || kFunction == Name::kRelu2) {
    const float x = given <= 0 ? 0 : given;
    return kFunction == Name::kRelu ? Value{x, given <= 0 ? 0.0F : 1.0F} : Value{x * x, x};
  }
  if constexpr (kFunction == Name::kSilu) {
    const Sigmoid s = sigmoid_of(given);
    return {given * s.value, s.value * (1 + given * s.rest)};
  }
  if constexpr (kFunction == Name::kGelu) {
    const Normal n = normal_of(given);
    return {given * n.value, n.value + given * n.density};
  }
  if constexpr (kFunction == Name::kGeluTanh) {
    // Beyond 16 the sigmoid is 0 or 1, and the cube would leave fp32.
    const float low = given < -16 ? -16 : given, x = low > 16 ? 16 : low, square = x * x;
    const Sigmoid s = sigmoid_of(0x1.988454p0F * x * (1 + 0.044715F * square));
    return {given * s.value, s.value + given * (s.value * s.rest) * (0x1.988454p0F * (1 + 0.134145F * square))};
  }
  const float x = given > factors.limit ? factors.limit : given;
  const Sigmoid s = sigmoid_of(factors.alpha * x);
  return {x * s.value, given > factors.limit ? 0 : s.value + s.value * s.rest * x * factors.alpha};
}

// What up stands for, and the derivative of that.
template <ActivationFunction kFunction>
RIDGE_INLINE Value gate_of(float up, const Factors& factors) {
  if constexpr (kFunction != ActivationFunction::kClampedSilu) return {up, 1};
  const float low = up < -factors.limit ? -factors.limit : up, cut = low > factors.limit ? factors.limit : low;
  return {cut + 1, cut == up ? 1.0F : 0.0F};  // NaN is equal to nothing
}

template <ActivationFunction kFunction>
void forward_of(const Factors& given, const float* x, const float* up, float* y, std::int64_t count) {
  const Factors factors = given;
  if (up == nullptr) {
    for (std::int64_t j = 0; j < count; ++j) y[j] = factors.probs * value_of<kFunction>(x[j], factors).f;
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    y[j] = factors.probs * (value_of<kFunction>(x[j], factors).f * gate_of<kFunction>(up[j], factors).f);
  }
}

// One element; returns its term of the row's sum.
template <ActivationFunction kFunction, bool kGated>
RIDGE_INLINE float differentiate(const Factors& factors, const Gradients& piece, std::int64_t j) {
  const Value f = value_of<kFunction>(piece.x[j], factors);
  Value u{1, 0};
  if constexpr (kGated) u = gate_of<kFunction>(piece.up[j], factors);
  const float dy = piece.dy[j], scaled = factors.probs * dy;
  piece.dx[j] = scaled * u.f * f.slope * (kFunction == ActivationFunction::kRelu2 ? 2 : 1);
  if constexpr (kGated) piece.dup[j] = scaled * f.f * u.slope;
  return dy * (f.f * u.f);
}
template <ActivationFunction kFunction, bool kGated>
void backward_of(const Factors& given_factors, const Gradients& given, Lanes& lanes, std::int64_t count) {
  constexpr std::int64_t kLanes = 64;
  const Factors factors = given_factors;
  const Gradients piece = given;
  float terms[kLanes];
  for (std::int64_t first = 0; first < count; first += kLanes) {
    const std::int64_t here = count - first < kLanes ? count - first : kLanes;
    for (std::int64_t j = 0; j < here; ++j) terms[j] = differentiate<kFunction, kGated>(factors, piece, first + j);
    for (std::int64_t j = 0; j < here; ++j) lanes.value[j] += terms[j];
  }
}

template <class Call>
RIDGE_INLINE void with_function(ActivationFunction function, const Call& call) {
  using Name = ActivationFunction;
  switch (function) {
    case Name::kSilu: return call.template operator()<Name::kSilu>();
    case Name::kGelu: return call.template operator()<Name::kGelu>();
    case Name::kGeluTanh: return call.template operator()<Name::kGeluTanh>();
    case Name::kRelu: return call.template operator()<Name::kRelu>();
    case Name::kRelu2: return call.template operator()<Name::kRelu2>();
    case Name::kClampedSilu: return call.template operator()<Name::kClampedSilu>();
  }
}
void forward(ActivationFunction function, const Factors& factors, const float* x, const float* up, float* y,
             std::int64_t count) {
  with_function(function, [&]<ActivationFunction kFunction>() { forward_of<kFunction>(factors, x, up, y, count); });
}
void backward(ActivationFunction function, const Factors& factors, const Gradients& piece, Lanes& lanes,
              std::int64_t count) {
  with_function(function, [&]<ActivationFunction kFunction>() {
    if (piece.up != nullptr) return backward_of<kFunction, true>(factors, piece, lanes, count);
    backward_of<kFunction, false>(factors, piece, lanes, count);
  });
}

constexpr Pieces kPieces = {forward, backward};

#undef RIDGE_INLINE

}  // namespace
}  // namespace ridge::ops::activation
