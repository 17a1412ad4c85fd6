// Fresh random inputs. Element i of a fill is a pure function of (seed, family, i), i counting in row-major order of
// the shape: strides, padding and threads change nothing, and the bytes between strided rows are not touched.
// Values are rounded to the view's dtype with saturation: a fill never holds NaN or Inf. E8M0 gets magnitudes. Whole
// numbers get bits of any kind, whatever the family: what they may be is for their operator to say (ops/fill.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ridge/result.h"
#include "ridge/tensor.h"

namespace ridge::numerics {

enum class Family : std::uint8_t {
  kNormal,          // standard normal (Box-Muller)
  kUniform,         // uniform in [-1, 1)
  kScaled,          // normal times 2^k, k in -12..12 drawn per 256 elements: absolute tolerances fail here
  kHeavyTails,      // |x| has density ~ |x|^-3 up to about 3500: a few elements dominate every sum
  kSpikes,          // 2^-10 times normal, and about 1 in 1024 is +-16..128 (one of the first two always is):
                    // a kernel that skips an element, or accumulates in a short type, is seen
  kConstantBlocks,  // 256 equal elements in a row, +-(1 + j/8) 2^-1..1, one such block in eight zero: cancellation and
                    // compressible memory; the short mantissa keeps equal terms from all rounding the same way
  kTies,            // multiples of 1/2 in -4..4: sums are exact and land on the midpoints of short output types
  kDenormals,       // 3 of 4 elements are subnormal in the dtype, the others normal: catches flushing to zero
  // For timed calls, at more than 1 GB/s per core in f32: bell-shaped with a full mantissa, 1 in 64 elements 8 times
  // larger and 1 in 8192 64 times, all times 2^k with one secret k in -2..2 per fill. In every 4096 elements one run of
  // 64 at a secret place is small (down to 2^-12), constant, or made of halves, so that a path that looks for such data
  // finds it in timed calls, too. No zeros and no subnormals, which some machines multiply at another speed or power.
  kMixture,
};

inline constexpr Family kAllFamilies[] = {Family::kNormal,     Family::kUniform,   Family::kScaled,
                                          Family::kHeavyTails, Family::kSpikes,    Family::kConstantBlocks,
                                          Family::kTies,       Family::kDenormals, Family::kMixture};

// "normal", "uniform", "scaled", "heavy-tails", "spikes", "constant-blocks", "ties", "denormals", "mixture".
std::string_view to_string(Family family);

void fill(const TensorView& view, Family family, std::uint64_t seed);
// Elements first .. first + out.size() of the same stream before rounding to a dtype; kDenormals as for f32.
void generate(Family family, std::uint64_t seed, std::int64_t first, std::span<float> out);

}  // namespace ridge::numerics
