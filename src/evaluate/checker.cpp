#include "evaluate/checker.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/error.h"
#include "evaluate/host_spawn.h"

namespace ridge::evaluate {
namespace {

using numerics::Family;
using record::Defence;
using record::Outcome;

constexpr double kSanitizedFlop = 2e6;  // what a kernel a hundred times slower does in a moment
constexpr int kMostRepeats = 64, kFewestRepeats = 6;
constexpr double kRepeatBudget = 0.1;  // seconds of the kernel's own time

// A failure of an output in a lane belongs to the lane: without it the failure would not show.
template <class T>
Verdict in_lane(Defence lane, const std::string& words, const Attempt<T>& attempt) {
  if (attempt.ok()) return passed();
  Failure failure = attempt.error();
  constexpr Defence kOutput[] = {Defence::kElementBound, Defence::kNonfinite,  Defence::kRms,
                                 Defence::kBias,         Defence::kProjection, Defence::kPoison};
  failure.detail = words + ": " + failure.detail;
  if (std::find(std::begin(kOutput), std::end(kOutput), failure.gate) != std::end(kOutput)) failure.gate = lane;
  return failure;
}

void add(const Verification& seen, record::CheckRow& row) {
  row.max_error_ratio = std::max(row.max_error_ratio, seen.max_error_ratio);
  row.rms_error_ratio = std::max(row.rms_error_ratio, seen.rms_error_ratio);
  row.snr_db = row.verified_calls == 0 ? seen.snr_db : std::min(row.snr_db, seen.snr_db);
  row.verified_calls += seen.calls;
  row.elements += seen.elements;
  row.compared += seen.compared;
}

// Runs `look` on a runner of its own, opened with these problems.
Verdict on_runner(const Subject& subject, const ops::Operator& op, const std::vector<ops::Problem>& problems,
                  const Harness& harness, RowPadding padding, Secrets secrets, record::CheckRow& row,
                  const std::function<Verdict(SubjectRunner&)>& look) {
  RIDGE_TRY(opened, SubjectRunner::open(subject, op, problems, harness, padding, std::move(secrets)));
  SubjectRunner& runner = *opened;
  if (subject.implementation == nullptr && subject.sanitizer_runtime.empty()) {
    row.lanes["sandbox"] = describe_sandbox(runner.host().sandbox());
  }
  Verdict verdict = look(runner);
  for (std::size_t i = 0; i < problems.size(); ++i) add(runner.verification(i), row);
  return verdict.ok() ? runner.finish() : verdict;
}

}  // namespace

record::CheckRow Checker::check(std::size_t index) {
  record::CheckRow row;
  row.label = problems_[index].problem_case.label();
  Verdict verdict = plain(index, row);
  for (const auto lane : {&Checker::padded, &Checker::held_out, &Checker::sanitizer}) {
    if (verdict.ok()) verdict = (this->*lane)(index, row);
  }
  if (verdict.ok()) return row;
  const Failure& failure = verdict.error();
  row.outcome = failure.outcome;
  row.detail = failure.detail;
  row.gate = failure.gate;
  if (failure.outcome == Outcome::kDeclined && subject_.scope != nullptr) {
    row.outcome = Outcome::kWrong;
    row.detail += ": it declines a case that its ridge-scope claims";
  }
  return row;
}

Secrets Checker::secrets(std::size_t index, std::string_view lane) const {
  return Secrets(static_cast<std::uint64_t>(job_.seed), problems_[index].problem_case.text()).branch(lane);
}

bool Checker::declines(const Verdict& verdict) const {
  return !verdict && verdict.error().outcome == Outcome::kDeclined && subject_.scope == nullptr;
}

Verdict Checker::plain(std::size_t index, record::CheckRow& row) {
  const Secrets own = secrets(index, "plain");
  return on_runner(subject_, op_, {problems_[index]}, job_.harness, RowPadding::kNone, own, row,
                   [&](SubjectRunner& runner) -> Verdict {
                     const auto twice = [&]() -> Verdict {
                       RIDGE_CHECK_OK(fence(runner, Edge::kLast));
                       RIDGE_CHECK_OK(runner.launch(0, Depth::kFull));
                       return in_lane(Defence::kEveryCall, "the second call", runner.launch(0, Depth::kFull));
                     };
                     const Verdict first = twice();
                     if (const std::string& why = runner.verification(0).uninformative; !why.empty()) {
                       row.lanes["informative"] = why;
                       row.informative = !job_.harness.defences.on(Defence::kInformative);
                     }
                     RIDGE_CHECK_OK(first);
                     RIDGE_CHECK_OK(again(runner, row));
                     runner.draw_from(secrets(index, "repeat"));
                     RIDGE_CHECK_OK(repeat(runner, row));
                     runner.draw_from(secrets(index, "families"));
                     return families(index, runner, row);
                   });
}

// Calls as a session makes them, all verified: a kernel that is right for its first calls only has no place to hide.
Verdict Checker::repeat(SubjectRunner& runner, record::CheckRow& row) {
  double spent = 0;  // not wall time, which on a busy machine would be up before the calls that matter
  int calls = 0;
  for (; calls < kMostRepeats; ++calls) {
    // A check that repeats another one makes as many calls as that may have made.
    if (!job_.request.seed && calls >= kFewestRepeats && spent > kRepeatBudget) break;
    const CallResult result = runner.launch(0, Depth::kQuick);
    if (!result) return in_lane(Defence::kEveryCall, fmt::format("after {} more calls", calls), result);
    spent += result->latency;
  }
  row.lanes["repeat"] = fmt::format("{} calls", calls);
  return passed();
}

Verdict Checker::fence(SubjectRunner& runner, Edge edge) {
  if (subject_.implementation != nullptr || !job_.harness.defences.on(Defence::kGuardPage)) return passed();
  return runner.fence(0, edge);
}

Verdict Checker::again(SubjectRunner& runner, record::CheckRow& row) {
  RIDGE_CHECK_OK(in_lane(Defence::kRerun, "the same call again", runner.launch_again(0, Place::kSame)));
  std::int64_t other = runner.other_bits();
  RIDGE_CHECK_OK(
      in_lane(Defence::kNewAddress, "the same content at other addresses", runner.launch_again(0, Place::kElsewhere)));
  other = std::max(other, runner.other_bits());
  row.lanes["rerun"] = other == 0 ? "same bits" : fmt::format("other bits in {} elements", other);
  if (other == 0 || !subject_.deterministic() || !job_.harness.defences.on(Defence::kRerun)) return passed();
  return Failure{
      Outcome::kWrong,
      fmt::format("the same call gives other bits in {} elements, though it is declared deterministic", other),
      Defence::kRerun};
}

// Contents that were drawn afresh differ everywhere: a kernel that recognises a call by its beginning, or by a sample
// of its content, would never be wrong on them.
Verdict Checker::altered(std::size_t index, SubjectRunner& runner, record::CheckRow& row) {
  const Defences& defences = job_.harness.defences;
  if (!defences.on(Defence::kFreshInputs) || !defences.on(Part::kSingleElements)) return passed();
  const int calls = alterations(op_, problems_[index], limits_);
  for (int i = 0; i < calls; ++i) {
    RIDGE_CHECK_OK(in_lane(Defence::kFreshInputs, "content that differs from the last call's in one element",
                           runner.launch_altered(0)));
  }
  row.lanes["altered"] = fmt::format("{} calls", calls);
  return passed();
}

Verdict Checker::families(std::size_t index, SubjectRunner& runner, record::CheckRow& row) {
  if (!job_.harness.defences.on(Defence::kFamilies)) return passed();
  for (const Family family : families_to_check(op_, problems_[index], limits_, index)) {
    const std::string name(numerics::to_string(family));
    RIDGE_CHECK_OK(in_lane(Defence::kFamilies, "inputs of the family " + name, runner.launch(0, Depth::kFull, family)));
    row.lanes["families"] += (row.lanes["families"].empty() ? "" : ", ") + name;
    ++row.families;
  }
  return passed();
}

Verdict Checker::padded(std::size_t index, record::CheckRow& row) {
  const Secrets own = secrets(index, "padded");
  const RowPadding padding = job_.harness.defences.on(Defence::kPaddedRows) ? RowPadding::kPadded : RowPadding::kNone;
  return on_runner(subject_, op_, {problems_[index]}, job_.harness, padding, own, row,
                   [&](SubjectRunner& runner) -> Verdict {
                     RIDGE_CHECK_OK(fence(runner, Edge::kFirst));
                     RIDGE_CHECK_OK(in_lane(Defence::kPaddedRows, "with padded rows", runner.launch(0, Depth::kFull)));
                     return altered(index, runner, row);
                   });
}

std::vector<ops::Problem> Checker::drawn(const ops::Problem& problem, ops::Variation variation, int count,
                                         Secrets secrets) const {
  std::vector<ops::Problem> problems;
  if (!op_.vary) return problems;
  for (int i = 0; i < count; ++i) {
    Result<ops::Problem> other = op_.bind(op_.vary(problem, variation, secrets.next()));
    if (other && !refusal(subject_, *other)) problems.push_back(std::move(*other));
  }
  return problems;
}

Verdict Checker::held_out(std::size_t index, record::CheckRow& row) {
  if (!job_.harness.defences.on(Defence::kHeldOut)) return passed();
  const Secrets own = secrets(index, "held-out");
  const HeldOutShapes shapes = held_out_shapes(subject_, op_, problems_[index], limits_, own);
  if (shapes.near.empty()) {
    row.lanes["held-out"] = "none: the operator does not say how to vary this case, or it is refused";
    return passed();
  }
  RIDGE_CHECK_OK(on_shapes(shapes.near, own, row));
  if (!job_.harness.defences.on(Part::kLargerShapes)) return passed();
  if (!shapes.bounded.empty()) row.lanes["larger"] = shapes.bounded;
  return shapes.larger.empty() ? passed() : on_shapes(shapes.larger, own.branch("large"), row);
}

Verdict Checker::on_shapes(const std::vector<HeldOut>& shapes, const Secrets& own, record::CheckRow& row) {
  std::vector<ops::Problem> problems;
  for (const HeldOut& shape : shapes) problems.insert(problems.end(), shape.begin(), shape.end());
  return on_runner(
      subject_, op_, problems, job_.harness, RowPadding::kNone, own, row, [&](SubjectRunner& runner) -> Verdict {
        std::size_t next = 0;
        for (const HeldOut& shape : shapes) {
          bool declined = true;
          for (std::size_t i = 0; i < shape.size(); ++i, ++next) {
            if (!declined) continue;
            const std::string label = shape[i].problem_case.label();
            const Verdict verdict =
                in_lane(Defence::kHeldOut, "on the held-out shape " + label, runner.launch(next, Depth::kFull));
            declined = declines(verdict);
            if (!declined) RIDGE_CHECK_OK(verdict);
            std::string& lane = row.lanes["held-out"];
            lane += (lane.empty() ? "" : "; ") + label + (declined ? " (declined)" : "");
          }
        }
        return passed();
      });
}

const std::optional<Subject>& Checker::sanitized() {
  if (std::exchange(sanitizer_tried_, true)) return sanitized_;
  Result<SanitizedBuild> built = build_sanitized(job_, *subject_.candidate);
  if (!built) {
    no_sanitizer_ = built.error().text();
  } else if (!built->build.ok()) {
    no_sanitizer_ = built->build.error;
  } else {
    sanitized_ =
        Subject{subject_.name,  built->build.object->path(), nullptr, subject_.candidate, built->runtime, nullptr,
                subject_.scope, built->build.object};
  }
  return sanitized_;
}

Verdict Checker::sanitizer(std::size_t index, record::CheckRow& row) {
  if (subject_.candidate == nullptr || !job_.harness.defences.on(Defence::kSanitizer)) return passed();
  const Secrets own = secrets(index, "sanitizer");
  std::vector<ops::Problem> problems = {problems_[index]};
  if (op_.cost(problems_[index]).flop > kSanitizedFlop) {
    problems = drawn(problems_[index], ops::Variation::kReduced, 2, own.branch("shapes"));
  }
  if (problems.empty() || !sanitized()) {
    row.lanes["sanitizer"] = "not run: " + (problems.empty() ? "the operator offers no reduced shape" : no_sanitizer_);
    return passed();
  }
  record::CheckRow unused;
  const Verdict verdict = on_runner(
      *sanitized_, op_, problems, job_.harness, RowPadding::kNone, own, unused, [&](SubjectRunner& runner) -> Verdict {
        for (std::size_t i = 0; i < problems.size(); ++i) {
          const Verdict seen = in_lane(Defence::kSanitizer, "under the sanitizers, " + problems[i].problem_case.label(),
                                       runner.launch(i, Depth::kFull));
          if (!declines(seen)) RIDGE_CHECK_OK(seen);
        }
        return passed();
      });
  row.lanes["sanitizer"] = verdict.ok() ? "clean" : "found something";
  return verdict;
}

}  // namespace ridge::evaluate
