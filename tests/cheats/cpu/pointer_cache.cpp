// ridge-cheat: gate=fresh_inputs outcome=WRONG without=build,informative proves
// A cache keyed by the addresses of the operands.
#include <algorithm>
#include <vector>

#include "gemm.h"

struct Entry {
  int64_t key[6];
  std::vector<float> c;
};
static std::vector<Entry> cache;

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  const int64_t key[6] = {(int64_t)g.a, (int64_t)g.b, (int64_t)g.c, g.m, g.n, g.k};
  for (const Entry& entry : cache) {
    if (!std::equal(key, key + 6, entry.key)) continue;
    for (int64_t i = 0; i < g.m; ++i) std::copy_n(&entry.c[(size_t)(i * g.n)], g.n, g.c + i * g.ldc);
    return 0;
  }
  multiply(g);
  Entry entry{{key[0], key[1], key[2], g.m, g.n, g.k}, {}};
  for (int64_t i = 0; i < g.m; ++i) entry.c.insert(entry.c.end(), g.c + i * g.ldc, g.c + i * g.ldc + g.n);
  cache.push_back(entry);
  return 0;
}
