#include "evaluate/station.h"

#include "base/hash.h"

namespace ridge::evaluate {
namespace {
// One timed call in so many is compared element by element, drawn after its output was taken.
constexpr std::uint64_t kFullCheckOneIn = 64;
// Above this much work the fp64 reference takes seconds; then only Depth::kFull asks for it.
constexpr double kCheapReferenceFlop = 1.5e8;
}  // namespace

Station::Station(HostProcess host, const ops::Operator& op, const std::vector<ops::Problem>& problems,
                 const Harness& harness, RowPadding padding)
    : host_(std::move(host)),
      op_(op),
      warm_(harness.protocol.mode == "warm"),
      evict_(harness.placement.shared()),
      threads_(harness.protocol.threads) {
  for (const ops::Problem& problem : problems) {
    operands_.push_back(std::make_unique<Operands>(problem, make_layout(problem, padding, coin_), coin_));
  }
  verifications_.resize(problems.size());
}

std::variant<std::unique_ptr<Station>, Failure> Station::open(const Subject& subject, const ops::Operator& op,
                                                              const std::vector<ops::Problem>& problems,
                                                              const Harness& harness, RowPadding padding) {
  std::variant<HostProcess, Failure> host = start(subject, problems, harness);
  if (const Failure* failure = std::get_if<Failure>(&host)) return *failure;
  return std::unique_ptr<Station>(new Station(std::move(std::get<HostProcess>(host)), op, problems, harness, padding));
}

Result<std::optional<Failure>> Station::verify(std::size_t index, Depth depth) {
  Operands& operands = *operands_[index];
  operands.collect(host_.arena());
  const bool drawn = coin_.below(kFullCheckOneIn) == 0 && op_.cost(operands.problem()).flop <= kCheapReferenceFlop;
  if (depth == Depth::kQuick && !drawn) {
    return verify_quickly(op_, operands, secret_seed(), verifications_[index]);
  }
  return verify_fully(op_, operands, verifications_[index]);
}

CallResult Station::launch(std::size_t index, Depth depth, numerics::Family family) {
  Operands& operands = *operands_[index];
  operands.refresh(secret_seed(), family);
  operands.publish(host_.arena());
  const std::vector<TensorView> views = operands.arena_views(host_.arena());
  const std::vector<std::int64_t>& params = operands.problem().values;
  if (warm_) {
    CallResult first = host_.call(views, params, threads_);
    if (std::holds_alternative<Failure>(first)) return first;
    operands.publish_outputs(host_.arena());
  } else if (evict_) {
    measure::evict(host_.arena(), operands.layout().bytes);
  }
  CallResult timing = host_.call(views, params, threads_);
  if (std::holds_alternative<Failure>(timing)) return timing;
  Result<std::optional<Failure>> verdict = verify(index, depth);
  if (!verdict) return Failure{record::Outcome::kHarnessFault, verdict.error().text()};
  if (*verdict) return **verdict;
  return timing;
}

}  // namespace ridge::evaluate
