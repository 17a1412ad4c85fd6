#include "evaluate/cuda/check.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate::cuda {
namespace {

using record::Defence;
using record::Outcome;

constexpr int kNeighboursDrawn = 64;  // an implementation of the library may take only aligned rows

// A secret neighbour of the problem that the subject does not refuse, as far as that shows before it is loaded.
std::optional<ops::Problem> neighbour_of(const GpuCheck& check, const ops::Problem& problem, ops::Variation variation,
                                         Secrets& secrets) {
  for (int draw = 0; draw < kNeighboursDrawn; ++draw) {
    auto bound = check.op.bind(check.op.vary(problem, variation, secrets.next()));
    if (bound && !refusal(check.subject, *bound)) return std::move(*bound);
  }
  return std::nullopt;
}

// The problems asked for, each with its secret neighbours where the operator names some: any sizes first, then sizes as
// aligned as the problem's, for a launch plan that excludes the others.
struct Asked {
  std::vector<ops::Problem> problems;
  std::vector<std::vector<std::size_t>> held_out;  // by problem: where its neighbours are
};

Asked with_neighbours(const GpuCheck& check) {
  Asked asked;
  asked.problems = check.problems;
  asked.held_out.resize(check.problems.size());
  if (!check.op.vary || !check.measurement.harness().defences.on(Defence::kHeldOut)) return asked;
  for (std::size_t i = 0; i < check.problems.size(); ++i) {
    Secrets secrets = Secrets(check.seed, check.problems[i].problem_case.text()).branch("held-out");
    for (const auto variation : {ops::Variation::kNeighbour, ops::Variation::kAlignedNeighbour}) {
      const std::optional<ops::Problem> neighbour = neighbour_of(check, check.problems[i], variation, secrets);
      if (!neighbour) continue;
      asked.held_out[i].push_back(asked.problems.size());
      asked.problems.push_back(*neighbour);
    }
  }
  return asked;
}

class Checker {
 public:
  explicit Checker(const GpuCheck& check) : check_(check), asked_(with_neighbours(check)) {}

  record::CheckRow row(std::size_t index) {
    record::CheckRow row;
    row.label = check_.problems[index].problem_case.label();
    if (!look(index, row)) return row;
    for (const std::size_t neighbour : asked_.held_out[index]) {
      if (looked_at_neighbour(neighbour, row)) break;
    }
    return row;
  }

 private:
  // False when the subject's plan excludes it, which says nothing.
  bool looked_at_neighbour(std::size_t neighbour, record::CheckRow& row) {
    record::CheckRow other;
    look(neighbour, other);
    const std::string label = asked_.problems[neighbour].problem_case.label();
    if (other.lanes.contains("refused")) {
      row.lanes["held-out"] = fmt::format("{} refused: {}", label, other.lanes["refused"]);
      return false;
    }
    row.lanes["held-out"] = label;
    row.verified_calls += other.verified_calls;
    row.elements += other.elements;
    row.compared += other.compared;
    if (other.outcome != Outcome::kPass) {
      row.outcome = other.outcome;
      row.gate = other.gate == Defence::kNone ? Defence::kHeldOut : other.gate;
      row.detail = fmt::format("on a shape it was not told ({}): {}", label, other.detail);
    }
    return true;
  }

  // One problem in the process at hand, or a fresh one. True when it passed.
  bool look(std::size_t index, record::CheckRow& row) {
    CheckNote note;
    Verdict verdict = start();
    if (verdict.ok()) verdict = process_->check(index, note);
    row.max_error_ratio = note.seen.max_error_ratio;
    row.rms_error_ratio = note.seen.rms_error_ratio;
    row.snr_db = note.seen.snr_db;
    row.verified_calls = note.seen.calls;
    row.elements = note.seen.elements;
    row.informative = note.seen.uninformative.empty();
    if (!row.informative) row.lanes["informative"] = note.seen.uninformative;
    row.compared = note.seen.compared;
    row.families = note.families;
    if (!note.refused.empty()) {
      row.lanes["refused"] = note.refused;
      if (!verdict) return failed(std::move(verdict.error()), row);
      row.outcome = Outcome::kNotClaimed;
      row.detail = note.refused;
      row.informative = false;
      return false;
    }
    if (verdict.ok() && !note.repeatable) {
      row.lanes["rerun"] = "other bits";
      if (check_.deterministic && check_.measurement.harness().defences.on(Defence::kRerun)) {
        verdict = Failure{Outcome::kWrong, "declares itself deterministic, but the same call gave other bits",
                          Defence::kRerun};
      }
    }
    return verdict.ok() || failed(std::move(verdict.error()), row);
  }

  bool failed(Failure failure, record::CheckRow& row) {
    failure = check_.measurement.explained(std::move(failure));
    row.outcome = failure.outcome;
    row.detail = std::move(failure.detail);
    row.gate = failure.gate;
    if (!process_->running()) {
      process_.reset();
      check_.measurement.note_failure();
    }
    return false;
  }

  Verdict start() {
    if (process_) return passed();
    if (Verdict usable = check_.measurement.recover(); !usable) {
      process_.emplace();
      return usable;
    }
    SubjectRunnerSpec spec = check_.measurement.spec_of(check_.subject, check_.op, asked_.problems);
    spec.seed = check_.seed;
    auto started = DeviceProcess::start(std::move(spec));
    if (!started) {
      process_.emplace();
      return std::move(started.error());
    }
    process_ = std::move(*started);
    check_.measurement.own(*process_);
    return passed();
  }

  const GpuCheck& check_;
  Asked asked_;
  std::optional<DeviceProcess> process_;
};

}  // namespace

std::vector<record::CheckRow> check_on_gpu(const GpuCheck& check) {
  std::vector<record::CheckRow> rows;
  Checker checker(check);
  for (std::size_t i = 0; i < check.problems.size(); ++i) {
    if (check.progress) check.progress(i);
    if (check.remaining && check.remaining() <= 0) {
      record::CheckRow row;
      row.label = check.problems[i].problem_case.label();
      row.outcome = Outcome::kAmbiguous;
      row.detail = "not checked: the time limit was reached";
      rows.push_back(std::move(row));
      continue;
    }
    rows.push_back(checker.row(i));
  }
  return rows;
}

}  // namespace ridge::evaluate::cuda
