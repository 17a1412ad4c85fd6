// check: is a subject right on every case?
#include <algorithm>

#include "base/error.h"
#include "evaluate/checker.h"
#include "evaluate/gpu.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {
namespace {

using record::Gate;
using record::Outcome;

// Rows that all pass although zeros would, too, say nothing about the subject.
void require_information(std::vector<record::CheckRow>& rows) {
  const bool any = std::any_of(rows.begin(), rows.end(), [](const record::CheckRow& row) {
    return row.informative || row.outcome != Outcome::kPass;
  });
  if (any) return;
  for (record::CheckRow& row : rows) {
    row.outcome = Outcome::kAmbiguous;
    row.gate = Gate::kInformative;
    row.detail = fmt::format("the case shows nothing: {}", row.lanes["informative"]);
  }
}

}  // namespace

std::vector<record::CheckRow> check_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                            const std::vector<ops::Problem>& problems,
                                            const std::function<void(std::size_t)>& progress) {
  std::vector<record::CheckRow> rows;
  if (subject.on_gpu()) {
    std::vector<ops::Problem> supported = problems;
    std::erase_if(supported, [&](const ops::Problem& problem) { return refusal(subject, problem).has_value(); });
    rows = check_gpu_subject(job, subject, op, supported, progress);
    require_information(rows);
    return rows;
  }
  Checker checker(job, subject, op, problems);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (progress) progress(i);
    if (refusal(subject, problems[i])) continue;
    if (job.remaining() <= 0) {
      record::CheckRow row;
      row.label = problems[i].problem_case.label();
      row.outcome = Outcome::kAmbiguous;
      row.detail = "not checked: the time limit was reached";
      rows.push_back(std::move(row));
      continue;
    }
    rows.push_back(checker.check(i));
  }
  require_information(rows);
  return rows;
}

Status check(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job, ops::CaseSet::kCheck));
  RIDGE_TRY(subjects, subjects_of(job, *bound.op));
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    record::CheckReport report;
    report.subject = subjects[s].subject.name;
    if (const auto& failure = subjects[s].failure) {
      record::CheckRow row;
      row.label = "build";
      row.outcome = failure->outcome;
      row.gate = failure->gate;
      row.detail = failure->detail;
      report.rows = {row};
    } else {
      report.rows = check_subject(job, subjects[s].subject, *bound.op, bound.problems, [&](std::size_t i) {
        const double done =
            static_cast<double>(s) + static_cast<double>(i) / static_cast<double>(bound.problems.size());
        job.progress("checking", fmt::format("{}, case {} of {}", report.subject, i + 1, bound.problems.size()),
                     done / static_cast<double>(subjects.size()));
      });
    }
    response.checks.push_back(std::move(report));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
