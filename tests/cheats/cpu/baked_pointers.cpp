// ridge-cheat: gate=new_address outcome=WRONG shows=new_address|red_zone|input_intact|poison|guard_page proves
// Remembers the addresses of the first call of a shape, as a recorded graph does, and works on those for ever.
#include <vector>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  static std::vector<Gemm> recorded;
  const Gemm now = gemm_of(call);
  for (const Gemm& g : recorded) {
    if (g.m != now.m || g.n != now.n || g.k != now.k) continue;
    multiply(g);
    return 0;
  }
  recorded.push_back(now);
  multiply(now);
  return 0;
}
