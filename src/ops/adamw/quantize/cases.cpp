#include <fmt/format.h>

#include <array>

#include "ops/adamw/quantize/quantize.h"
#include "ops/coding/cases.h"

namespace ridge::ops::adamw_quantize {
namespace {

using Size = std::array<std::int64_t, 2>;

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("adamw_quantize rows={} cols={} {}", size[0], size[1], more));
}

// Every dtype with every state, with a master and without, alone and with all that may be left out.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases = coding::edge_cases("adamw_quantize", {.rules = "master=1",
                                                                          .row = "state=bf16",
                                                                          .column = "factor=1",
                                                                          .given = "master=1",
                                                                          .given_stochastic = "skip=1"});
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* form : {"state=bf16", "wide_grad=1 master=1", "factor=1 maximize=1 state=bf16 scaling=1x128",
                             "master=1 factor=1 skip=1 scaling=mx format=e5m2", "skip=1 scaling=row"}) {
      for (const Size& size : {Size{37, 67}, Size{130, 264}}) {
        cases.push_back(make_case(size, fmt::format("dtype={} copies=both {}", dtype, form)));
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases();
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  if (set == CaseSet::kTarget) {
    return {make_case({14336 / share, 4096}, "dtype=f32 copies=both"),
            make_case({8192 / share, 8192}, "master=1 copies=both")};
  }
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "tensor amax=given", "row", "1x128", "128x128", "mx"}) {
    cases.push_back(make_case({8192 / share, 8192}, fmt::format("dtype=f32 scaling={} copies=both", scaling)));
  }
  for (const char* form : {"dtype=f32 copies=row", "dtype=f32 state=bf16 copies=both", "master=1 copies=both",
                           "state=bf16 copies=both", "dtype=f32 factor=1 copies=both"}) {
    cases.push_back(make_case({14336 / share, 4096}, form));
  }
  return cases;
}

}  // namespace ridge::ops::adamw_quantize
