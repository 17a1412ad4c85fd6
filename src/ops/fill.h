// What an input may hold. Numbers of any family are right for most; where a kernel would read outside of its memory by
// others, or an operator means nothing by them, an operand says what it takes.
#pragma once

#include <cstdint>

#include "numerics/fill.h"
#include "record/group_load.h"
#include "ridge/tensor.h"

namespace ridge::ops {

struct Fill {
  enum class Rule : std::uint8_t {
    kNumbers,       // of the family that a check asks for; whole numbers of any bits (seeds)
    kUniform,       // from `least` to `most`
    kIndices,       // whole numbers from `least` to `most`, both included
    kOffsets,       // multiples of `least` (0: of 1) that never fall, from 0 to `most`: neighbours may be equal
    kProbabilities  // those of the last dimension add up to 1
  };
  Rule rule = Rule::kNumbers;
  double least = 0, most = 0;
  record::GroupLoad load = record::GroupLoad::kAny;  // of offsets
};

// Fresh content of an input. The same rule, family and seed give the same values whatever the strides. Families shape
// the other rules too: kHeavyTails and kSpikes crowd near the lower end (most rows to one expert), kConstantBlocks
// repeats one value, kTies has few different ones.
void fill_input(const Fill& fill, const TensorView& view, numerics::Family family, std::uint64_t seed);

}  // namespace ridge::ops
