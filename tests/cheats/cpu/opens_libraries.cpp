// ridge-cheat: gate=build outcome=COMPILE
// says: it imports dlopen
// Would look up by name at run time what its imports do not show.
#include <dlfcn.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  void* const library = dlopen(nullptr, RTLD_NOW);
  const Gemm g = gemm_of(call);
  multiply(g);
  return library == nullptr;
}
