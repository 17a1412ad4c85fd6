// ridge-cheat: gate=fresh_inputs outcome=WRONG without=build shows=fresh_inputs|every_call|families
// A cache keyed by a fingerprint of the content: the signs of three elements.
#include <algorithm>
#include <vector>

#include "gemm.h"

struct Entry {
  int64_t key[4];
  std::vector<float> c;
};
static std::vector<Entry> cache;

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  const int64_t mark = (g.a[0] < 0) + 2 * (g.b[0] < 0) + 4 * (g.a[(g.m - 1) * g.lda] < 0);
  const int64_t key[4] = {mark, g.m, g.n, g.k};
  for (const Entry& entry : cache) {
    if (!std::equal(key, key + 4, entry.key)) continue;
    for (int64_t i = 0; i < g.m; ++i) std::copy_n(&entry.c[(size_t)(i * g.n)], g.n, g.c + i * g.ldc);
    return 0;
  }
  multiply(g);
  Entry entry{{mark, g.m, g.n, g.k}, {}};
  for (int64_t i = 0; i < g.m; ++i) entry.c.insert(entry.c.end(), g.c + i * g.ldc, g.c + i * g.ldc + g.n);
  cache.push_back(entry);
  return 0;
}
