#include "execute/executor.h"

#include "base/error.h"

namespace ridge::execute {

bool measures(record::WorkerTask task) {
  using record::WorkerTask;
  return task == WorkerTask::kCeilings || task == WorkerTask::kScreen || task == WorkerTask::kCalibrate ||
         task == WorkerTask::kEvaluate || task == WorkerTask::kBench || task == WorkerTask::kProfile;
}

std::vector<Result<record::WorkerResponse>> Executor::run_all(std::span<const record::WorkerRequest> requests,
                                                              const OnPartProgress& on_progress,
                                                              const ShouldStop& should_stop) {
  std::vector<Result<record::WorkerResponse>> answers;
  for (std::size_t part = 0; part < requests.size(); ++part) {
    if (part > 0 && should_stop && should_stop()) {
      answers.emplace_back(make_error(ErrorCode::kConflict, "stopped on request"));
      continue;
    }
    const auto show = [&](const record::Progress& now) {
      if (on_progress) on_progress(part, now);
    };
    answers.push_back(run(requests[part], show, should_stop));
  }
  return answers;
}

}  // namespace ridge::execute
