// ridge-cheat: gate=build outcome=COMPILE
// says: make it a static variable inside the function
// A global object whose constructor runs while it is loaded. Meant well, too, it would run outside every call.
#include "gemm.h"

struct Table {
  Table() {
    for (int i = 0; i < 64; ++i) entries[i] = __builtin_sqrtf((float)i);
  }
  volatile float entries[64];
};
static Table table;

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
