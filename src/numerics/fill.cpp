#include "numerics/fill.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/cpu_isa.h"
#include "numerics/format.h"
#include "numerics/lanes.h"
#include "numerics/philox.h"

namespace ridge::numerics {
namespace {

constexpr std::int64_t kBlock = 4096;  // elements per seeding of the generator: 16 KiB, stays in the L1 cache
constexpr std::int64_t kRun = 256;     // elements that share a scale or a value
using Buffer = std::array<float, kBlock>;

struct FamilyName {
  Family family;
  std::string_view text;
};
constexpr FamilyName kNames[] = {{Family::kNormal, "normal"},  {Family::kUniform, "uniform"},
                                 {Family::kScaled, "scaled"},  {Family::kHeavyTails, "heavy-tails"},
                                 {Family::kSpikes, "spikes"},  {Family::kConstantBlocks, "constant-blocks"},
                                 {Family::kTies, "ties"},      {Family::kDenormals, "denormals"},
                                 {Family::kMixture, "mixture"}};

// The sum of four 16-bit uniforms, centred, with 16 random bits below the point so that the mantissa is full. Variance
// 1, kurtosis 2.7, |x| < 3.47: bell-shaped at a fraction of the cost of a logarithm.
[[gnu::always_inline]] inline void bell(const U32Lanes& a, const U32Lanes& b, const U32Lanes& low, F32Lanes& out) {
  const U32Lanes sum = (a >> 16) + (a & 0xffffU) + (b >> 16) + (b & 0xffffU);
  const F32Lanes centred = __builtin_convertvector(reinterpret_cast<const I32Lanes&>(sum) - 131070, F32Lanes);
  const U32Lanes low_bits = low & 0xffffU;
  const F32Lanes fraction = __builtin_convertvector(reinterpret_cast<const I32Lanes&>(low_bits), F32Lanes);
  constexpr float kInverseSigma = 1.0F / 37837.23F;  // 65536 * sqrt(4 / 12)
  out = (centred + (fraction + 0.5F) * 0x1p-16F) * kInverseSigma;
}

[[gnu::always_inline]] inline void bell_loop(LaneRandom& random, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    U32Lanes a, b, c;
    random.next(a);
    random.next(b);
    random.next(c);
    F32Lanes value;
    bell(a, b, c, value);
    __builtin_memcpy(out + i, &value, sizeof(value));
  }
}

[[gnu::always_inline]] inline void mixture_loop(LaneRandom& random, float scale, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kLanes) {
    U32Lanes a, b, c;
    random.next(a);
    random.next(b);
    random.next(c);
    F32Lanes value;
    bell(a, b, c, value);
    const U32Lanes choice = c >> 16;  // the upper half: the lower one is in the value
    const F32Lanes one = value * scale;
    value = choice < 1024U ? one * 8.0F : one;
    value = choice < 8U ? one * 64.0F : value;
    __builtin_memcpy(out + i, &value, sizeof(value));
  }
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,f16c,prefer-vector-width=512")]] void mixture_avx512(
    LaneRandom& random, float scale, float* out, std::int64_t count) {
  mixture_loop(random, scale, out, count);
}
[[gnu::target("avx2,fma,f16c")]] void mixture_avx2(LaneRandom& random, float scale, float* out, std::int64_t count) {
  mixture_loop(random, scale, out, count);
}
#endif

void mixture(LaneRandom& random, float scale, float* out, std::int64_t count) {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) return mixture_avx512(random, scale, out, count);
  if (best_isa() == Isa::kAvx2) return mixture_avx2(random, scale, out, count);
#endif
  mixture_loop(random, scale, out, count);
}

// Words of the same generator one after the other, for the families whose cost does not matter.
class Words {
 public:
  explicit Words(LaneRandom& random) : random_(random) {}
  std::uint32_t next() {
    if (used_ == kLanes) {
      random_.next(words_);
      used_ = 0;
    }
    return words_[used_++];
  }
  float uniform() { return (static_cast<float>(next() >> 8) + 0.5F) * 0x1p-24F; }  // in (0, 1)
  float sign() { return (next() >> 31) != 0 ? -1.0F : 1.0F; }

 private:
  LaneRandom& random_;
  U32Lanes words_{};
  int used_ = kLanes;
};

void normal(Words& words, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 2) {
    const float radius = std::sqrt(-2.0F * std::log(words.uniform()));
    const float angle = 2.0F * std::numbers::pi_v<float> * words.uniform();
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
}

void scaled(Words& words, float* out, std::int64_t count) {
  normal(words, out, count);
  for (std::int64_t run = 0; run < count; run += kRun) {
    const int exponent = static_cast<int>(words.next() % 25) - 12;
    const float scale = std::ldexp(1.0F, exponent);
    for (std::int64_t i = run; i < std::min(run + kRun, count); ++i) out[i] *= scale;
  }
}

