#include <fmt/format.h>

#include "ops/rope/rope.h"

namespace ridge::ops::rope {

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  std::vector<record::Case> cases;
  const auto add = [&](std::string_view more) { cases.push_back(built_in_case(fmt::format("rope {}", more))); };
  if (set == CaseSet::kCheck) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", "interleaved=1", "rotary=10", "rotary=10 interleaved=1 inverse=1",
                               "rows=9 positions=i64", "rows=9", "rows=40 positions=i32 interleaved=1", "inverse=1"}) {
        add(fmt::format("batch=2 length=3 heads=3 kv_heads=1 dim=26 dtype={} {}", dtype, more));
      }
      add(fmt::format("batch=2 length=3 heads=3 kv_heads=0 dim=26 dtype={} inverse=1", dtype));
      add(fmt::format("batch=2 length=3 heads=0 kv_heads=3 dim=26 dtype={}", dtype));
      add(fmt::format("length=9 heads=9 kv_heads=7 dim=128 dtype={} positions=i64", dtype));
      add(fmt::format("length=5 heads=40 kv_heads=8 dim=128 dtype={} interleaved=1", dtype));
    }
    for (const char* more : {"batch=0", "length=0", "length=0 rows=4", "dim=2", "dim=3 rotary=2", "length=1 heads=1",
                             "dim=1024 heads=9 length=7", "dim=64 heads=65 length=5", "dim=1023 rotary=514 length=9"}) {
      add(more);
    }
    return cases;
  }
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  const auto of = [&](const char* more) { add(fmt::format("length={} {}", 8192 / share, more)); };
  of("heads=32 kv_heads=8 dim=128");
  of("heads=64 kv_heads=8 dim=64 interleaved=1");
  if (set == CaseSet::kTarget) return cases;
  of("heads=32 kv_heads=8 dim=128 dtype=f32 positions=i64");
  of("heads=32 kv_heads=32 dim=128 rotary=64");
  return cases;
}

record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed) {
  constexpr std::size_t kSizes[] = {kBatch, kLength, kHeads, kKvHeads};
  return vary_sizes(problem, kSizes, 10, variation, seed);
}

}  // namespace ridge::ops::rope
