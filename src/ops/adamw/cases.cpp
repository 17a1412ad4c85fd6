#include <fmt/format.h>

#include "ops/adamw/adamw.h"

namespace ridge::ops::adamw {
namespace {

record::Case make_case(std::int64_t count, std::string_view more) {
  return built_in_case(fmt::format("adamw count={} {}", count, more));
}

// Around a vector, a piece and nothing at all; every dtype with every state, alone and with all that may be left out.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases;
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* state : {"f32", "bf16"}) {
      for (const char* more : {"", "wide_grad=1 master=1", "factor=1 maximize=1", "master=1 factor=1 skip=1"}) {
        cases.push_back(make_case(1100, fmt::format("dtype={} state={} {}", dtype, state, more)));
      }
    }
  }
  for (const std::int64_t count : {0, 1, 7, 16, 63, 1023, 1024, 1025, 5000, 70000}) {
    cases.push_back(make_case(count, "master=1 factor=1"));
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases();
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  if (set == CaseSet::kTarget)
    return {make_case((1 << 26) / share, "master=1"), make_case((1 << 18) / share, "master=1")};
  std::vector<record::Case> cases;
  for (const char* more :
       {"dtype=f32", "dtype=bf16 master=1", "dtype=bf16 state=bf16", "dtype=bf16 master=1 wide_grad=1"}) {
    cases.push_back(make_case((1 << 27) / share, more));
  }
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kCount};
  return vary_sizes(problem, kSizes, 3000, variation, seed);
}

}  // namespace ridge::ops::adamw