void heavy_tails(Words& words, float* out, std::int64_t count) {
  normal(words, out, count);
  for (std::int64_t i = 0; i < count; ++i) out[i] /= std::sqrt(std::max(words.uniform(), 0x1p-20F));
}

void spikes(Words& words, std::uint64_t key, std::int64_t block, float* out, std::int64_t count) {
  normal(words, out, count);
  const auto spike = [&] {
    return words.sign() * std::ldexp(1.0F + words.uniform(), static_cast<int>(4 + words.next() % 3));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] *= 0x1p-10F;
    if (words.next() % 1024 == 0) out[i] = spike();
  }
  // At a secret place among the first elements, so that even a tiny operand has one.
  if (block == 0) out[philox_word(key, ~std::uint64_t{0}) % 2] = spike();
}

void constant_blocks(Words& words, float* out, std::int64_t count) {
  for (std::int64_t run = 0; run < count; run += kRun) {
    const float mantissa = 1.0F + 0.125F * static_cast<float>(words.next() % 8);
    const float value = words.sign() * std::ldexp(mantissa, static_cast<int>(words.next() % 3) - 1);
    std::fill(out + run, out + std::min(run + kRun, count), words.next() % 8 == 0 ? 0.0F : value);
  }
}

void ties(Words& words, float* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = 0.5F * static_cast<float>(static_cast<int>(words.next() % 17) - 8);
}

// `unit` is the dtype's smallest subnormal, `steps` how many subnormals it has.
template <class Float>
void denormals(Words& words, Float unit, std::uint32_t steps, Float* out, std::int64_t count) {
  std::array<float, 2> bell_values{};
  for (std::int64_t i = 0; i < count; ++i) {
    normal(words, bell_values.data(), 2);
    const bool ordinary = words.next() % 4 == 0;
    const auto step = static_cast<Float>(1 + words.next() % std::max(steps, 1U));
    const Float tiny = static_cast<Float>(words.sign()) * step * unit;
    out[i] = ordinary ? static_cast<Float>(bell_values[0]) : tiny;
  }
}

float mixture_scale(std::uint64_t key) {
  return std::ldexp(1.0F, static_cast<int>(philox_word(key, ~std::uint64_t{0}) % 5) - 2);
}

// One run of 64 elements per block, at a secret place, looks like another family: values 2^-3 to 2^-12 times as large
// (twice as likely), one value over and over, or multiples of a half. Half of the places are near the start of the
// block, so that small operands have one.
void disguise(std::uint64_t key, std::int64_t block, float scale, float* out) {
  constexpr std::uint64_t kPlaces = 0x706c61636573;
  constexpr std::int64_t kLength = 64;
  const PhiloxCounter words = philox_block(key, static_cast<std::uint64_t>(block), kPlaces);
  const std::uint32_t places = (words[0] & 1U) != 0 ? 8 : (kBlock - kLength) / 16;
  float* run = out + 16 * ((words[0] >> 1) % places);
  const float sign = (words[2] >> 31) != 0 ? -scale : scale;
  for (std::int64_t i = 0; i < kLength; ++i) {
    const std::uint32_t half = 1 + philox_word(key ^ kPlaces, static_cast<std::uint64_t>(block * kLength + i)) % 8;
    switch (words[1] % 4) {
      case 2: run[i] = sign * (1.0F + 0.125F * static_cast<float>(words[3] % 8)); break;
      case 3: run[i] = std::copysign(0.5F * scale * static_cast<float>(half), run[i]); break;
      default: run[i] = std::ldexp(run[i], -3 - static_cast<int>(words[3] % 10)); break;
    }
  }
}

std::uint64_t family_key(Family family, std::uint64_t seed) {
  return derive_seed(seed, static_cast<std::uint64_t>(family));
}

// The first `count` elements of a block (all of it is a multiple of the lanes, and of kRun).
void generate_block(Family family, std::uint64_t key, std::int64_t block, std::int64_t count, Buffer& out) {
  LaneRandom random;
  random.seed(key, static_cast<std::uint64_t>(block));
  // Families that draw an unknown number of words per element need the whole block to be independent of `count`.
  const std::int64_t rounded = (count + kLanes - 1) / kLanes * kLanes;
  if (family == Family::kMixture) {
    mixture(random, mixture_scale(key), out.data(), rounded);
    return disguise(key, block, mixture_scale(key), out.data());
  }
  Words words(random);
  switch (family) {
    case Family::kNormal: return normal(words, out.data(), rounded);
    case Family::kUniform:
      for (float& x : std::span(out).first(static_cast<std::size_t>(rounded))) {
        x = static_cast<float>(static_cast<std::int32_t>(words.next()) >> 8) * 0x1p-23F;
      }
      return;
    case Family::kScaled: return scaled(words, out.data(), kBlock);
    case Family::kHeavyTails: return heavy_tails(words, out.data(), kBlock);
    case Family::kSpikes: return spikes(words, key, block, out.data(), kBlock);
    case Family::kConstantBlocks: return constant_blocks(words, out.data(), rounded);
    case Family::kTies: return ties(words, out.data(), rounded);
    case Family::kDenormals: return denormals(words, 0x1p-149F, (1U << 23) - 1, out.data(), rounded);
    case Family::kMixture: return;
  }
}

