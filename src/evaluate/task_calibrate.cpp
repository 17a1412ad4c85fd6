// calibrate: the incumbent against itself, to learn how noisy a session is.
#include "base/error.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {

Status calibrate(const Job& job, record::WorkerResponse& response) {
  constexpr std::int64_t kDefaultSessions = 8;
  if (!job.request.incumbent) return invalid("calibrate needs an incumbent");
  RIDGE_TRY(bound, bind_cases(job.request.cases, ops::CaseSet::kTarget));
  RIDGE_TRY(built, build_candidate(job, *job.request.incumbent));
  if (!built.ok()) return invalid("the incumbent does not build: {}", built.error);
  const Subject subject{job.request.incumbent->name, built.artifact, nullptr};
  const std::int64_t wanted = job.request.sessions > 0 ? job.request.sessions : kDefaultSessions;
  double longest = 0;
  for (std::int64_t index = 0; index < wanted; ++index) {
    if (index > 0 && job.remaining() < longest) break;
    SessionOptions options;
    options.index = index;
    options.role = "calibrate";
    options.quads = job.request.protocol.max_quads;
    options.launches = job.request.protocol.max_launches;
    options.full_first_check = index == 0;
    const double start = job.elapsed();
    SessionResult result = run_session(
        subject, subject, *bound.op, bound.problems, job.harness, options, [&](std::size_t shape, std::size_t shapes) {
          job.progress("calibrating",
                       fmt::format("session {} of {}, shape {} of {}", index + 1, wanted, shape + 1, shapes),
                       (static_cast<double>(index) + static_cast<double>(shape) / static_cast<double>(shapes)) /
                           static_cast<double>(wanted));
        });
    longest = std::max(longest, job.elapsed() - start);
    if (result.failure) {
      return make_error(ErrorCode::kToolFailed, "the incumbent failed on {}: {} {}", result.failure->label,
                        record::name_of(result.failure->failure.outcome), result.failure->failure.detail);
    }
    response.sessions.push_back(std::move(result.session));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
