#include <fmt/format.h>

#include <array>

#include "ops/rmsnorm/backward/backward.h"

namespace ridge::ops::rmsnorm_backward {
namespace {

using Size = std::array<std::int64_t, 2>;

record::Case make_case(const Size& size, std::string_view more) {
  return built_in_case(fmt::format("rmsnorm_backward rows={} cols={} {}", size[0], size[1], more));
}

// Sizes as rmsnorm's; and many rows, whose weight gradient is a long sum.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) { cases.push_back(make_case(size, more)); };
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* more : {"weight=none", "weight=same", "weight=f32 zero_centred=1", "weight=same residual=1",
                             "weight=none residual=1", "weight=f32 wanted=dx", "weight=same wanted=dweight"}) {
      add({5, 24}, fmt::format("dtype={} {}", dtype, more));
      add({3, 67}, fmt::format("dtype={} {}", dtype, more));
      add({9, 1032}, fmt::format("dtype={} {}", dtype, more));
    }
  }
  for (const Size& size : {Size{0, 5}, Size{0, 16}, Size{1, 1}, Size{130, 1}, Size{70, 2}, Size{33, 8}, Size{700, 16},
                           Size{65, 40}, Size{190, 128}, Size{7, 136}, Size{6, 256}, Size{50, 1000}, Size{4, 1024},
                           Size{3, 2049}, Size{2, 4096}, Size{2, 7168}, Size{1, 16384}}) {
    add(size, "");
  }
  add({2, 20000}, "residual=1");
  add({2, 65536}, "weight=none");
  add({1, 65536}, "dtype=f32 weight=f32");
  add({1, 65544}, "weight=f32");
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases();
  const bool cpu = backend == Backend::kCpu;
  if (set == CaseSet::kTarget) {
    if (cpu) return {make_case({512, 4096}, ""), make_case({250, 7168}, "")};
    return {make_case({8192, 4096}, ""), make_case({8192, 8192}, ""), make_case({16384, 7168}, "")};
  }
  std::vector<record::Case> cases;
  const std::int64_t share = cpu ? 8 : 1;  // a size that takes about a second
  for (const Size& size :
       {Size{131072, 128}, Size{8192, 4096}, Size{16384, 7168}, Size{8192, 8192}, Size{4096, 16384}}) {
    cases.push_back(make_case({size[0] / share, size[1]}, ""));
  }
  cases.push_back(make_case({8192 / share, 8192}, "residual=1"));
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::rmsnorm_backward
