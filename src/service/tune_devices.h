// Tuning on several devices of one host: parts of the work go to whichever device is free.
#pragma once

#include <string>
#include <vector>

#include "record/tuned.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// "0,1,3": devices as CUDA_VISIBLE_DEVICES names them (numbers, or GPU-... identities), each once.
Result<std::vector<std::string>> devices_of(const std::string& words);

// The parts of requests, each a few parts for every device; a case is in one of them.
std::vector<record::WorkerRequest> parts_of(const std::vector<record::WorkerRequest>& requests, std::size_t devices);

// Runs every part on one of the devices, which must be alike: one table holds for all of them. `limit`: seconds for all
// together; 0: none. The choices are in the order of the cases' parts.
Result<std::vector<record::TunedChoice>> tune_on_devices(const Context& context,
                                                         const std::vector<record::WorkerRequest>& requests,
                                                         const std::vector<std::string>& devices, double limit);

}  // namespace ridge::service
