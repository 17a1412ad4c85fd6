// The step that makes the final comparison once more, on another device.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/decide.h"
#include "campaign/machines.h"
#include "campaign/replica.h"
#include "campaign/session_size.h"
#include "execute/unit.h"
#include "journal/replica.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

constexpr const char* kHostFact = "node.host";

// Of a request, where so many seconds are left.
double limit_of(double left) { return std::isfinite(left) ? std::max(left, kShortestRequest) : 0; }

}  // namespace

// An event of its own, and so a row of the table of transitions: an engine that is killed while the other device works
// has the campaign's own result in its journal, and measures only this again.
Status Engine::replicate() {
  record::Replicated replica;
  replica.place = machines_of(state_.spec()).replicate;
  RIDGE_CHECK_OK(intend("replica", "measure the best against the baseline on another device"));
  RIDGE_CHECK_OK(measure_replica(replica));
  return record(record::EventKind::kReplicated, record::to_json(replica));
}

// An error only where it was interrupted: whatever else goes wrong there is a note.
Status Engine::measure_replica(record::Replicated& replica) {
  const auto note = [&](std::string why) {
    replica.note = std::move(why);
    return ok_status();
  };
  if (state_.final_measurement->effects.empty()) return note("the final measurement gave nothing to compare with");
  if (services_.replica == nullptr) return note("this process was given no way to reach that place");
  const double left = replica_seconds_left();
  const double needed = size_of_final(state_, std::min(left, seconds_of_final(state_))).seconds;
  if (needed > left) {
    return note(fmt::format("no time was left in the budget: it takes about {}, and {} are left",
                            format_duration(needed), format_duration(std::max(left, 0.0))));
  }
  RIDGE_CHECK_OK(look_there(replica));
  return replica.note.empty() ? compare_there(replica) : ok_status();
}

// Which device it is; a note where that cannot be said, or it is the campaign's own.
Status Engine::look_there(record::Replicated& replica) {
  WorkerRequest describe = request(WorkerTask::kDescribe);
  describe.time_limit = limit_of(replica_seconds_left());
  Result<WorkerResponse> described = work_by(*services_.replica, describe);
  if (!described && interrupted_) return described.error();
  if (!described) {
    replica.note = described.error().text();
    return ok_status();
  }
  if (described->environment) replica.environment = std::move(*described->environment);
  const record::Environment& own = state_.prepared->environment;
  const std::string here = execute::this_place().host;
  replica.environment.facts.try_emplace(kHostFact, here);
  replica.own_host = own.fact(kHostFact, here);
  const std::string& backend = state_.spec().backend;
  const Device there = device_of(replica.environment, backend);
  if (kinship(device_of(own, backend, replica.own_host), there) == Kinship::kSame)
    replica.note = fmt::format("that place is the device that the campaign measured on, {}", device_text(there));
  return ok_status();
}

// Seconds of active time that it may take; infinity without a budget.
double Engine::replica_seconds_left() const {
  return state_.wall_budget > 0 ? state_.wall_budget - journal_.active() - kReportSeconds
                                : std::numeric_limits<double>::infinity();
}

// Without the ceilings of the campaign's own device, which say nothing of this one.
Status Engine::compare_there(record::Replicated& replica) {
  for (int attempt = 0; attempt < kFinalTries && replica.effects.empty(); ++attempt) {
    const double left = replica_seconds_left();
    if (attempt > 0 && left < kShortestRequest) break;
    WorkerRequest request = final_request(size_of_final(state_, std::min(left, seconds_of_final(state_))));
    request.ceilings.clear();
    request.time_limit = limit_of(left);
    Result<WorkerResponse> response = work_by(*services_.replica, request);
    if (!response && interrupted_) return response.error();
    if (!response || !response->evaluation) {
      replica.note = response ? std::string("the worker sent no evaluation") : response.error().text();
      return ok_status();
    }
    replica.evaluation = std::move(*response->evaluation);
    replica.effects =
        final_effects(replica.evaluation, labels_of(state_.spec().target_cases), guard_rule(state_.spec().protocol));
  }
  if (replica.effects.empty()) {
    replica.note = fmt::format("no session there counts: {} {}", record::name_of(replica.evaluation.outcome),
                               replica.evaluation.detail);
  }
  return ok_status();
}

}  // namespace ridge::campaign
