// Starts ridge-host in name spaces of its own. From outside the candidate's reach, because name spaces for processes
// must exist before the process does.
//
// What is tried, in this order; the first that the machine allows is taken, and what is in force is recorded:
//   1  as root: new process, mount, network, IPC and host name spaces; the host then gives up root and enters a user
//      name space of its own
//   2  otherwise: a new user name space, and the same inside it
//   3  none of them; the host asks for the user, network and IPC name spaces by itself and may be refused
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "evaluate/defences.h"

namespace ridge::evaluate {

struct HostSpawn {
  std::filesystem::path program;
  int threads = 1;
  int region_fd = -1, artifact_fd = -1;
  int report_fd = -1;                       // what the host writes to standard error; -1: nothing
  std::uint64_t memory_bytes = 0;           // of its address space; 0: no limit
  std::filesystem::path sanitizer_runtime;  // to preload; empty: none
  Defences defences;
};

struct Spawned {
  pid_t pid = -1;
  int failure = 0;            // errno, when there is no process
  std::uint32_t sandbox = 0;  // SandboxBit of the name spaces it was born in
};

// The defence that a part of the sandbox is.
record::Defence gate_of(std::uint32_t sandbox_bit);

// "complete", or "without <part>, <part>": a part of the sandbox is named after its defence.
std::string describe_sandbox(std::uint32_t bits);

Spawned spawn_host(const HostSpawn& spec);

}  // namespace ridge::evaluate
