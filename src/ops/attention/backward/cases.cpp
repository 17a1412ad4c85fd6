#include <fmt/format.h>

#include "ops/attention/backward/backward.h"

namespace ridge::ops::attention_backward {
namespace {

record::Case make_case(std::string_view text) { return built_in_case(fmt::format("attention_backward {}", text)); }

// Heads that are smaller than those of a kernel's build, around its tiles and under every mask.
constexpr const char* kSmallerHeads[] = {
    "heads=2 kv_heads=1 q_len=200 k_len=131 dim=8 deterministic=1",
    "heads=2 kv_heads=1 q_len=131 k_len=200 dim=24 dtype=f16 mask=causal",
    "batch=2 heads=2 kv_heads=2 q_len=129 k_len=129 dim=72 mask=causal deterministic=1",
    "heads=4 kv_heads=2 q_len=150 k_len=280 dim=96 mask=causal",
    "heads=4 kv_heads=2 q_len=150 k_len=280 dim=96 dtype=f16 deterministic=1",
    "heads=3 kv_heads=1 q_len=65 k_len=257 dim=120 mask=causal",
    "heads=2 kv_heads=1 q_len=300 k_len=300 dim=96 mask=causal keys_left=101",
    "heads=2 kv_heads=1 q_len=300 k_len=280 dim=40 keys_left=31 keys_right=64 deterministic=1",
    "heads=2 kv_heads=1 q_len=300 k_len=300 dim=96 mask=causal documents=5 deterministic=1",
    "heads=2 kv_heads=1 q_len=300 k_len=300 dim=112 dtype=f16 documents=5",
    "heads=2 kv_heads=1 q_len=400 k_len=330 dim=56 mask=causal documents=4"};

// Heads of more than 128 and heads smaller than those, with values of the same size and of others.
constexpr const char* kWideHeads[] = {
    "heads=4 kv_heads=2 q_len=150 k_len=280 dim=256 mask=causal",
    "heads=2 kv_heads=1 q_len=130 k_len=200 dim=256 dtype=f16 deterministic=1",
    "batch=2 heads=2 kv_heads=2 q_len=63 k_len=65 dim=192 mask=causal deterministic=1",
    "heads=2 kv_heads=1 q_len=200 k_len=129 dim=136 dtype=f16 mask=causal",
    "heads=4 kv_heads=2 q_len=129 k_len=193 dim=192 dtype=f16",
    "heads=1 kv_heads=1 q_len=260 k_len=260 dim=256 mask=causal keys_left=65",
    "heads=2 kv_heads=1 q_len=200 k_len=330 dim=200 keys_left=31 keys_right=64 deterministic=1",
    "heads=2 kv_heads=1 q_len=300 k_len=300 dim=256 mask=causal documents=5 deterministic=1",
    "heads=2 kv_heads=1 q_len=200 k_len=260 dim=160 dtype=f16 documents=3",
    "batch=2 heads=4 kv_heads=2 q_len=260 k_len=260 dim=192 v_dim=128 mask=causal deterministic=1",
    "heads=2 kv_heads=1 q_len=330 k_len=140 dim=192 v_dim=128 dtype=f16 deterministic=1",
    "heads=2 kv_heads=1 q_len=65 k_len=320 dim=160 v_dim=96 mask=causal",
    "heads=2 kv_heads=1 q_len=200 k_len=200 dim=136 v_dim=8 keys_right=21",
    "heads=2 kv_heads=1 q_len=300 k_len=300 dim=192 v_dim=128 dtype=f16 mask=causal documents=5 deterministic=1",
    "heads=2 kv_heads=1 q_len=100 k_len=200 dim=72 v_dim=200 mask=causal"};

// Up to 256 queries and keys of heads that share no keys, around blocks of 128 of either.
constexpr const char* kShortSequences[] = {
    "batch=2 heads=3 kv_heads=3 q_len=256 k_len=256 dim=64 mask=causal deterministic=1",
    "batch=2 heads=2 kv_heads=2 q_len=256 k_len=100 dim=64 dtype=f16 mask=causal",
    "heads=2 kv_heads=2 q_len=90 k_len=250 dim=40 v_dim=64 deterministic=1",
    "heads=3 kv_heads=3 q_len=200 k_len=180 dim=64 dtype=f16",
    "heads=2 kv_heads=2 q_len=129 k_len=255 dim=24 v_dim=8 mask=causal"};

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
  for (const char* words : kSmallerHeads) cases.push_back(make_case(words));
  for (const char* words : kWideHeads) cases.push_back(make_case(words));
  for (const char* words : kShortSequences) cases.push_back(make_case(words));
  for (const auto& words : {attention::window_cases(), attention::document_cases(), attention::value_cases(),
                            attention::sink_cases(), attention::softcap_cases(), attention::alibi_cases()}) {
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
