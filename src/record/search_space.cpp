#include "record/search_space.h"

#include <fmt/format.h>

namespace ridge::record {

std::string to_text(const ParameterValue& value) {
  return value.word.empty() ? fmt::format("{}", value.number) : value.word;
}

}  // namespace ridge::record
