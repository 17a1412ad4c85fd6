// A worker made of prepared answers: whole campaigns in milliseconds, without a compiler or a device.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "execute/executor.h"

namespace ridge::execute {

// Answers a request by the function set for its task; keeps every request for assertions.
class ScriptedExecutor final : public Executor {
 public:
  using Answer = std::function<Result<record::WorkerResponse>(const record::WorkerRequest&)>;

  // The answer of a task from now on. A task without an answer is an error that names it.
  void on(record::WorkerTask task, Answer answer);
  // A fixed answer.
  void on(record::WorkerTask task, record::WorkerResponse response);

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress = {},
                                     const ShouldStop& should_stop = {}) override;

  [[nodiscard]] const std::vector<record::WorkerRequest>& requests() const { return requests_; }

 private:
  std::map<record::WorkerTask, Answer> answers_;
  std::vector<record::WorkerRequest> requests_;
};

}  // namespace ridge::execute
