// The check of one problem: everything that is looked at besides timed calls. Each call is compared in full.
#include "base/error.h"
#include "evaluate/cuda/device_subject_runner.h"

namespace ridge::evaluate::cuda {
namespace {

using numerics::Family;
using record::Defence;
using record::Outcome;

Failure fault(const Error& error) { return {Outcome::kHarnessFault, error.text(), Defence::kNone}; }

// Says under which circumstances a failure was found.
Verdict in_words(std::string_view words, Verdict verdict) {
  if (!verdict) verdict.error().detail = fmt::format("{}: {}", words, verdict.error().detail);
  return verdict;
}

// A wrong output where only the content is new: an answer to other inputs.
Verdict as_stale(std::string_view words, Verdict verdict) {
  if (!verdict && verdict.error().outcome == Outcome::kWrong) verdict.error().gate = Defence::kFreshInputs;
  return in_words(words, std::move(verdict));
}

}  // namespace

Verdict DeviceSubjectRunner::judged_call(std::size_t index, const Ready& one, Call& call) {
  RIDGE_CHECK_OK(run_ungated(one, call));
  std::vector<Call> calls = {call};
  Verdict verdict = judge(index, calls, Depth::kFull);
  call = std::move(calls.front());
  return verdict;
}

Verdict DeviceSubjectRunner::check_place(std::size_t index, const Ready& one, Place place, Family family, bool specials,
                                         std::optional<std::uint64_t> seed) {
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

Verdict DeviceSubjectRunner::check_guarded(std::size_t index, const Ready& one) {
  for (const GuardSide side : {GuardSide::kEnd, GuardSide::kStart}) {
    auto guarded = guarded_place(*device_, one.views, one.prepared.workspace_bytes, side);
    if (!guarded) return fault(guarded.error());
    last_output_.erase(index);
    Verdict verdict = check_place(index, one, guarded->place, Family::kMixture, false);
    last_output_.erase(index);  // its memory ends with this scope
    if (verdict.ok()) continue;
    Failure& failure = verdict.error();
    if (failure.outcome == Outcome::kCrash) {
      failure.gate = Defence::kGuardPage;
      failure.detail = fmt::format("read or wrote {} an operand or workspace: {}",
                                   side == GuardSide::kEnd ? "past the end of" : "before the start of", failure.detail);
    }
    return verdict;
  }
  return passed();
}

// The same content at another address must be right as well; the same call twice tells whether its bits repeat; content
// that differs in one element of every input, then all new content, must give the new answer at the same address.
Verdict DeviceSubjectRunner::check_repeats(std::size_t index, const Ready& one, CheckNote& note) {
  const std::uint64_t seed = secrets_.next();
  std::vector<Call> calls(2);
  for (Call& call : calls) {
    call.problem = &spec_.problems[index];
    call.place = pool_->place(one.views, one.prepared.workspace_bytes, coin_);
    verifier_->draw(call, coin_, seed);
    if (const Status prepared = verifier_->prepare(call, 0); !prepared) return fault(prepared.error());
    const bool first = &call == &calls.front();
    Verdict verdict = judged_call(index, one, call);
    RIDGE_CHECK_OK(first ? verdict : in_words("with the same content at another address", std::move(verdict)));
  }
  for (std::size_t i = 0; i < one.views.size(); ++i) {
    if (!spec_.problems[index].operands[i].output) continue;
    const auto different = verifier_->differences(calls[0].place.operands[i], calls[1].place.operands[i]);
    if (!different) return fault(different.error());
    if (*different != 0) note.repeatable = false;
  }
  const bool alters = spec_.defences.on(Defence::kFreshInputs) && spec_.defences.on(Part::kSingleElements);
  for (int i = 0; alters && i < alterations(*spec_.op, spec_.problems[index], limits()); ++i) {
    Call similar;
    similar.problem = &spec_.problems[index];
    similar.place = calls[1].place;
    similar.replaced = secrets_.next();
    verifier_->draw(similar, coin_, seed);
    if (const Status prepared = verifier_->prepare(similar, 0); !prepared) return fault(prepared.error());
    RIDGE_CHECK_OK(as_stale("with one element of every input changed", judged_call(index, one, similar)));
  }
  return as_stale("with new content at the same address",
                  check_place(index, one, calls[1].place, Family::kMixture, false));
}

Verdict DeviceSubjectRunner::check(std::size_t index, CheckExtent extent, CheckNote& note) {
  RIDGE_TRY(plain, ready(index, RowPadding::kNone));
  RIDGE_TRY(padded, ready(index, RowPadding::kPadded));
  if (spec_.seed) draw_from(Secrets(*spec_.seed, spec_.problems[index].problem_case.text()).branch("check"));
  if (!plain->prepared.refused.empty()) {
    note.refused = plain->prepared.refused;
    return passed();
  }
  Verdict verdict = extent == CheckExtent::kAll ? check_all(index, *plain, *padded, note) : plain_call(index);
  note.seen = verifications_[index];
  return verdict;
}

Verdict DeviceSubjectRunner::check_all(std::size_t index, const Ready& one, const Ready& wide, CheckNote& note) {
  const bool widens = wide.prepared.refused.empty() && spec_.defences.on(Defence::kPaddedRows);
  const auto place = [&](const Ready& ready) {
    return pool_->place(ready.views, ready.prepared.workspace_bytes, coin_);
  };
  std::vector<Family> families = {Family::kMixture};
  if (spec_.defences.on(Defence::kFamilies)) {
    const auto more = families_to_check(*spec_.op, spec_.problems[index], limits(), index);
    families.insert(families.end(), more.begin(), more.end());
  }
  for (const Family family : families) {
    const Ready& chosen = widens && coin_.flip() ? wide : one;
    RIDGE_CHECK_OK(in_words(fmt::format("{} inputs", numerics::to_string(family)),
                            check_place(index, chosen, place(chosen), family, false)));
    ++note.families;
  }
  if (widens) {
    RIDGE_CHECK_OK(in_words("with padded rows", check_place(index, wide, place(wide), Family::kSpikes, false)));
  }
  RIDGE_CHECK_OK(check_repeats(index, one, note));
  if (spec_.defences.on(Defence::kNonfinite)) {
    RIDGE_CHECK_OK(in_words("with a NaN and an infinity among the inputs",
                            check_place(index, one, place(one), Family::kNormal, true)));
  }
  return spec_.defences.on(Defence::kGuardPage) ? check_guarded(index, one) : passed();
}

Verdict DeviceSubjectRunner::plain_call(std::size_t index) {
  RIDGE_TRY(made, ready(index, RowPadding::kNone));
  const Ready& one = *made;
  if (!one.prepared.refused.empty()) return passed();
  return check_place(index, one, pool_->place(one.views, one.prepared.workspace_bytes, coin_), Family::kMixture, false);
}

}  // namespace ridge::evaluate::cuda
