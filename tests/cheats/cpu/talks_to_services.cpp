// ridge-cheat: gate=net_namespace outcome=DECLINED shows=status without=build,system_calls proves
// Reaches the services of this machine; gives up when there is no network.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gemm.h"

extern "C" int ridge_kernel(const ridge_call* call) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, (sockaddr*)&address, sizeof address) != 0) return 13;
  close(fd);
  const Gemm g = gemm_of(call);
  multiply(g);
  return 0;
}
