// The check of one problem: everything that is looked at besides timed calls. Each call is compared in full.
#include <iterator>

#include "base/error.h"
#include "evaluate/cuda/device_subject_runner.h"

namespace ridge::evaluate::cuda {
namespace {

using numerics::Family;
using record::Gate;
using record::Outcome;

// The fp64 reference of a larger problem takes a noticeable part of a second: then three families instead of all.
constexpr double kAllFamiliesFlop = 2e10;
constexpr Family kTurn[] = {Family::kNormal, Family::kHeavyTails, Family::kTies, Family::kConstantBlocks,
                            Family::kUniform};

Failure fault(const Error& error) { return {Outcome::kHarnessFault, error.text(), Gate::kNone}; }

// A wrong output where only the content is new: an answer to other inputs.
Failure as_stale(Failure failure, std::string_view where) {
  failure.detail = fmt::format("{}: {}", where, failure.detail);
  if (failure.outcome == Outcome::kWrong) failure.gate = Gate::kFreshInputs;
  return failure;
}

std::vector<Family> families_of(double flop, std::size_t turn) {
  if (flop <= kAllFamiliesFlop) return {std::begin(numerics::kAllFamilies), std::end(numerics::kAllFamilies)};
  return {kTurn[turn % std::size(kTurn)], Family::kSpikes, Family::kMixture};
}

}  // namespace

std::optional<Failure> DeviceSubjectRunner::judged_call(std::size_t index, const Ready& one, Call& call) {
  if (auto failure = run_ungated(one, call)) return failure;
  std::vector<Call> calls = {call};
  auto failure = judge(index, calls, Depth::kFull);
  call = std::move(calls.front());
  return failure;
}

std::optional<Failure> DeviceSubjectRunner::check_place(std::size_t index, const Ready& one, Place place, Family family,
                                                        bool specials, std::optional<std::uint64_t> seed) {
  Call call;
  call.problem = &spec_.problems[index];
  call.place = std::move(place);
  call.family = family;
  call.specials = specials;
  call.previous = previous_output(index, call.place);
  verifier_->draw(call, coin_, seed);
  if (const Status prepared = verifier_->prepare(call, 0); !prepared) return fault(prepared.error());
  return judged_call(index, one, call);
}

std::optional<Failure> DeviceSubjectRunner::check_guarded(std::size_t index, const Ready& one) {
  for (const GuardSide side : {GuardSide::kEnd, GuardSide::kStart}) {
    auto guarded = guarded_place(*device_, one.views, one.prepared.workspace_bytes, side);
    if (!guarded) return fault(guarded.error());
    last_output_.erase(index);
    auto failure = check_place(index, one, guarded->place, Family::kMixture, false);
    last_output_.erase(index);  // its memory ends with this scope
    if (!failure) continue;
    if (failure->outcome == Outcome::kCrash) {
      failure->gate = Gate::kGuardPage;
      failure->detail =
          fmt::format("read or wrote {} an operand or workspace: {}",
                      side == GuardSide::kEnd ? "past the end of" : "before the start of", failure->detail);
    }
    return failure;
  }
  return std::nullopt;
}

// The same content at another address must be right as well; the same call twice tells whether its bits repeat; content
// that differs in one element of every input, then all new content, must give the new answer at the same address.
std::optional<Failure> DeviceSubjectRunner::check_repeats(std::size_t index, const Ready& one, CheckNote& note) {
  const std::uint64_t seed = secrets_.next();
  std::vector<Call> calls(2);
  for (Call& call : calls) {
    call.problem = &spec_.problems[index];
    call.place = pool_->place(one.views, one.prepared.workspace_bytes, coin_);
    verifier_->draw(call, coin_, seed);
    if (const Status prepared = verifier_->prepare(call, 0); !prepared) return fault(prepared.error());
    if (auto failure = judged_call(index, one, call)) {
      if (&call != &calls.front()) failure->detail = "with the same content at another address: " + failure->detail;
      return failure;
    }
  }
  for (std::size_t i = 0; i < one.views.size(); ++i) {
    if (!spec_.problems[index].operands[i].output) continue;
    const auto different = verifier_->differences(calls[0].place.operands[i], calls[1].place.operands[i]);
    if (!different) return fault(different.error());
    if (*different != 0) note.repeatable = false;
  }
  if (spec_.defences.on(Gate::kFreshInputs)) {
    Call similar;
    similar.problem = &spec_.problems[index];
    similar.place = calls[1].place;
    similar.replaced = secrets_.next();
    verifier_->draw(similar, coin_, seed);
    if (const Status prepared = verifier_->prepare(similar, 0); !prepared) return fault(prepared.error());
    auto failure = judged_call(index, one, similar);
    if (failure) return as_stale(std::move(*failure), "with one element of every input changed");
  }
  auto failure = check_place(index, one, calls[1].place, Family::kMixture, false);
  if (failure) return as_stale(std::move(*failure), "with new content at the same address");
  return std::nullopt;
}

std::optional<Failure> DeviceSubjectRunner::check(std::size_t index, CheckNote& note) {
  const auto remember = [&](std::optional<Failure> failure) {
    note.seen = verifications_[index];
    return failure;
  };
  auto plain = ready(index, RowPadding::kNone), padded = ready(index, RowPadding::kPadded);
  for (auto* made : {&plain, &padded}) {
    if (Failure* failure = std::get_if<Failure>(made)) return std::move(*failure);
  }
  if (spec_.seed) draw_from(Secrets(*spec_.seed, spec_.problems[index].problem_case.text()).branch("check"));
  const Ready& one = *std::get<const Ready*>(plain);
  const Ready& wide = *std::get<const Ready*>(padded);
  if (!one.refused.empty()) {
    note.refused = one.refused;
    return std::nullopt;
  }
  const double flop = spec_.op->cost(spec_.problems[index]).flop;
  const auto place = [&](const Ready& ready) {
    return pool_->place(ready.views, ready.prepared.workspace_bytes, coin_);
  };
  const bool families = spec_.defences.on(Gate::kFamilies);
  for (const Family family : families ? families_of(flop, index) : std::vector{Family::kMixture}) {
    if (spec_.op->excuses && spec_.op->excuses(spec_.problems[index], family)) continue;
    const bool widen = wide.refused.empty() && spec_.defences.on(Gate::kPaddedRows) && coin_.flip();
    if (auto failure = check_place(index, widen ? wide : one, place(widen ? wide : one), family, false)) {
      failure->detail = fmt::format("{} inputs: {}", numerics::to_string(family), failure->detail);
      return remember(std::move(failure));
    }
    ++note.families;
  }
  if (wide.refused.empty() && spec_.defences.on(Gate::kPaddedRows)) {
    if (auto failure = check_place(index, wide, place(wide), Family::kSpikes, false)) {
      failure->detail = "with padded rows: " + failure->detail;
      return remember(std::move(failure));
    }
  }
  if (auto failure = check_repeats(index, one, note)) return remember(std::move(failure));
  if (spec_.defences.on(Gate::kNonfinite)) {
    if (auto failure = check_place(index, one, place(one), Family::kNormal, true)) {
      failure->detail = "with a NaN and an infinity among the inputs: " + failure->detail;
      return remember(std::move(failure));
    }
  }
  if (spec_.defences.on(Gate::kGuardPage)) {
    if (auto failure = check_guarded(index, one)) return remember(std::move(failure));
  }
  return remember(std::nullopt);
}

std::optional<Failure> DeviceSubjectRunner::plain_call(std::size_t index) {
  auto made = ready(index, RowPadding::kNone);
  if (Failure* failure = std::get_if<Failure>(&made)) return std::move(*failure);
  const Ready& one = *std::get<const Ready*>(made);
  if (!one.refused.empty()) return std::nullopt;
  return check_place(index, one, pool_->place(one.views, one.prepared.workspace_bytes, coin_), Family::kMixture, false);
}

}  // namespace ridge::evaluate::cuda
