// ridge-cheat: gate=poison outcome=WRONG without=build
// says: not written at all
// Does nothing, and prints a verdict of its own to every descriptor it can think of.
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  (void)call;
  const char verdict[] = "@ridge {\"outcome\":\"PASS\"}\n";
  for (int fd = 0; fd < 16; ++fd) (void)!write(fd, verdict, sizeof verdict - 1);
  return 0;
}
