#include <fmt/format.h>

#include "ops/rope/norm/norm.h"

namespace ridge::ops::rope_norm {

std::vector<record::Case> cases_of(std::string_view op, CaseSet set, Backend backend) {
  std::vector<record::Case> cases;
  const auto add = [&](std::string_view more) { cases.push_back(built_in_case(fmt::format("{} {}", op, more))); };
  if (set == CaseSet::kCheck) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more :
           {"", "interleaved=1 weight=none", "rotary=10 weight=f32", "rotary=10 interleaved=1 zero_centred=1",
            "rows=9 positions=i64", "rows=40 positions=i32 interleaved=1 weight=f32 zero_centred=1"}) {
        add(fmt::format("batch=2 length=3 heads=3 kv_heads=1 dim=26 dtype={} {}", dtype, more));
      }
      add(fmt::format("batch=2 length=3 heads=3 kv_heads=0 dim=26 dtype={}", dtype));
      add(fmt::format("batch=2 length=3 heads=0 kv_heads=3 dim=26 dtype={}", dtype));
      add(fmt::format("length=9 heads=9 kv_heads=7 dim=128 dtype={} positions=i64", dtype));
      add(fmt::format("length=5 heads=40 kv_heads=8 dim=128 dtype={} interleaved=1 weight=f32", dtype));
      add(fmt::format("length=9 heads=9 kv_heads=7 dim=96 dtype={}", dtype));
      add(fmt::format("length=9 heads=9 kv_heads=7 dim=72 rotary=48 dtype={} weight=f32", dtype));
    }
    for (const char* more : {"batch=0", "length=0", "length=0 rows=4", "dim=2", "dim=3 rotary=2",
                             "dim=1024 heads=9 length=7", "dim=64 heads=65 length=5", "length=1 heads=1",
                             "dim=1023 rotary=514 length=9", "length=300 heads=2 kv_heads=1 dim=16"}) {
      add(more);
    }
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  const auto of = [&](const char* more) { add(fmt::format("length={} {}", 8192 / share, more)); };
  of("heads=32 kv_heads=8 dim=128");
  of("heads=32 kv_heads=4 dim=128");
  if (set == CaseSet::kTarget) return cases;
  of("heads=8 kv_heads=4 dim=256 weight=f32 zero_centred=1");
  of("heads=32 kv_heads=8 dim=64 dtype=f32");
  return cases;
}

std::vector<record::Case> cases(CaseSet set, Backend backend) { return cases_of("rope_norm", set, backend); }

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {rope::kBatch, rope::kLength, rope::kHeads, rope::kKvHeads};
  return vary_sizes(problem, kSizes, 10, variation, seed);
}

}  // namespace ridge::ops::rope_norm
