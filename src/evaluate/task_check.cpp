// check: is a subject right on every case?
#include <algorithm>

#include "base/error.h"
#include "evaluate/checker.h"
#include "evaluate/memory_need.h"
#include "evaluate/rig.h"
#include "evaluate/tasks.h"
#include "numerics/bias.h"

namespace ridge::evaluate {
namespace {

using record::Defence;
using record::Outcome;

// Rows that all pass although zeros would, too, say nothing about the subject.
void require_information(std::vector<record::CheckRow>& rows) {
  const auto passed = [](const record::CheckRow& row) { return row.outcome == Outcome::kPass; };
  const bool any = std::any_of(rows.begin(), rows.end(), [](const record::CheckRow& row) {
    const bool computed = row.outcome != Outcome::kNotClaimed && row.outcome != Outcome::kDeclined;
    return computed && (row.informative || row.outcome != Outcome::kPass);
  });
  if (any) return;
  for (record::CheckRow& row : rows) {
    if (!passed(row)) continue;
    row.outcome = Outcome::kAmbiguous;
    row.gate = Defence::kInformative;
    row.detail = fmt::format("the case shows nothing: {}", row.lanes["informative"]);
  }
}

record::CheckRow not_claimed(const ops::Problem& problem, std::string why) {
  record::CheckRow row;
  row.label = problem.problem_case.label();
  row.outcome = Outcome::kNotClaimed;
  row.detail = std::move(why);
  row.informative = false;
  return row;
}

}  // namespace

std::vector<record::CheckRow> check_cpu_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                                const std::vector<ops::Problem>& problems,
                                                const std::function<void(std::size_t)>& progress) {
  std::vector<record::CheckRow> rows;
  Checker checker(job, subject, op, problems);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (progress) progress(i);
    if (job.remaining() <= 0) {
      record::CheckRow row;
      row.label = problems[i].problem_case.label();
      row.outcome = Outcome::kAmbiguous;
      row.detail = "not checked: the time limit was reached";
      rows.push_back(std::move(row));
      continue;
    }
    if (auto why = too_large(problems[i], kCopiesToVerify)) {
      record::CheckRow row;
      row.label = problems[i].problem_case.label();
      row.outcome = Outcome::kHarnessFault;
      row.detail = std::move(*why);
      rows.push_back(std::move(row));
      continue;
    }
    rows.push_back(checker.check(i));
  }
  return rows;
}

std::vector<record::CheckRow> check_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                            const std::vector<ops::Problem>& problems,
                                            const std::function<void(std::size_t)>& progress) {
  std::vector<ops::Problem> supported;
  std::vector<record::CheckRow> outside;
  for (const ops::Problem& problem : problems) {
    const auto why = refusal(subject, problem);
    if (!why) supported.push_back(problem);
    if (why && subject.candidate != nullptr) outside.push_back(not_claimed(problem, *why));
  }
  const Result<const Rig*> rig = rig_of(subject.backend());
  std::vector<record::CheckRow> rows;
  if (rig) rows = (*rig)->check(job, subject, op, supported, progress);
  rows.insert(rows.end(), outside.begin(), outside.end());
  require_information(rows);
  for (record::CheckRow& row : rows) row.seed = job.seed;
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
    for (const record::CheckRow& row : report.rows) {
      report.false_alarm_rate += static_cast<double>(row.compared) * numerics::kBiasFalseAlarm;
    }
    response.checks.push_back(std::move(report));
  }
  return ok_status();
}

}  // namespace ridge::evaluate
