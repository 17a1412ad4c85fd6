// What the harness and a host process share: one control block at the start of a shared memory region, operands behind.
//
// The host process runs a candidate, so everything it writes here is a claim. The harness believes none of it without
// a second witness: outputs are verified from its own copy, the span of a call is held against its own wall clock and
// against the processor time the kernel accounts to the host, and how a process ended comes from waitpid().
#pragma once

#include <cstddef>
#include <cstdint>

#include "ridge/candidate.h"

namespace ridge::evaluate {

inline constexpr int kMaxOperands = 16;
inline constexpr int kMaxParams = 64;
inline constexpr int kMaxScalars = 16;
inline constexpr int kRegionFd = 3;                  // of the host: the shared memory
inline constexpr int kArtifactFd = 4;                // of the host: the shared object
inline constexpr std::size_t kControlBytes = 16384;  // operands start here

enum class HostCommand : std::uint32_t {
  kSandbox,  // give up everything a kernel does not need
  kLoad,     // load the candidate
  kCall,     // one call
  kEmpty,    // the same path without the kernel: what the hand-shake itself costs
  kFence     // make everything behind the control block accessible but `param_count` / 2 ranges: first byte, bytes
};

// Parts of the sandbox, as bits of HostControl::sandbox.
enum SandboxBit : std::uint32_t {
  kLimits = 1,         // rlimits: address space, files, core
  kOtherUser = 2,      // an unprivileged user id
  kUserNamespace = 4,  // own user namespace: no capability in ours, no ptrace of our processes
  kNetNamespace = 8,   // own empty network
  kIpcNamespace = 16,  // own System V and POSIX message queues
  kNoNewPrivileges = 32,
  kSystemCallFilter = 64,
  kPidNamespace = 128,    // sees no process but itself, and ends with everything it started
  kMountNamespace = 256,  // sees no file but the system's libraries, read-only, and its own artefact
  kSealed = 512           // after loading: no file can be opened, no memory made executable
};
inline constexpr std::uint32_t kLastSandboxBit = kSealed;
inline constexpr std::uint32_t kWholeSandbox = 2 * kLastSandboxBit - 1;

struct HostOperand {
  std::uint64_t offset;  // from the start of the region
  std::int32_t dtype, rank;
  std::int64_t shape[RIDGE_MAX_RANK], stride[RIDGE_MAX_RANK];
};

struct HostControl {
  // Futex words. The harness increments `request`; the host answers by setting `reply` to the same number.
  std::uint32_t request, reply;
  HostCommand command;
  std::int32_t status;             // of the command: 0 is success; what ridge_kernel returned
  std::uint64_t start_ns, end_ns;  // CLOCK_MONOTONIC around the call
  std::uint32_t sandbox;           // SandboxBit, written before any candidate code is mapped
  std::int32_t signal;             // left by the host's signal handlers; 0: none
  std::int32_t system_call;        // the refused system call, when signal is SIGSYS
  std::int32_t out_of_memory;      // the address space was exhausted when the signal came
  std::uint64_t fault_address;
  std::int32_t threads, operand_count, param_count, scalar_count;
  HostOperand operands[kMaxOperands];
  std::int64_t params[kMaxParams];
  std::uint64_t scalars[kMaxScalars];  // as ridge_scalar holds them
  char message[512];
  std::int64_t fault_offset;  // of fault_address, from the start of the region
};
static_assert(sizeof(HostControl) <= kControlBytes);

}  // namespace ridge::evaluate
