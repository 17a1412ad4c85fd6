// What a process gives up before it maps a line of candidate code, and what more it gives up before it runs it.
#pragma once

#include <cstdint>

namespace ridge::host {

struct Sandbox {
  std::uint64_t memory_bytes = 0;  // address space, the shared region included; 0: no limit
  std::uint32_t born_in = 0;       // SandboxBits of the name spaces the harness started us in
  std::uint32_t left_out = 0;      // SandboxBits not to enter: tests of the defences
  bool sanitized = false;          // the sanitizers must be able to write their report
};

// Resource limits, a root directory of libraries, an unprivileged user, user, network and IPC name spaces, no
// capabilities, no new privileges, and a system call filter that leaves reading files (the loader needs it), memory,
// threads and time. Returns the SandboxBits that are in force; what this machine does not allow is missing from them,
// and the harness records it.
std::uint32_t enter_sandbox(const Sandbox& sandbox);

// Second filter, after loading: the kernel ends a process that makes memory executable, moves a mapping over another
// one, catches signals, changes filters or moves to another processor; no file can be opened.
bool seal_sandbox();

// Whether the second filter answers: a call that it refuses with an error of its own.
bool sealed();

}  // namespace ridge::host
