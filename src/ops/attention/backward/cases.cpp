#include <fmt/format.h>

#include "ops/attention/backward/backward.h"

namespace ridge::ops::attention_backward {
namespace {

record::Case make_case(std::string_view text) { return built_in_case(fmt::format("attention_backward {}", text)); }

// Around the tiles of 32 queries and 64 keys, unequal lengths both ways, groups, odd dims, and nothing at all.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases;
  for (const char* mask : {"full", "causal"}) {
    for (const char* dtype : {"bf16", "f16"}) {
      for (const char* sizes : {"batch=1 heads=1 kv_heads=1 q_len=1 k_len=1 dim=64",
                                "batch=1 heads=2 kv_heads=1 q_len=33 k_len=65 dim=64 deterministic=1",
                                "batch=1 heads=4 kv_heads=2 q_len=70 k_len=140 dim=128",
                                "batch=2 heads=2 kv_heads=2 q_len=31 k_len=200 dim=72",
                                "batch=1 heads=1 kv_heads=1 q_len=100 k_len=37 dim=64",
                                "batch=1 heads=3 kv_heads=1 q_len=5 k_len=129 dim=13"}) {
        cases.push_back(make_case(fmt::format("{} dtype={} mask={}", sizes, dtype, mask)));
      }
    }
    for (const char* sizes :
         {"batch=0 heads=2 kv_heads=1 q_len=5 k_len=5 dim=64", "batch=1 heads=2 kv_heads=1 q_len=0 k_len=5 dim=64",
          "batch=1 heads=2 kv_heads=1 q_len=3 k_len=0 dim=64", "batch=1 heads=1 kv_heads=1 q_len=9 k_len=7 dim=256"}) {
      cases.push_back(make_case(fmt::format("{} mask={}", sizes, mask)));
    }
  }
  for (const auto& words : {attention::window_cases(), attention::document_cases(), attention::value_cases()}) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      cases.push_back(make_case(fmt::format("{} deterministic={}", words[i], i / 2 % 2)));
    }
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases();
  std::vector<record::Case> same;  // as the forward's
  for (record::Case one : attention::cases(set, backend)) {
    one.op = "attention_backward";
    same.push_back(std::move(one));
  }
  return same;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  return attention::vary(problem, variation, seed);
}

}  // namespace ridge::ops::attention_backward
