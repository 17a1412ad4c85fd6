#include "evaluate/cuda/check.h"

#include <optional>

#include "base/error.h"
#include "evaluate/tasks.h"

namespace ridge::evaluate::cuda {
namespace {

using record::Defence;
using record::Outcome;

// The problems asked for, each with the shapes that it is held to beside (check_policy.h): a process is opened for all
// of them.
struct Asked {
  using Places = std::vector<std::vector<std::size_t>>;  // of the cases of every shape, in `problems`
  struct HeldOutPlaces {
    Places near, larger;
    std::string bounded;
  };
  std::vector<ops::Problem> problems;
  std::vector<HeldOutPlaces> held_out;  // by problem asked for
};

Asked with_held_out(const GpuCheck& check) {
  Asked asked;
  asked.problems = check.problems;
  asked.held_out.resize(check.problems.size());
  const CudaHarness& harness = check.measurement.harness();
  if (!harness.defences.on(Defence::kHeldOut)) return asked;
  const auto place = [&](std::vector<HeldOut>& shapes) {
    Asked::Places places;
    for (HeldOut& shape : shapes) {
      std::vector<std::size_t>& cases = places.emplace_back();
      for (ops::Problem& one : shape) {
        cases.push_back(asked.problems.size());
        asked.problems.push_back(std::move(one));
      }
    }
    return places;
  };
  for (std::size_t i = 0; i < check.problems.size(); ++i) {
    const Secrets secrets = Secrets(check.seed, check.problems[i].problem_case.text()).branch("held-out");
    HeldOutShapes shapes = held_out_shapes(check.subject, check.op, check.problems[i], check.limits(), secrets);
    asked.held_out[i].near = place(shapes.near);
    if (!harness.defences.on(Part::kLargerShapes)) continue;
    asked.held_out[i].larger = place(shapes.larger);
    asked.held_out[i].bounded = std::move(shapes.bounded);
  }
  return asked;
}

class Checker {
 public:
  explicit Checker(const GpuCheck& check) : check_(check), asked_(with_held_out(check)) {}

  record::CheckRow row(std::size_t index) {
    record::CheckRow row;
    row.label = check_.problems[index].problem_case.label();
    if (!look(index, row, CheckExtent::kAll)) return row;
    const Asked::HeldOutPlaces& held_out = asked_.held_out[index];
    if (!held_out.bounded.empty()) row.lanes["larger"] = held_out.bounded;
    CheckExtent extent = CheckExtent::kAll;  // of the first; one call of the others
    for (const Asked::Places* places : {&held_out.near, &held_out.larger}) {
      for (const std::vector<std::size_t>& shape : *places) {
        const bool looked = look_at_shape(shape, extent, row);
        if (row.outcome != Outcome::kPass) return row;
        if (looked) extent = CheckExtent::kOneCall;
      }
    }
    return row;
  }

 private:
  // The first of its cases that the subject's plan does not exclude; false where it excludes all of them.
  bool look_at_shape(const std::vector<std::size_t>& shape, CheckExtent extent, record::CheckRow& row) {
    for (const std::size_t place : shape) {
      record::CheckRow other;
      look(place, other, extent);
      const std::string label = asked_.problems[place].problem_case.label();
      std::string& lane = row.lanes["held-out"];
      lane += (lane.empty() ? "" : "; ") + label;
      if (other.lanes.contains("refused")) {
        lane += " refused: " + other.lanes["refused"];
        continue;
      }
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
    return false;
  }

  // One problem in the process at hand, or a fresh one. True when it passed.
  bool look(std::size_t index, record::CheckRow& row, CheckExtent extent) {
    CheckNote note;
    Verdict verdict = start();
    if (verdict.ok()) verdict = process_->check(index, extent, note);
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
