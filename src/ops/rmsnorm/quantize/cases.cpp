#include <fmt/format.h>

#include <array>

#include "ops/coding/cases.h"
#include "ops/rmsnorm/quantize/quantize.h"

namespace ridge::ops::rmsnorm_quantize {
namespace {

using Size = std::array<std::int64_t, 2>;

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("rmsnorm_quantize rows={} cols={} {}", size[0], size[1], more));
}

// Every form of the norm in every dtype, with rows of a warp and of a block.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases = coding::edge_cases("rmsnorm_quantize", {.rules = "residual=1",
                                                                            .row = "weight=none",
                                                                            .column = "residual=1",
                                                                            .given = "residual=1",
                                                                            .given_stochastic = "weight=f32"});
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* form : {"weight=none", "weight=same residual=1", "weight=f32 zero_centred=1",
                             "weight=f32 zero_centred=1 residual=1 scaling=mx format=e5m2"}) {
      for (const Size& size : {Size{5, 24}, Size{37, 67}, Size{3, 1032}, Size{2, 4100}}) {
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
    return {make_case({8192 / share, 4096}, "copies=both"), make_case({8192 / share, 8192}, "copies=both residual=1")};
  }
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "tensor amax=given", "1x128", "mx"}) {
    cases.push_back(make_case({8192 / share, 8192}, fmt::format("scaling={} copies=both", scaling)));
  }
  cases.push_back(make_case({8192 / share, 8192}, "copies=row"));
  cases.push_back(make_case({8192 / share, 8192}, "copies=both residual=1"));
  cases.push_back(make_case({16384 / share, 7168}, "copies=both residual=1"));
  return cases;
}

}  // namespace ridge::ops::rmsnorm_quantize
