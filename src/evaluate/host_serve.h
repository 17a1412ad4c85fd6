// The loop of a host process: wait for a command in shared memory, do it, answer.
#pragma once

#include <cstddef>
#include <functional>

#include "evaluate/host_protocol.h"

namespace ridge::evaluate {

// The C call that a command describes, in the address space of this process.
struct HostCall {
  ridge_tensor operands[kMaxOperands];
  std::int64_t params[kMaxParams];
  ridge_scalar scalars[kMaxScalars];
  ridge_call call;
};

struct HostHandlers {
  std::function<std::int32_t(HostControl&)> sandbox, load;
  std::function<std::int32_t(const ridge_call&)> call;
};

// Serves for ever; the harness ends a host by killing it. `region` is the mapped shared memory.
[[noreturn]] void serve(void* region, std::size_t region_bytes, const HostHandlers& handlers);

// Signal handlers that leave signal, address and the refused system call in the control block before the process dies.
void install_fault_handlers(HostControl& control);

}  // namespace ridge::evaluate
