// Sends one request to a worker and waits for its response. The only way the campaign and the command line reach an
// operator, a compiler or a device; a fake stands in for it in tests.
#pragma once

#include <functional>

#include "record/worker.h"
#include "ridge/result.h"

namespace ridge::execute {

using OnProgress = std::function<void(const record::Progress&)>;
using ShouldStop = std::function<bool()>;

// Whether what a task finds out is a time, so that others on the machine matter.
bool measures(record::WorkerTask task);

class Executor {
 public:
  virtual ~Executor() = default;
  // The response of the worker, whatever it says; a request that failed as a whole has `response.error` set.
  // An Error only when there is no response: the worker could not be started, died, was stopped or ran out of time.
  virtual Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress = {},
                                             const ShouldStop& should_stop = {}) = 0;
  // Seconds spent so far waiting for a device that others used: no active time of a campaign. Less after a request
  // whose work was done while no engine was there.
  [[nodiscard]] virtual double waited() const { return 0.0; }
};

}  // namespace ridge::execute
