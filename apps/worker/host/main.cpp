// ridge-host: the process that runs a candidate. Started by ridge-worker only, with the shared memory as descriptor 3
// and the artefact as descriptor 4; gives up its rights, loads the candidate, and calls it on command.
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "evaluate/host_serve.h"
#include "sandbox.h"

namespace {

using namespace ridge::evaluate;
using Kernel = int (*)(const ridge_call*);

Kernel kernel = nullptr;

std::int32_t load(HostControl& control) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", kArtifactFd);
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::snprintf(control.message, sizeof control.message, "%s", ::dlerror());
    return 1;
  }
  kernel = reinterpret_cast<Kernel>(::dlsym(library, "ridge_kernel"));
  if (kernel == nullptr) {
    std::snprintf(control.message, sizeof control.message, "it does not define ridge_kernel");
    return 2;
  }
  ::close(kArtifactFd);
  if ((control.sandbox & kSystemCallFilter) != 0 && !ridge::host::seal_sandbox()) {
    std::snprintf(control.message, sizeof control.message, "the second system call filter was refused");
    return 3;
  }
  return 0;
}

}  // namespace

// Arguments: the limit of the address space in bytes.
int main(int argc, char** argv) {
  struct stat status {};
  if (argc != 2 || ::fstat(kRegionFd, &status) != 0) {
    std::fprintf(stderr, "ridge-host is started by ridge-worker\n");
    return 64;
  }
  void* region = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, kRegionFd, 0);
  if (region == MAP_FAILED) return 65;
  ::close(kRegionFd);
  install_fault_handlers(*static_cast<HostControl*>(region));
  HostHandlers handlers;
  handlers.sandbox = [argv](HostControl& control) {
    control.sandbox = ridge::host::enter_sandbox({std::strtoull(argv[1], nullptr, 10)});
    return 0;
  };
  handlers.load = load;
  handlers.call = [](const ridge_call& call) { return kernel(&call); };
  serve(region, handlers);
}
