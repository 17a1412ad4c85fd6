#include "execute/scripted.h"

#include <utility>

#include "base/error.h"

namespace ridge::execute {

void ScriptedExecutor::on(record::WorkerTask task, Answer answer) { answers_[task] = std::move(answer); }

void ScriptedExecutor::on(record::WorkerTask task, record::WorkerResponse response) {
  on(task, [response = std::move(response)](const record::WorkerRequest&) { return response; });
}

Result<record::WorkerResponse> ScriptedExecutor::run(const record::WorkerRequest& request,
                                                     const OnProgress& on_progress, const ShouldStop& should_stop) {
  requests_.push_back(request);
  if (should_stop && should_stop()) return make_error(ErrorCode::kConflict, "stopped on request");
  const auto found = answers_.find(request.task);
  if (found == answers_.end()) {
    return make_error(ErrorCode::kNotFound, "no scripted answer for task {}", record::name_of(request.task));
  }
  if (on_progress) on_progress({std::string(record::name_of(request.task)), "scripted", 1.0});
  return found->second(request);
}

}  // namespace ridge::execute
