// Tuning on the devices of a place, several at once: parts of the work go to whichever device is free.
#pragma once

#include <string>
#include <vector>

#include "record/tuned.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// The parts of requests, each a few parts for every device; a case is in one of them. For one device they stay as they
// are.
std::vector<record::WorkerRequest> parts_of(const std::vector<record::WorkerRequest>& requests, std::size_t devices);

struct DeviceTuning {
  std::string place;  // of the context's worker (execute/make_executor.h)
  double limit = 0;   // seconds for all parts together; 0: none
};

// Runs every part on one of the devices of the context's worker, and leaves the choices in a table of this machine's
// cache folder: a worker beside us writes it itself, and what comes from elsewhere is added to it here, but for what
// was disturbed, unless its request keeps that. The choices are in the order of the parts.
//
// The devices must be alike, for one table holds for all of them: kInvalidArgument with both names where they are not.
// Where they can be asked one by one (local, SSH) they are asked what they are, GPUs while their first parts run and
// processors before; in any case the choices say what they were measured on. Where a part has no answer the others are
// kept all the same, and the error says how many are missing.
Result<std::vector<record::TunedChoice>> tune_on_devices(const Context& context,
                                                         const std::vector<record::WorkerRequest>& requests,
                                                         const DeviceTuning& where);

// Whether a choice belongs into a table.
bool belongs_in_table(const record::TunedChoice& choice, bool keep_disturbed);

}  // namespace ridge::service
