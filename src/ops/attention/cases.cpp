#include <fmt/format.h>

#include "ops/attention/attention.h"

namespace ridge::ops::attention {
namespace {

record::Case make_case(std::string_view text) { return built_in_case(fmt::format("attention {}", text)); }

// Around the tiles of 32 queries and 64 keys, unequal lengths both ways, groups, odd dims, and nothing at all.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases;
  for (const char* mask : {"full", "causal"}) {
    for (const char* dtype : {"bf16", "f16"}) {
      for (const char* sizes :
           {"batch=1 heads=1 kv_heads=1 q_len=1 k_len=1 dim=64", "batch=1 heads=2 kv_heads=1 q_len=33 k_len=65 dim=64",
            "batch=1 heads=4 kv_heads=2 q_len=70 k_len=70 dim=128",
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
  for (const auto& all :
       {window_cases(), document_cases(), value_cases(), head_cases(), sink_cases(), softcap_cases(), alibi_cases()}) {
    for (const std::string_view words : all) cases.push_back(make_case(words));
  }
  return cases;
}

std::vector<record::Case> bench_cases(Backend backend) {
  if (backend == Backend::kCpu) {
    return {make_case("batch=1 heads=8 kv_heads=2 q_len=512 k_len=512 dim=128 mask=causal"),
            make_case("batch=1 heads=8 kv_heads=8 q_len=512 k_len=512 dim=64 mask=full")};
  }
  return {make_case("batch=1 heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal"),
          make_case("batch=1 heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=full"),
          make_case("batch=1 heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal keys_left=1024"),
          make_case("batch=1 heads=32 kv_heads=8 q_len=16384 k_len=16384 dim=128 mask=causal documents=8"),
          make_case("batch=2 heads=64 kv_heads=8 q_len=4096 k_len=4096 dim=128 mask=causal"),
          make_case("batch=1 heads=64 kv_heads=8 q_len=8192 k_len=8192 dim=64 mask=causal keys_left=128 sinks=1"),
          make_case("batch=1 heads=16 kv_heads=8 q_len=8192 k_len=8192 dim=256 mask=causal softcap=1"),
          make_case("batch=1 heads=32 kv_heads=32 q_len=8192 k_len=8192 dim=128 mask=causal alibi=1"),
          make_case("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=64 mask=causal"),
          make_case("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=64 mask=full")};
}

}  // namespace

// Ends of windows within blocks of keys, at their ends and in one block; windows of one key, with one end, and beyond
// the first and last keys, so that queries see nothing and keys are seen by none.
std::span<const std::string_view> window_cases() {
  static constexpr std::string_view kWords[] = {
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=128 mask=causal keys_left=101",
      "heads=2 kv_heads=1 q_len=400 k_len=400 dim=64 dtype=f16 mask=causal keys_left=128",
      "heads=2 kv_heads=2 q_len=70 k_len=390 dim=128 keys_left=6 keys_right=10",
      "heads=2 kv_heads=1 q_len=33 k_len=65 dim=40 keys_left=8 keys_right=1",
      "heads=2 kv_heads=1 q_len=390 k_len=70 dim=64 keys_left=31 keys_right=4",
      "heads=1 kv_heads=1 q_len=260 k_len=260 dim=128 keys_left=1 keys_right=1",
      "heads=2 kv_heads=1 q_len=200 k_len=330 dim=64 keys_right=21",
      "heads=2 kv_heads=1 q_len=330 k_len=200 dim=128 dtype=f16 keys_left=129",
      "heads=1 kv_heads=1 q_len=129 k_len=129 dim=64 mask=causal keys_left=1",
      "batch=2 heads=4 kv_heads=2 q_len=140 k_len=270 dim=128 mask=causal keys_left=65",
      "heads=1 kv_heads=1 q_len=20 k_len=30 dim=13 keys_left=4 keys_right=5",
      "heads=1 kv_heads=1 q_len=420 k_len=560 dim=64 keys_left=201 keys_right=101"};
  return kWords;
}

// Documents that end within tiles and blocks, more of them than rows, one, and none with rows; keys of other lengths.
std::span<const std::string_view> document_cases() {
  static constexpr std::string_view kWords[] = {
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=128 mask=causal documents=5",
      "heads=2 kv_heads=1 q_len=400 k_len=700 dim=64 dtype=f16 documents=3",
      "heads=2 kv_heads=2 q_len=150 k_len=90 dim=64 mask=causal documents=200",
      "heads=2 kv_heads=1 q_len=500 k_len=500 dim=128 mask=causal keys_left=71 documents=2",
      "heads=1 kv_heads=1 q_len=129 k_len=257 dim=128 dtype=f16 keys_left=11 keys_right=31 documents=1",
      "heads=2 kv_heads=1 q_len=33 k_len=65 dim=40 mask=causal documents=4",
      "heads=3 kv_heads=1 q_len=500 k_len=450 dim=64 mask=causal documents=7",
      "heads=2 kv_heads=1 q_len=0 k_len=9 dim=64 documents=2",
      "heads=2 kv_heads=1 q_len=9 k_len=0 dim=64 documents=2",
      "heads=1 kv_heads=1 q_len=260 k_len=390 dim=128 documents=3"};
  return kWords;
}

// Narrower and wider than those of keys, around vectors and tiles, under every mask.
std::span<const std::string_view> value_cases() {
  static constexpr std::string_view kWords[] = {
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=192 v_dim=128 mask=causal",
      "heads=2 kv_heads=2 q_len=70 k_len=390 dim=192 v_dim=128 dtype=f16",
      "heads=4 kv_heads=2 q_len=129 k_len=257 dim=192 v_dim=128 mask=causal keys_left=65",
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=192 v_dim=128 mask=causal documents=5",
      "batch=2 heads=2 kv_heads=1 q_len=33 k_len=65 dim=64 v_dim=128 keys_left=8 keys_right=20",
      "heads=2 kv_heads=1 q_len=100 k_len=37 dim=128 v_dim=64 dtype=f16 mask=causal",
      "heads=3 kv_heads=1 q_len=40 k_len=70 dim=13 v_dim=33 documents=2",
      "heads=1 kv_heads=1 q_len=9 k_len=7 dim=256 v_dim=1",
      "heads=1 kv_heads=1 q_len=9 k_len=7 dim=1 v_dim=256 mask=causal",
      "heads=2 kv_heads=1 q_len=3 k_len=0 dim=192 v_dim=128"};
  return kWords;
}

// Heads of sizes between those that a kernel is built for, and the largest, under every mask.
std::span<const std::string_view> head_cases() {
  static constexpr std::string_view kWords[] = {
      "batch=2 heads=2 kv_heads=1 q_len=70 k_len=200 dim=8",
      "heads=2 kv_heads=1 q_len=200 k_len=330 dim=24 dtype=f16 mask=causal",
      "heads=2 kv_heads=2 q_len=150 k_len=90 dim=40 dtype=f16 mask=causal documents=7",
      "heads=2 kv_heads=1 q_len=200 k_len=140 dim=72 documents=3",
      "heads=4 kv_heads=2 q_len=300 k_len=300 dim=96 mask=causal",
      "batch=2 heads=4 kv_heads=2 q_len=129 k_len=257 dim=96 dtype=f16",
      "heads=2 kv_heads=2 q_len=330 k_len=200 dim=96 mask=causal keys_left=65",
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=96 mask=causal documents=5",
      "heads=2 kv_heads=1 q_len=260 k_len=390 dim=120 keys_left=71 keys_right=20",
      "heads=2 kv_heads=1 q_len=130 k_len=170 dim=136 dtype=f16 mask=causal",
      "heads=2 kv_heads=1 q_len=250 k_len=250 dim=192 mask=causal",
      "heads=2 kv_heads=2 q_len=200 k_len=240 dim=168 dtype=f16 documents=3",
      "heads=2 kv_heads=1 q_len=140 k_len=300 dim=216 mask=causal keys_left=33",
      "heads=4 kv_heads=2 q_len=300 k_len=300 dim=256 mask=causal",
      "batch=2 heads=2 kv_heads=1 q_len=129 k_len=257 dim=256 dtype=f16",
      "heads=2 kv_heads=1 q_len=330 k_len=200 dim=256 mask=causal",
      "heads=2 kv_heads=1 q_len=200 k_len=330 dim=256 dtype=f16 keys_left=81 keys_right=33",
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=256 mask=causal documents=5",
      "heads=2 kv_heads=1 q_len=100 k_len=150 dim=248 dtype=f16 documents=2"};
  return kWords;
}

// Under every mask, beside rows without keys, of shared heads, of wide ones, and of nothing.
std::span<const std::string_view> sink_cases() {
  static constexpr std::string_view kWords[] = {
      "batch=2 heads=4 kv_heads=2 q_len=150 k_len=150 dim=64 mask=causal sinks=1",
      "heads=4 kv_heads=1 q_len=33 k_len=70 dim=64 dtype=f16 sinks=1",
      "heads=4 kv_heads=2 q_len=140 k_len=140 dim=64 mask=causal keys_left=33 sinks=1",
      "heads=2 kv_heads=1 q_len=90 k_len=40 dim=64 mask=causal sinks=1",
      "heads=4 kv_heads=2 q_len=200 k_len=150 dim=64 mask=causal documents=5 sinks=1",
      "heads=3 kv_heads=1 q_len=20 k_len=30 dim=24 v_dim=40 sinks=1",
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=128 dtype=f16 keys_left=65 keys_right=33 sinks=1",
      "heads=2 kv_heads=1 q_len=200 k_len=260 dim=192 v_dim=128 mask=causal documents=3 sinks=1",
      "heads=2 kv_heads=2 q_len=150 k_len=90 dim=256 mask=causal sinks=1",
      "heads=2 kv_heads=1 q_len=3 k_len=0 dim=64 sinks=1",
      "heads=2 kv_heads=1 q_len=0 k_len=3 dim=64 sinks=1"};
  return kWords;
}

// Under every mask, with sinks, of keys that fill no vector, and of heads around those of kernels.
std::span<const std::string_view> softcap_cases() {
  static constexpr std::string_view kWords[] = {
      "batch=2 heads=4 kv_heads=2 q_len=140 k_len=140 dim=64 mask=causal softcap=1",
      "heads=1 kv_heads=1 q_len=33 k_len=70 dim=256 dtype=f16 softcap=1",
      "heads=4 kv_heads=2 q_len=140 k_len=140 dim=128 mask=causal keys_left=33 softcap=1 sinks=1",
      "heads=4 kv_heads=2 q_len=200 k_len=150 dim=64 mask=causal documents=5 softcap=1",
      "heads=2 kv_heads=1 q_len=260 k_len=390 dim=96 dtype=f16 softcap=1",
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=256 mask=causal documents=3 softcap=1 sinks=1",
      "heads=2 kv_heads=1 q_len=200 k_len=330 dim=192 mask=causal keys_left=81 softcap=1",
      "heads=2 kv_heads=1 q_len=130 k_len=260 dim=192 v_dim=128 dtype=f16 mask=causal softcap=1",
      "heads=3 kv_heads=1 q_len=20 k_len=13 dim=24 v_dim=40 mask=causal softcap=1"};
  return kWords;
}

// Under every mask, behind a softcap, beside sinks, of more queries than keys, of keys that fill no vector, and of
// heads around those of kernels, with blocks of keys before and behind the places of a tile.
std::span<const std::string_view> alibi_cases() {
  static constexpr std::string_view kWords[] = {
      "batch=2 heads=4 kv_heads=2 q_len=140 k_len=140 dim=64 mask=causal alibi=1",
      "heads=2 kv_heads=1 q_len=70 k_len=33 dim=256 dtype=f16 alibi=1",
      "heads=4 kv_heads=2 q_len=140 k_len=140 dim=128 mask=causal keys_left=33 softcap=1 sinks=1 alibi=1",
      "heads=4 kv_heads=2 q_len=200 k_len=150 dim=64 mask=causal documents=5 alibi=1",
      "heads=2 kv_heads=1 q_len=330 k_len=470 dim=64 dtype=f16 alibi=1",
      "heads=2 kv_heads=1 q_len=300 k_len=400 dim=128 keys_left=201 keys_right=130 alibi=1",
      "heads=4 kv_heads=1 q_len=300 k_len=300 dim=128 dtype=f16 mask=causal alibi=1",
      "heads=2 kv_heads=1 q_len=300 k_len=420 dim=96 documents=3 sinks=1 alibi=1",
      "heads=2 kv_heads=1 q_len=200 k_len=330 dim=192 v_dim=128 mask=causal alibi=1",
      "heads=2 kv_heads=2 q_len=200 k_len=330 dim=192 v_dim=128 dtype=f16 alibi=1",
      "heads=2 kv_heads=1 q_len=300 k_len=300 dim=256 mask=causal documents=3 softcap=1 sinks=1 alibi=1",
      "heads=2 kv_heads=1 q_len=200 k_len=260 dim=192 keys_left=81 softcap=1 alibi=1",
      "heads=3 kv_heads=1 q_len=20 k_len=13 dim=24 v_dim=40 alibi=1"};
  return kWords;
}

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  switch (set) {
    case CaseSet::kCheck: return check_cases();
    case CaseSet::kBench: return bench_cases(backend);
    case CaseSet::kTarget:
      return {make_case("batch=1 heads=4 kv_heads=2 q_len=256 k_len=256 dim=64 mask=causal"),
              make_case("batch=1 heads=4 kv_heads=1 q_len=192 k_len=320 dim=128 mask=full"),
              make_case("batch=2 heads=2 kv_heads=2 q_len=250 k_len=250 dim=64 mask=causal")};
  }
  return {};
}

// Lengths vary. For a reduced case one group of heads of one sequence stays: the work of a run is bounded.
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  return vary_of(problem, shape_of(problem), variation, seed);
}

record::Case vary_of(const Problem& problem, const Shape& own, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kQLen, kKLen};
  record::Case other = vary_sizes(problem, kSizes, own.dim + own.v_dim > 256 ? 8 : 16, variation, seed);
  if (variation == Variation::kReduced || variation == Variation::kAlignedReduced) {
    if (own.kv_heads > 0) {
      other.set("heads", std::to_string(own.heads / own.kv_heads));
      other.set("kv_heads", "1");
    }
    if (own.batch > 1) other.set("batch", "1");
  }
  return other;
}

}  // namespace ridge::ops::attention
