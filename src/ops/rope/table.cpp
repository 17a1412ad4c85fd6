// cos and sin of every position, in fp64 on the host.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/rope/rope.h"

namespace ridge {
namespace {

Status check_how(std::int64_t rotary, const RopeFrequencies& how) {
  if (rotary < 2 || rotary % 2 != 0) {
    return with_hint(invalid("rope: a rotary dimension of {} has no pairs", rotary), "give an even number from 2");
  }
  const auto above = [](const char* name, double value, double least) -> Status {
    if (value > least && std::isfinite(value)) return ok_status();
    return with_hint(invalid("rope: {} is {}", name, value), fmt::format("give a finite number above {}", least));
  };
  RIDGE_CHECK_OK(above("base", how.base, how.scaling == RopeScaling::kYarn ? 1 : 0));
  if (how.scaling == RopeScaling::kNone) return ok_status();
  RIDGE_CHECK_OK(above("factor", how.factor, 0));
  if (how.scaling == RopeScaling::kLinear) return ok_status();
  RIDGE_CHECK_OK(above("original_length", how.original_length, 0));
  if (how.scaling == RopeScaling::kLlama3) {
    RIDGE_CHECK_OK(above("low_factor", how.low_factor, 0));
    return above("high_factor", how.high_factor, how.low_factor);
  }
  RIDGE_CHECK_OK(above("beta_slow", how.beta_slow, 0));
  RIDGE_CHECK_OK(above("beta_fast", how.beta_fast, how.beta_slow));
  if (how.attention >= 0 && std::isfinite(how.attention)) return ok_status();
  return with_hint(invalid("rope: attention is {}", how.attention), "give a finite number above 0, or 0 for the usual");
}

double llama3(double frequency, const RopeFrequencies& how) {
  const double turns = how.original_length * frequency / (2 * std::numbers::pi);  // within the original length
  const double kept = std::clamp((turns - how.low_factor) / (how.high_factor - how.low_factor), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / how.factor);
}

// The pair that turns so many times in original_length positions, as a real number.
double pair_of(double turns, std::int64_t rotary, const RopeFrequencies& how) {
  return static_cast<double>(rotary) * std::log(how.original_length / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(how.base));
}
double yarn(std::int64_t pair, double frequency, std::int64_t rotary, const RopeFrequencies& how) {
  const double last = static_cast<double>(rotary - 1);
  const double low = std::max(std::floor(pair_of(how.beta_fast, rotary, how)), 0.0);
  const double high = std::min(std::ceil(pair_of(how.beta_slow, rotary, how)), last);
  const double width = high == low ? 0.001 : high - low;
  const double stretched = std::clamp((static_cast<double>(pair) - low) / width, 0.0, 1.0);
  return frequency * (1 - stretched + stretched / how.factor);
}

// What cos and sin are multiplied by.
double amplitude(const RopeFrequencies& how) {
  if (how.scaling != RopeScaling::kYarn) return 1;
  if (how.attention > 0) return how.attention;
  return how.factor > 1 ? 0.1 * std::log(how.factor) + 1 : 1;
}

}  // namespace

Result<std::vector<double>> rope_frequencies(std::int64_t rotary, const RopeFrequencies& how) {
  RIDGE_CHECK_OK(check_how(rotary, how));
  std::vector<double> all;
  for (std::int64_t i = 0; i < rotary / 2; ++i) {
    const double plain = std::pow(how.base, -2.0 * static_cast<double>(i) / static_cast<double>(rotary));
    switch (how.scaling) {
      case RopeScaling::kNone: all.push_back(plain); break;
      case RopeScaling::kLinear: all.push_back(plain / how.factor); break;
      case RopeScaling::kLlama3: all.push_back(llama3(plain, how)); break;
      case RopeScaling::kYarn: all.push_back(yarn(i, plain, rotary, how)); break;
    }
  }
  return all;
}

Status rope_table(const RopeFrequencies& how, const TensorView& cos, const TensorView& sin) {
  RIDGE_CHECK_OK(ops::check_layout("rope", "cos", cos, 2, "give a row-major matrix"));
  RIDGE_CHECK_OK(ops::check_like_x("rope", "sin", sin, DType::kF32, std::span(cos.shape).first(2)));
  RIDGE_CHECK_OK(ops::check_like_x("rope", "cos", cos, DType::kF32, std::span(cos.shape).first(2)));
  RIDGE_CHECK_OK(ops::check_apart("rope", {"cos", &cos}, {{"sin", &sin}}));
  RIDGE_TRY(frequencies, rope_frequencies(2 * cos.shape[1], how));
  const double size = amplitude(how);
  for (std::int64_t p = 0; p < cos.shape[0]; ++p) {
    float *const c = static_cast<float*>(cos.data) + p * cos.stride[0], *const s = static_cast<float*>(sin.data) +
                                                                                   p * sin.stride[0];
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      c[i] = static_cast<float>(size * std::cos(angle));
      s[i] = static_cast<float>(size * std::sin(angle));
    }
  }
  return ok_status();
}

}  // namespace ridge
