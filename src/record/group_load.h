// How rows spread over groups, the experts of a mixture: what the offsets of a case hold. A gain on even groups may be
// none where tokens are routed, so grouped operators are measured on several (campaign/skew.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "record/names.h"

namespace ridge::record {

enum class GroupLoad : std::uint8_t {
  kAny,      // as the family of inputs has it
  kUniform,  // as even as whole rows allow
  kSkewed,   // group g has a share that grows as g^3, so that one has nothing
  kHalf      // one group has half of the rows, the others share the rest
};
template <>
struct EnumNames<GroupLoad> {
  static constexpr std::pair<GroupLoad, std::string_view> kNames[] = {{GroupLoad::kAny, "any"},
                                                                      {GroupLoad::kUniform, "uniform"},
                                                                      {GroupLoad::kSkewed, "skewed"},
                                                                      {GroupLoad::kHalf, "half"}};
};

// The parameter of a case that says so, in the order of the enumeration.
inline constexpr std::string_view kLoadParam = "load";

// How many of the rows each group has; all of them have one. Of kAny nothing is known: empty.
std::vector<std::int64_t> rows_of_groups(GroupLoad load, std::int64_t rows, std::int64_t groups);

}  // namespace ridge::record
