// What this machine can do, what is missing, and how to get it.
#pragma once

#include <string>
#include <vector>

#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// Facts of this machine in `environment`; what it can do with details and remedies in `capabilities`: the worker's own,
// whether a gain of 1 % can be decided here (some seconds), and the front end of PyTorch.
Result<record::WorkerResponse> examine_machine(const Context& context);

// What checks and campaigns on a processor cannot do without.
bool is_essential(const record::Capability& capability);
// Those of them that are missing, with commas; empty: they can run here.
std::string missing_essentials(const std::vector<record::Capability>& capabilities);

// Candidates are compiled on this machine: kUnsupported without a compiler, with the command that installs one.
Status require_compiler(const Context& context);

}  // namespace ridge::service
