#include <fmt/format.h>

#include <array>

#include "ops/rmsnorm/quantize/quantize.h"

namespace ridge::ops::rmsnorm_quantize {
namespace {

using Size = std::array<std::int64_t, 2>;

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("rmsnorm_quantize rows={} cols={} {}", size[0], size[1], more));
}

// Around the blocks of 32 and 128, and nothing at all; every granularity with every rule and format; every form of the
// norm in every dtype, with rows of a warp and of a block.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    for (const Size& size :
         {Size{0, 5}, Size{1, 1}, Size{1, 131}, Size{130, 1}, Size{31, 33}, Size{127, 129}, Size{128, 128}}) {
      cases.push_back(make_case(size, fmt::format("scaling={} copies=both", scaling)));
    }
    for (const char* rule : {"floor", "even", "ceil"}) {
      for (const char* format : {"e4m3fn", "e5m2"}) {
        cases.push_back(make_case(
            {131, 70}, fmt::format("format={} scaling={} scale={} copies=both residual=1", format, scaling, rule)));
      }
    }
    cases.push_back(make_case({37, 300}, fmt::format("scaling={} copies=row weight=none", scaling)));
    cases.push_back(make_case({67, 133}, fmt::format("scaling={} copies=column dtype=f32 residual=1", scaling)));
    cases.push_back(make_case({67, 133}, fmt::format("scaling={} copies=both rounding=stochastic", scaling)));
  }
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* form : {"weight=none", "weight=same residual=1", "weight=f32 zero_centred=1",
                             "weight=f32 zero_centred=1 residual=1 scaling=mx format=e5m2"}) {
      for (const Size& size : {Size{5, 24}, Size{37, 67}, Size{3, 1032}, Size{2, 4100}}) {
        cases.push_back(make_case(size, fmt::format("dtype={} copies=both {}", dtype, form)));
      }
    }
  }
  for (const Size& size : {Size{0, 5}, Size{1, 1}, Size{130, 1}, Size{33, 129}}) {
    cases.push_back(make_case(size, "scaling=tensor amax=given copies=both residual=1"));
  }
  for (const char* more : {"scale=floor", "scale=even copies=both", "scale=ceil format=e5m2 dtype=f32", "copies=column",
                           "copies=both rounding=stochastic weight=f32"}) {
    cases.push_back(make_case({67, 133}, fmt::format("scaling=tensor amax=given {}", more)));
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