// Writes values to elements offset.. of a view's memory.
template <class Float>
void write_run(const TensorView& view, std::int64_t offset, const Float* values, std::int64_t count) {
  const Rounding rounding{.saturate = view.dtype != DType::kF32 && view.dtype != DType::kF64};
  const int bits = size_bits(view.dtype);
  if (bits < 8 && (offset % 2 != 0 || count % 2 != 0)) {
    for (std::int64_t i = 0; i < count; ++i)
      store(view.dtype, view.data, offset + i, static_cast<double>(values[i]), rounding);
    return;
  }
  char* at = static_cast<char*>(view.data) + offset * bits / 8;
  if constexpr (std::is_same_v<Float, float>) {
    from_float(view.dtype, values, at, count, rounding);
  } else {
    from_double(view.dtype, values, at, count, rounding);
  }
}

// Spreads a block of consecutive logical elements over the rows they belong to.
template <class Float>
void write_block(const TensorView& view, std::int64_t first, const Float* values, std::int64_t count) {
  const auto last = static_cast<std::size_t>(std::max(view.rank - 1, 0));
  const bool dense = view.rank > 0 && (view.stride[last] == 1 || view.shape[last] == 1);
  const std::int64_t row = dense ? view.shape[last] : 1;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t index = first + done;
    const std::int64_t run = std::min(row - index % row, count - done);
    write_run(view, element_offset(view, index), values + done, run);
    done += run;
  }
}

// Doubles: subnormals that f32 cannot hold, and f64 operands with a mantissa that f32 would lose.
void widen(const TensorView& view, Family family, std::uint64_t key, std::int64_t block, const Buffer& values,
           std::array<double, kBlock>& out) {
  LaneRandom random;
  random.seed(~key, static_cast<std::uint64_t>(block));
  Words words(random);
  if (family == Family::kDenormals) {
    const std::uint32_t steps = (1U << std::min(format_of(view.dtype).mantissa_bits, 30)) - 1;
    return denormals(words, min_positive(view.dtype), steps, out.data(), kBlock);
  }
  const bool exact = family == Family::kTies || family == Family::kConstantBlocks;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double extra = exact ? 0.0 : static_cast<double>(words.next()) * 0x1p-57;
    out[i] = static_cast<double>(values[i]) * (1.0 + extra);
  }
}

}  // namespace

std::string_view to_string(Family family) {
  for (const FamilyName& name : kNames) {
    if (name.family == family) return name.text;
  }
  return "unknown";
}

namespace {

void fill_bits(const TensorView& view, std::uint64_t key) {
  const std::size_t bytes = size_bytes(view.dtype, 1);
  for (std::int64_t i = 0; i < view.element_count(); ++i) {
    const std::uint64_t bits = derive_seed(key, static_cast<std::uint64_t>(i));
    std::memcpy(static_cast<char*>(view.data) + element_offset(view, i) * static_cast<std::int64_t>(bytes), &bits,
                bytes);
  }
}

}  // namespace

void fill(const TensorView& view, Family family, std::uint64_t seed) {
  const std::int64_t total = view.element_count();
  const std::uint64_t key = family_key(family, seed);
  if (is_integer(view.dtype)) return fill_bits(view, key);
  const bool in_double = view.dtype == DType::kF64 || (family == Family::kDenormals && view.dtype != DType::kF32);
  alignas(64) Buffer values{};
  std::array<double, kBlock> wide;
  for (std::int64_t first = 0; first < total; first += kBlock) {
    const std::int64_t count = std::min(kBlock, total - first);
    generate_block(family, key, first / kBlock, count, values);
    if (view.dtype == DType::kE8m0) {
      for (float& x : values) x = std::fabs(x);
    }
    if (in_double) {
      widen(view, family, key, first / kBlock, values, wide);
      if (view.dtype == DType::kE8m0) {
        for (double& x : wide) x = std::fabs(x);
      }
      write_block(view, first, wide.data(), count);
    } else {
      write_block(view, first, values.data(), count);
    }
  }
}

void generate(Family family, std::uint64_t seed, std::int64_t first, std::span<float> out) {
  const std::uint64_t key = family_key(family, seed);
  alignas(64) Buffer values{};
  std::int64_t index = first;
  for (std::size_t done = 0; done < out.size();) {
    const std::int64_t within = index % kBlock;
    const auto count = std::min(static_cast<std::size_t>(kBlock - within), out.size() - done);
    generate_block(family, key, index / kBlock, within + static_cast<std::int64_t>(count), values);
    std::copy_n(values.begin() + within, count, out.begin() + static_cast<std::ptrdiff_t>(done));
    done += count;
    index += static_cast<std::int64_t>(count);
  }
}

}  // namespace ridge::numerics
