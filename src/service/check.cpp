#include "service/check.h"

#include <algorithm>

#include "service/worker_call.h"

namespace ridge::service {
RowVerdict verdict_of(const record::CheckRow& row) {
  switch (row.outcome) {
    case record::Outcome::kPass: return RowVerdict::kPassed;
    case record::Outcome::kNotClaimed:
    case record::Outcome::kDeclined: return RowVerdict::kLeftOut;
    default: return RowVerdict::kFailed;
  }
}

bool all_passed(const std::vector<record::CheckReport>& reports) {
  bool passed = false;
  for (const record::CheckReport& report : reports) {
    for (const record::CheckRow& row : report.rows) {
      if (verdict_of(row) == RowVerdict::kFailed) return false;
      passed = passed || verdict_of(row) == RowVerdict::kPassed;
    }
  }
  return passed;
}

Result<std::vector<record::CheckReport>> check_subjects(const Context& context, const CheckRequest& asked) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCheck;
  request.cases = {record::Case{asked.subjects.op, {}}};  // no parameters: the operator's own list of edge cases
  if (!asked.subjects.words.empty()) {
    RIDGE_TRY(cases, cases_of(context, asked.subjects.op, asked.subjects.words));
    request.cases = std::move(cases);
  }
  RIDGE_CHECK_OK(fill_subjects(context, asked.subjects, request));
  request.seed = asked.seed;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  return std::move(response.checks);
}

}  // namespace ridge::service
