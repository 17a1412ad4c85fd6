// check: is a subject right on every case?
#include <cmath>

#include "base/error.h"
#include "evaluate/station.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate {
namespace {

using record::Outcome;

// Every case meets three families: one of them in turn, spikes (which show any skipped or short-summed element), and
// the mixture that timed calls use.
constexpr numerics::Family kTurn[] = {numerics::Family::kNormal, numerics::Family::kHeavyTails, numerics::Family::kTies,
                                      numerics::Family::kConstantBlocks, numerics::Family::kUniform};

// One subject over its problems.
class Checker {
 public:
  Checker(const Job& job, const Subject& subject, const ops::Operator& op, const std::vector<ops::Problem>& problems)
      : job_(job), subject_(subject), op_(op), problems_(problems) {}

  record::CheckRow check(std::size_t index) {
    record::CheckRow row;
    row.label = problems_[index].problem_case.label();
    const numerics::Family turn = kTurn[index % std::size(kTurn)];
    std::optional<Failure> failure;
    for (const RowPadding padding : {RowPadding::kPadded, RowPadding::kNone}) {
      failure = run(index, padding, turn, row);
      if (!failure && padding == RowPadding::kPadded) failure = run(index, padding, numerics::Family::kSpikes, row);
      if (!failure && padding == RowPadding::kNone) failure = run(index, padding, numerics::Family::kMixture, row);
      if (failure) break;
    }
    if (failure) {
      row.outcome = failure->outcome;
      row.detail = failure->detail;
    }
    return row;
  }

 private:
  std::optional<Failure> run(std::size_t index, RowPadding padding, numerics::Family family, record::CheckRow& row) {
    // A fresh process per call: a check must not depend on what ran before it.
    auto opened = Station::open(subject_, op_, {problems_[index]}, job_.harness, padding);
    if (Failure* failure = std::get_if<Failure>(&opened)) return *failure;
    Station& station = *std::get<0>(opened);
    CallResult result = station.launch(0, Depth::kFull, family);
    const Verification& seen = station.verification(0);
    row.max_error_ratio = std::max(row.max_error_ratio, seen.max_error_ratio);
    row.rms_error_ratio = std::max(row.rms_error_ratio, seen.rms_error_ratio);
    row.snr_db = row.verified_calls == 0 ? seen.snr_db : std::min(row.snr_db, seen.snr_db);
    row.verified_calls += seen.calls;
    row.elements += seen.elements;
    if (Failure* failure = std::get_if<Failure>(&result)) return *failure;
    return station.finish();
  }

  const Job& job_;
  const Subject& subject_;
  const ops::Operator& op_;
  const std::vector<ops::Problem>& problems_;
};

}  // namespace

std::vector<record::CheckRow> check_subject(const Job& job, const Subject& subject, const ops::Operator& op,
                                            const std::vector<ops::Problem>& problems,
                                            const std::function<void(std::size_t)>& progress) {
  std::vector<record::CheckRow> rows;
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
  return rows;
}

Status check(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(bound, bind_cases(job.request.cases, ops::CaseSet::kCheck));
  RIDGE_TRY(subjects, subjects_of(job, *bound.op));
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    record::CheckReport report;
    report.subject = subjects[s].subject.name;
    if (!subjects[s].build_error.empty()) {
      record::CheckRow row;
      row.label = "build";
      row.outcome = Outcome::kCompile;
      row.detail = subjects[s].build_error;
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
