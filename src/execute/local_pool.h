// Several GPUs of this host behind one executor: a worker for each, which sees no other.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "execute/executor.h"

namespace ridge::execute {

// Devices as CUDA_VISIBLE_DEVICES names them (numbers, or GPU-... and MIG-... identities), each once.
Result<std::vector<std::string>> devices_of(const std::vector<std::string>& words);

// run() uses the first device. Of several requests the first ones go to the devices in their order, each device one;
// every further one goes to whichever device is free.
std::unique_ptr<Executor> make_local_pool(const std::filesystem::path& worker_program,
                                          const std::vector<std::string>& devices);
// The same of these workers, each of which is asked on a thread of its own.
std::unique_ptr<Executor> make_pool(std::vector<std::unique_ptr<Executor>> workers);

}  // namespace ridge::execute
