// ridge-cheat: gate=system_calls outcome=CHEAT without=build
// says: execve
// Starts another program, with itself to be preloaded.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  char* const none[] = {nullptr};
  char preload[] = "LD_PRELOAD=/kernel.so";
  char* const environment[] = {preload, nullptr};
  execve("/bin/true", none, environment);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
