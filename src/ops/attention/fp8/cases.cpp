#include <fmt/format.h>

#include "ops/attention/fp8/fp8.h"

namespace ridge::ops::attention_fp8 {
namespace {

record::Case make_case(std::string_view text) { return built_in_case(fmt::format("attention_fp8 {}", text)); }

// Around the tiles of kernels, unequal lengths both ways, groups, heads that kernels pad or refuse, and nothing at all.
constexpr const char* kSizes[] = {"heads=1 kv_heads=1 q_len=1 k_len=1 dim=64",
                                  "heads=2 kv_heads=1 q_len=33 k_len=65 dim=64 out=f16",
                                  "heads=4 kv_heads=2 q_len=70 k_len=70 dim=128",
                                  "batch=2 heads=2 kv_heads=2 q_len=31 k_len=200 dim=80 out=f16",
                                  "heads=1 kv_heads=1 q_len=100 k_len=37 dim=64",
                                  "heads=3 kv_heads=1 q_len=5 k_len=129 dim=13",
                                  "heads=4 kv_heads=2 q_len=300 k_len=300 dim=128",
                                  "batch=2 heads=4 kv_heads=1 q_len=129 k_len=257 dim=96 out=f16",
                                  "heads=2 kv_heads=1 q_len=260 k_len=390 dim=16 v_dim=112",
                                  "heads=2 kv_heads=1 q_len=140 k_len=520 dim=192 v_dim=128",
                                  "heads=2 kv_heads=2 q_len=130 k_len=150 dim=256 v_dim=64",
                                  "heads=1 kv_heads=1 q_len=9 k_len=70 dim=256",
                                  "batch=0 heads=2 kv_heads=1 q_len=5 k_len=5 dim=64",
                                  "heads=2 kv_heads=1 q_len=0 k_len=5 dim=64",
                                  "heads=2 kv_heads=1 q_len=3 k_len=0 dim=64"};

// Ends of windows within blocks of keys, at their ends and in one block; windows of one key, with one end, and beyond
// all keys; rows that see nothing.
constexpr const char* kWindows[] = {
    "heads=4 kv_heads=2 q_len=300 k_len=300 dim=64 mask=causal keys_left=65",
    "heads=2 kv_heads=1 q_len=300 k_len=300 dim=128 mask=causal keys_left=129",
    "heads=2 kv_heads=1 q_len=200 k_len=330 dim=128 out=f16 keys_left=65 keys_right=33",
    "batch=2 heads=2 kv_heads=2 q_len=150 k_len=150 dim=64 keys_left=1 keys_right=1",
    "heads=2 kv_heads=1 q_len=330 k_len=200 dim=96 mask=causal keys_left=33",
    "heads=2 kv_heads=1 q_len=140 k_len=400 dim=64 keys_right=71",
    "heads=2 kv_heads=1 q_len=140 k_len=400 dim=128 keys_left=200",
    "heads=1 kv_heads=1 q_len=70 k_len=70 dim=64 keys_left=500 keys_right=500",
    "heads=2 kv_heads=1 q_len=300 k_len=420 dim=192 v_dim=128 mask=causal keys_left=130"};

std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases;
  for (const char* mask : {"full", "causal"}) {
    for (const char* sizes : kSizes) cases.push_back(make_case(fmt::format("{} mask={}", sizes, mask)));
  }
  for (const char* words : kWindows) cases.push_back(make_case(words));
  return cases;
}

std::vector<record::Case> bench_cases(Backend backend) {
  if (backend == Backend::kCpu) {
    return {make_case("heads=8 kv_heads=2 q_len=512 k_len=512 dim=128 mask=causal"),
            make_case("heads=8 kv_heads=8 q_len=512 k_len=512 dim=64 mask=full")};
  }
  return {make_case("heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal"),
          make_case("batch=2 heads=16 kv_heads=16 q_len=8192 k_len=8192 dim=128 mask=full"),
          make_case("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=64 mask=causal"),
          make_case("heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal keys_left=1024")};
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  switch (set) {
    case CaseSet::kCheck: return check_cases();
    case CaseSet::kBench: return bench_cases(backend);
    case CaseSet::kTarget:
      return {make_case("heads=4 kv_heads=2 q_len=256 k_len=256 dim=64 mask=causal"),
              make_case("heads=4 kv_heads=1 q_len=192 k_len=320 dim=128 mask=full"),
              make_case("batch=2 heads=2 kv_heads=2 q_len=250 k_len=250 dim=64 mask=causal")};
  }
  return {};
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  return attention::vary_of(problem, shape_of(problem), variation, seed);
}

}  // namespace ridge::ops::attention_fp8
