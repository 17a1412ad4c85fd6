// Sends one request to a worker and waits for its response. The only way the campaign and the command line reach an
// operator, a compiler or a device; a fake stands in for it in tests.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "record/worker.h"
#include "ridge/result.h"

namespace ridge::execute {

using OnProgress = std::function<void(const record::Progress&)>;
// Progress of one of several requests, by its position among them.
using OnPartProgress = std::function<void(std::size_t part, const record::Progress&)>;
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
  // Requests that it works on at once.
  [[nodiscard]] virtual std::size_t width() const { return 1; }
  // The answers to several requests, in their order, each as run() would give it: one that fails leaves the others
  // alone, and a stop ends all that have no answer yet. Progress is told on the thread of the caller. Here: one request
  // after another.
  virtual std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                              const OnPartProgress& on_progress = {},
                                                              const ShouldStop& should_stop = {});
  // Seconds spent so far waiting for a device that others used, in which none of the requests was worked on: no active
  // time of a campaign. Less after a request whose work was done while no engine was there.
  [[nodiscard]] virtual double waited() const { return 0.0; }
};

}  // namespace ridge::execute
