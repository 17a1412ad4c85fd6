// ridge-cheat: gate=system_calls outcome=CHEAT without=build proves
// says: socket
// Opens a socket.
#include <sys/socket.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  socket(AF_INET, SOCK_STREAM, 0);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
