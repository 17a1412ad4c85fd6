// calibrate: the incumbent against itself, to learn how noisy a session is.
#include <algorithm>

#include "base/error.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {
namespace {

constexpr std::int64_t kDefaultSessions = 8;
constexpr std::int64_t kSmallestLaunches = 3;
constexpr double kSpendable = 0.9;  // of the time limit; the rest is for a session that takes longer than the first

struct BlockSize {
  std::int64_t quads = 1, launches = kSmallestLaunches;
  [[nodiscard]] std::int64_t work() const { return quads * launches; }
};

// The largest session of which `count` fit into `seconds`, from what the smallest one cost. Noise measured on smaller
// sessions is larger: a slow kernel makes a campaign less sensitive, never less careful.
BlockSize fitting(const record::Protocol& protocol, double smallest_cost, std::int64_t count, double seconds) {
  const double unit_cost = smallest_cost / static_cast<double>(BlockSize{}.work());
  for (std::int64_t quads = protocol.max_quads; quads >= 1; --quads) {
    const BlockSize size{quads, quads > 1 ? protocol.max_launches : kSmallestLaunches};
    if (unit_cost * static_cast<double>(size.work() * count) <= kSpendable * seconds) return size;
  }
  return {};
}

}  // namespace

Status calibrate(const Job& job, record::WorkerResponse& response) {
  if (!job.request.incumbent) return invalid("calibrate needs an incumbent");
  RIDGE_TRY(bound, bind_cases(job.request.cases, ops::CaseSet::kTarget));
  RIDGE_TRY(built, build_candidate(job, *job.request.incumbent));
  if (!built.ok()) return invalid("the incumbent does not build: {}", built.error);
  const Subject subject{job.request.incumbent->name, built.artifact, nullptr};
  const std::int64_t wanted = job.request.sessions > 0 ? job.request.sessions : kDefaultSessions;

  const auto session = [&](std::int64_t index, BlockSize size) {
    SessionOptions options;
    options.index = index;
    options.role = "calibrate";
    options.quads = size.quads;
    options.launches = size.launches;
    options.full_first_check = index == 0;
    return run_session(
        subject, subject, *bound.op, bound.problems, job.harness, options, [&](std::size_t shape, std::size_t shapes) {
          const double done = static_cast<double>(index) + static_cast<double>(shape) / static_cast<double>(shapes);
          job.progress("calibrating",
                       fmt::format("session {} of {}, shape {} of {}", index + 1, wanted, shape + 1, shapes),
                       done / static_cast<double>(wanted));
        });
  };
  BlockSize size;
  double longest = 0;
  for (std::int64_t index = 0; index < wanted; ++index) {
    if (index > 0 && job.remaining() < longest) break;
    const double start = job.elapsed();
    SessionResult result = session(index, size);
    longest = std::max(longest, job.elapsed() - start);
    if (result.failure) {
      return make_error(ErrorCode::kToolFailed, "the incumbent failed on {}: {} {}", result.failure->label,
                        record::name_of(result.failure->failure.outcome), result.failure->failure.detail);
    }
    if (index == 0) {
      const BlockSize chosen = fitting(job.request.protocol, longest, wanted, job.remaining());
      if (chosen.work() > size.work()) {  // sessions of one size only: the first was a probe
        size = chosen;
        result = session(index, size);
        longest = std::max(longest, job.elapsed() - start);
        if (result.failure) {
          return make_error(ErrorCode::kToolFailed, "the incumbent failed on {}: {}", result.failure->label,
                            result.failure->failure.detail);
        }
      }
    }
    response.sessions.push_back(std::move(result.session));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
