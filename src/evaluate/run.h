// A worker's whole job: one request in, one response out.
#pragma once

#include <filesystem>
#include <functional>

#include "evaluate/defences.h"
#include "record/worker.h"

namespace ridge::evaluate {

struct RunContext {
  std::filesystem::path host_program;  // ridge-host
  std::function<void(const record::Progress&)> on_progress;
  Defences defences;
};

// Never fails as a function: what goes wrong with the request as a whole is in `response.error`.
record::WorkerResponse run(const record::WorkerRequest& request, const RunContext& context);

}  // namespace ridge::evaluate
