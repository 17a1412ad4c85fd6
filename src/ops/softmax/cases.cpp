#include <fmt/format.h>

#include <array>

#include "ops/softmax/softmax.h"

namespace ridge::ops::softmax {

std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend) {
  using Size = std::array<std::int64_t, 2>;
  std::vector<record::Case> cases;
  const auto add = [&](const Size& size, std::string_view more) {
    cases.push_back(built_in_case(fmt::format("{} rows={} cols={} {}", op, size[0], size[1], more)));
  };
  if (set == CaseSet::kCheck) {
    for (const char* form : {"softmax", "log_softmax", "logsumexp"}) {
      for (const char* dtype : {"f32", "bf16", "f16"}) {
        add({7, 67}, fmt::format("dtype={} form={}", dtype, form));
        add({5, 128}, fmt::format("dtype={} form={}", dtype, form));
      }
      for (const Size& size : {Size{0, 5}, Size{1, 1}, Size{130, 1}, Size{33, 2}, Size{19, 16}, Size{9, 1000},
                               Size{5, 2048}, Size{4, 2049}, Size{3, 4500}, Size{2, 20000}}) {
        add(size, fmt::format("form={}", form));
      }
    }
    for (const char* form : {"softmax", "log_softmax"}) {
      for (const char* dtype : {"bf16", "f16"}) {
        add({6, 264}, fmt::format("dtype={} out=f32 form={}", dtype, form));
        add({3, 2051}, fmt::format("dtype={} out=f32 form={}", dtype, form));
      }
    }
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 32 : 1;
  add({8192 / share, 8192}, "");
  add({4096 / share, 32768}, "");
  if (set == CaseSet::kTarget) return cases;
  add({16384 / share, 4096}, "");
  add({131072 / share, 512}, "");
  add({1024 / share, 131072}, "");
  add({8192 / share, 8192}, "out=f32");
  add({8192 / share, 8192}, "dtype=f32");
  add({8192 / share, 8192}, "form=log_softmax");
  add({8192 / share, 32768}, "form=logsumexp");
  return cases;
}

std::vector<record::Case> cases(CaseSet set, Backend backend) { return cases_of("softmax", set, backend); }

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kRows, kCols};
  return vary_sizes(problem, kSizes, 150, variation, seed);
}

}  // namespace ridge::ops::softmax
