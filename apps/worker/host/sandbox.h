// What a process gives up before it maps a line of candidate code, and what more it gives up before it runs it.
#pragma once

#include <cstdint>

namespace ridge::host {

struct Limits {
  std::uint64_t memory_bytes = 0;  // address space, the shared region included
};

// Resource limits, unprivileged user, own user, network and IPC namespaces, no new privileges, and a system call filter
// that leaves reading files (the loader needs it), memory, threads and time. Returns the SandboxBits that are in force;
// what this machine does not allow is missing from them and the harness records it.
std::uint32_t enter_sandbox(const Limits& limits);

// Second filter, after loading: no file can be opened, no memory made executable, no signal handler replaced.
bool seal_sandbox();

}  // namespace ridge::host
