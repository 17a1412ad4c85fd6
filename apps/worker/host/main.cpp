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
#include "red_zones.h"
#include "root_directory.h"
#include "sandbox.h"

namespace {

using namespace ridge::evaluate;
using Kernel = int (*)(const ridge_call*);

Kernel kernel = nullptr;
ridge::host::Sandbox sandbox;
std::uint32_t in_force = 0;

std::int32_t load(HostControl& control) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", kArtifactFd);
  if ((in_force & kMountNamespace) != 0) std::snprintf(path, sizeof path, "%s", ridge::host::kArtifactPath);
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
  // A sanitizer looks things up in files when it reports.
  if ((in_force & kSystemCallFilter) == 0 || (sandbox.left_out & kSealed) != 0 || sandbox.sanitized) return 0;
  if (!ridge::host::seal_sandbox() || !ridge::host::sealed()) {
    std::snprintf(control.message, sizeof control.message, "the second system call filter is not in force");
    return 3;
  }
  control.sandbox = in_force |= kSealed;
  return 0;
}

}  // namespace

// Arguments: the limit of the address space in bytes, the SandboxBits we were born in and those to leave out, "plain"
// or "sanitized".
int main(int argc, char** argv) {
  struct stat status {};
  if (argc != 5 || ::fstat(kRegionFd, &status) != 0) {
    std::fprintf(stderr, "ridge-host is started by ridge-worker\n");
    return 64;
  }
  sandbox.memory_bytes = std::strtoull(argv[1], nullptr, 10);
  sandbox.born_in = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  sandbox.left_out = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  sandbox.sanitized = std::strcmp(argv[4], "sanitized") == 0;
  const auto region_bytes = static_cast<std::size_t>(status.st_size);
  void* region = ::mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, kRegionFd, 0);
  if (region == MAP_FAILED) return 65;
  ::close(kRegionFd);
  install_fault_handlers(*static_cast<HostControl*>(region));
  ridge::host::RedZones red_zones(region, region_bytes, sandbox.sanitized);
  HostHandlers handlers;
  handlers.sandbox = [](HostControl& control) {
    in_force = control.sandbox = ridge::host::enter_sandbox(sandbox);
    return 0;
  };
  handlers.load = load;
  handlers.call = [&red_zones](const ridge_call& call) {
    red_zones.raise(call);
    const int result = kernel(&call);
    red_zones.lower();
    return result;
  };
  serve(region, region_bytes, handlers);
}
