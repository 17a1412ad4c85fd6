// calibrate: a subject against itself, to learn how noisy a session of the requested size is.
#include <algorithm>

#include "base/error.h"
#include "evaluate/memory_need.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {
namespace {

constexpr std::int64_t kDefaultSessions = 8;

// The incumbent of the request, or else its only implementation.
Result<Subject> calibrated_subject(const Job& job, const ops::Operator& op) {
  if (!job.request.incumbent) {
    if (job.request.implementations.size() != 1) return invalid("calibrate needs an incumbent or one implementation");
    return library_subject(op, job.request.implementations[0]);
  }
  RIDGE_TRY(built, build_candidates(job, {&*job.request.incumbent, 1}));
  if (built[0].failure) return invalid("the incumbent does not build: {}", built[0].failure->detail);
  return std::move(built[0].subject);
}

}  // namespace

Status calibrate(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kTarget));
  RIDGE_CHECK_OK(check_host_memory(job, bound));
  RIDGE_TRY(subject, calibrated_subject(job, *bound.op));
  RIDGE_TRY(measurement, make_measurement_backend(job, *bound.op));
  const std::int64_t wanted = job.request.sessions > 0 ? job.request.sessions : kDefaultSessions;
  SessionOptions options;
  options.role = "calibrate";
  options.quads = job.request.protocol.max_quads;
  options.launches = job.request.protocol.max_launches;
  double longest = 0;
  // A void session is repeated, at most as often as sessions are wanted: what voids is the same for both arms.
  std::int64_t valid = 0;
  for (std::int64_t index = 0; valid < wanted && index < 2 * wanted; ++index) {
    if (index > 0 && job.remaining() < longest) break;
    const double start = job.elapsed();
    options.index = index;
    options.full_first_check = index == 0;
    SessionResult result = run_session(
        *measurement, job.request.protocol, subject, subject, *bound.op, bound.problems, options,
        [&](std::size_t shape, std::size_t shapes) {
          const double done = static_cast<double>(valid) + static_cast<double>(shape) / static_cast<double>(shapes);
          job.progress("calibrating",
                       fmt::format("session {} of {}, shape {} of {}", valid + 1, wanted, shape + 1, shapes),
                       done / static_cast<double>(wanted));
        });
    if (result.failure) {
      return make_error(ErrorCode::kToolFailed, "{} failed on {}: {} {}", subject.name, result.failure->label,
                        record::name_of(result.failure->failure.outcome), result.failure->failure.detail);
    }
    longest = std::max(longest, job.elapsed() - start);
    if (!result.session.voided) ++valid;
    response.sessions.push_back(std::move(result.session));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
