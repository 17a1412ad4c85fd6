// ridge-cheat: gate=system_calls outcome=CHEAT without=build
// says: ptrace
// Attaches to its parent as a debugger.
#include <sys/ptrace.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  ptrace(PTRACE_ATTACH, 2, nullptr, nullptr);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
