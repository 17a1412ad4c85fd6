#include "ops/coding/cases.h"

#include <fmt/format.h>

#include <array>

#include "ops/op.h"

namespace ridge::ops::coding {

std::vector<record::Case> edge_cases(std::string_view op, const EdgeForms& forms) {
  using Size = std::array<std::int64_t, 2>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view coded, std::string_view form = {}) {
    cases.push_back(built_in_case(fmt::format("{} rows={} cols={} {} {}", op, size[0], size[1], coded, form)));
  };
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    for (const Size& size :
         {Size{0, 5}, Size{1, 1}, Size{1, 131}, Size{130, 1}, Size{31, 33}, Size{127, 129}, Size{128, 128}}) {
      add(size, fmt::format("scaling={} copies=both", scaling));
    }
    for (const char* rule : {"floor", "even", "ceil"}) {
      for (const char* format : {"e4m3fn", "e5m2"}) {
        add({131, 70}, fmt::format("format={} scaling={} scale={} copies=both", format, scaling, rule), forms.rules);
      }
    }
    add({37, 300}, fmt::format("scaling={} copies=row", scaling), forms.row);
    add({67, 133}, fmt::format("scaling={} copies=column dtype=f32", scaling), forms.column);
    add({67, 133}, fmt::format("scaling={} copies=both rounding=stochastic", scaling));
  }
  for (const Size& size : {Size{0, 5}, Size{1, 1}, Size{130, 1}, Size{33, 129}}) {
    add(size, "scaling=tensor amax=given copies=both", forms.given);
  }
  for (const char* coded :
       {"scale=floor", "scale=even copies=both", "scale=ceil format=e5m2 dtype=f32", "copies=column"}) {
    add({67, 133}, fmt::format("scaling=tensor amax=given {}", coded));
  }
  add({67, 133}, "scaling=tensor amax=given copies=both rounding=stochastic", forms.given_stochastic);
  return cases;
}

}  // namespace ridge::ops::coding
