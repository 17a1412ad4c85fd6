#include "evaluate/subject_runner.h"

#include <chrono>
#include <thread>

#include "base/error.h"

namespace ridge::evaluate {
namespace {

using record::Defence;

// Above this much work the fp64 reference takes seconds; then only Depth::kFull asks for it.
constexpr double kCheapReferenceFlop = 1.5e8;
}  // namespace

SubjectRunner::SubjectRunner(HostProcess host, const ops::Operator& op, const std::vector<ops::Problem>& problems,
                             const Harness& harness, RowPadding padding, Secrets secrets)
    : host_(std::move(host)),
      op_(op),
      defences_(harness.defences),
      padding_(padding),
      warm_(harness.protocol.mode == "warm"),
      evict_(harness.placement.shared()),
      threads_(harness.protocol.threads),
      secrets_(std::move(secrets)),
      coin_(secrets_.next()) {
  for (const ops::Problem& problem : problems) {
    operands_.push_back(
        std::make_unique<Operands>(problem, make_layout(problem, padding, coin_, defences_), coin_, defences_));
  }
  verifications_.resize(problems.size());
}

Attempt<std::unique_ptr<SubjectRunner>> SubjectRunner::open(const Subject& subject, const ops::Operator& op,
                                                            const std::vector<ops::Problem>& problems,
                                                            const Harness& harness, RowPadding padding,
                                                            Secrets secrets) {
  RIDGE_TRY(host, start(subject, problems, harness));
  return std::unique_ptr<SubjectRunner>(
      new SubjectRunner(std::move(host), op, problems, harness, padding, std::move(secrets)));
}

void SubjectRunner::draw_from(Secrets secrets) {
  secrets_ = std::move(secrets);
  coin_ = measure::Coin(secrets_.next());
}

Verdict SubjectRunner::verify(std::size_t index, Depth depth) {
  Operands& operands = *operands_[index];
  if (operands.written_late() && defences_.on(Defence::kPromptCopy)) {
    return Failure{record::Outcome::kWrong, "its outputs were still being written after the call had returned",
                   Defence::kPromptCopy};
  }
  if (depth == Depth::kFull) return verify_fully(op_, operands, verifications_[index]);
  if (!defences_.on(Defence::kEveryCall)) return passed();
  const bool drawn =
      secrets_.next() % defences_.full_draw_one_in == 0 && op_.cost(operands.problem()).flop <= kCheapReferenceFlop;
  Verification& into = verifications_[index];
  RIDGE_CHECK_OK(verify_quickly(op_, operands, secrets_.next(), into));
  if (!drawn || !defences_.on(Defence::kFullDraw)) return passed();
  --into.calls;  // the same call
  Verdict full = verify_fully(op_, operands, into);
  if (!full && full.error().outcome != record::Outcome::kHarnessFault) full.error().gate = Defence::kFullDraw;
  return full;
}

// An output that was not written when the call returned, and has been written since.
void SubjectRunner::look_again(std::size_t index, Failure& failure) {
  if (failure.gate != Defence::kPoison) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  if (!operands_[index]->changed_since(host_.arena())) return;
  failure.gate = Defence::kPromptCopy;
  failure.detail += ", and was written after the call had returned";
}

Verdict SubjectRunner::fence(std::size_t index, Edge edge) {
  edge_ = edge;
  Operands& operands = *operands_[index];
  operands.move(make_layout(operands.problem(), padding_, coin_, defences_, edge));
  return host_.fence(operands.layout().between);
}

// A fault between the operands is told by the operand it is nearest to.
Failure SubjectRunner::explain(std::size_t index, Failure failure) const {
  if (const auto at = host_.fault_at()) {
    failure.detail = fmt::format("read or wrote {}, where it has no access", operands_[index]->nearest(*at));
  }
  return failure;
}

CallResult SubjectRunner::launch(std::size_t index, Depth depth, numerics::Family family) {
  last_seed_ = defences_.on(Defence::kFreshInputs) ? secrets_.next() : 1;
  last_family_ = defences_.on(Defence::kFreshInputs) ? family : numerics::Family::kMixture;
  return run(index, depth);
}

CallResult SubjectRunner::launch_again(std::size_t index, Place place) {
  Operands& operands = *operands_[index];
  const std::vector<unsigned char> first = operands.output_bytes();
  if (place == Place::kElsewhere) {
    const bool fenced = edge_ != Edge::kAnywhere;
    const bool moves = defences_.on(Defence::kNewAddress);
    const Edge other = edge_ == Edge::kLast ? Edge::kFirst : Edge::kLast;
    if (!fenced) operands.move(make_layout(operands.problem(), padding_, coin_, defences_));
    if (fenced && moves) {
      RIDGE_CHECK_OK(fence(index, other));
    }
  }
  CallResult result = run(index, Depth::kFull);
  const std::vector<unsigned char> second = operands.output_bytes();
  other_bits_ = 0;
  std::size_t width = 1;
  for (const ops::OperandSpec& spec : operands.problem().operands) {
    if (spec.output) width = std::max<std::size_t>(1, static_cast<std::size_t>(size_bits(spec.dtype)) / 8);
  }
  for (std::size_t at = 0; at + width <= first.size() && at + width <= second.size(); at += width) {
    if (!std::equal(first.begin() + static_cast<std::ptrdiff_t>(at),
                    first.begin() + static_cast<std::ptrdiff_t>(at + width),
                    second.begin() + static_cast<std::ptrdiff_t>(at))) {
      ++other_bits_;
    }
  }
  return result;
}

CallResult SubjectRunner::launch_altered(std::size_t index) {
  alteration_ = secrets_.next();
  CallResult result = run(index, Depth::kFull);
  alteration_.reset();
  return result;
}

// The untimed call of warm mode, on content of its own: what a kernel remembers of it is of no use.
Verdict SubjectRunner::warm_up(std::size_t index) {
  Operands& operands = *operands_[index];
  operands.refresh_untimed(defences_.on(Defence::kFreshInputs) ? secrets_.next() : last_seed_);
  operands.publish(host_.arena());
  RIDGE_CHECK_OK(
      host_.call({operands.arena_views(host_.arena()), operands.scalars()}, operands.problem().values, threads_));
  return passed();
}

CallResult SubjectRunner::run(std::size_t index, Depth depth) {
  Operands& operands = *operands_[index];
  if (warm_) {
    RIDGE_CHECK_OK(warm_up(index));
  }
  operands.refresh(last_seed_, last_family_);
  if (alteration_) operands.alter(*alteration_);
  operands.publish(host_.arena());
  const std::vector<TensorView> views = operands.arena_views(host_.arena());
  const std::vector<std::int64_t>& params = operands.problem().values;
  std::span<const unsigned char> touched;
  if (warm_) {
    touched = {host_.arena(), operands.layout().bytes};
  } else if (evict_) {
    measure::evict(host_.arena(), operands.layout().bytes);
  }
  CallResult timing = host_.call(
      {views, operands.scalars()}, params, threads_,
      [&] {
        // Without this defence: time enough for a thread that writes after its kernel has returned, on a busy machine
        // too.
        if (!defences_.on(Defence::kPromptCopy)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        operands.collect(host_.arena());
      },
      touched);
  if (!timing) return explain(index, std::move(timing.error()));
  Verdict verdict = verify(index, depth);
  if (verdict.ok()) return timing;
  look_again(index, verdict.error());
  return std::move(verdict.error());
}

}  // namespace ridge::evaluate
