// ridge-cheat: gate=build outcome=COMPILE
// says: indirect function
// Code in the resolver of an indirect function, which the loader calls.
#include "gemm.h"

static void plain(const Gemm& g) { multiply(g); }
extern "C" void* chooses() { return (void*)plain; }
static void product(const Gemm& g) __attribute__((ifunc("chooses")));

extern "C" int ridge_kernel(const ridge_call* call) {
  const Gemm g = gemm_of(call);
  product(g);
  return 0;
}
