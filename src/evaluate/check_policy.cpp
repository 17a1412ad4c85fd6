#include "evaluate/check_policy.h"

#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "evaluate/memory_need.h"

namespace ridge::evaluate {
namespace {

using numerics::Family;
using ops::Variation;

constexpr Family kFamilies[] = {Family::kSpikes, Family::kNormal,         Family::kHeavyTails, Family::kScaled,
                                Family::kTies,   Family::kConstantBlocks, Family::kUniform,    Family::kDenormals};
constexpr int kNearShapes = 2;
constexpr int kDraws = 64;  // until one is not refused: an implementation may take only aligned rows
constexpr int kAlterations = 3, kCostlyAlterations = 1;

bool is_cheap(const ops::Operator& op, const ops::Problem& problem, const CheckLimits& limits) {
  return op.cost(problem).flop <= limits.cheap_flop;
}

std::optional<ops::Problem> drawn(const Subject& subject, const ops::Operator& op, const ops::Problem& problem,
                                  Variation variation, Secrets& secrets) {
  for (int draw = 0; draw < kDraws; ++draw) {
    Result<ops::Problem> other = op.bind(op.vary(problem, variation, secrets.next()));
    if (other && !refusal(subject, *other)) return std::move(*other);
  }
  return std::nullopt;
}

HeldOut near_shape(const Subject& subject, const ops::Operator& op, const ops::Problem& problem, Secrets& secrets) {
  HeldOut shape;
  for (const Variation variation : {Variation::kNeighbour, Variation::kAlignedNeighbour}) {
    if (auto other = drawn(subject, op, problem, variation, secrets)) shape.push_back(std::move(*other));
  }
  return shape;
}

// The case with size `index` several times as large, and the others small. Nothing: it does not fit, or is refused.
std::optional<ops::Problem> larger_in(const Subject& subject, const ops::Operator& op, const ops::Problem& problem,
                                      std::size_t index, bool aligned, const CheckLimits& limits, Secrets& secrets) {
  const record::Case near =
      op.vary(problem, aligned ? Variation::kAlignedNeighbour : Variation::kNeighbour, secrets.next());
  record::Case other = op.vary(problem, aligned ? Variation::kAlignedReduced : Variation::kReduced, secrets.next());
  const std::int64_t near_size = std::atoll(near.params[index].value.c_str());
  // Above four times the size itself, however far below it the neighbour is.
  for (std::int64_t factor = 5 + static_cast<std::int64_t>(secrets.next() % 4); factor >= 2; factor /= 2) {
    other.set(near.params[index].name, std::to_string(problem.values[index] * (factor - 1) + near_size));
    Result<ops::Problem> bound = op.bind(other);
    if (!bound || refusal(subject, *bound)) continue;
    if (op.cost(*bound).flop > limits.larger_flop || operand_bytes(*bound) > limits.larger_bytes) continue;
    return std::move(*bound);
  }
  return std::nullopt;
}

}  // namespace

CheckLimits limits_of_processor() { return {1.5e8, 6e7, 32e6, "6e7 FLOP and 32 MB of operands"}; }

CheckLimits limits_of_gpu(double memory_bytes) {
  // Two places of a call, red zones and the reference lie beside each other.
  const double bytes = memory_bytes / 16;
  return {2e10, 2e10, bytes,
          fmt::format("2e10 FLOP and {:.1f} GB of operands, a sixteenth of the device's memory", bytes / 1e9)};
}

HeldOutShapes held_out_shapes(const Subject& subject, const ops::Operator& op, const ops::Problem& problem,
                              const CheckLimits& limits, const Secrets& secrets) {
  HeldOutShapes shapes;
  if (!op.vary) return shapes;
  Secrets near = secrets.branch("shapes"), large = secrets.branch("larger");
  for (int i = 0; i < kNearShapes; ++i) {
    if (HeldOut shape = near_shape(subject, op, problem, near); !shape.empty()) shapes.near.push_back(std::move(shape));
  }
  const record::Case any = op.vary(problem, Variation::kNeighbour, large.next());
  for (std::size_t i = 0; i < any.params.size() && i < problem.values.size(); ++i) {
    const record::Param& size = any.params[i];
    if (problem.values[i] < 2 || problem.problem_case.get(size.name) == size.value) continue;  // not what vary() varies
    HeldOut shape;
    for (const bool aligned : {false, true}) {
      if (auto one = larger_in(subject, op, problem, i, aligned, limits, large)) shape.push_back(std::move(*one));
    }
    if (shape.empty()) {
      shapes.bounded += (shapes.bounded.empty() ? "" : ", ") + size.name;
    } else {
      shapes.larger.push_back(std::move(shape));
    }
  }
  if (!shapes.bounded.empty()) {
    shapes.bounded = fmt::format("none larger in {} within {}, or refused", shapes.bounded, limits.larger_words);
  }
  return shapes;
}

std::vector<Family> families_to_check(const ops::Operator& op, const ops::Problem& problem, const CheckLimits& limits,
                                      std::size_t turn) {
  std::vector<Family> wanted = {std::begin(kFamilies), std::end(kFamilies)};
  if (!is_cheap(op, problem, limits)) {
    wanted = {Family::kSpikes, kFamilies[1 + turn % (std::size(kFamilies) - 1)]};
  }
  std::erase_if(wanted, [&](Family family) { return op.excuses && op.excuses(problem, family); });
  return wanted;
}

int alterations(const ops::Operator& op, const ops::Problem& problem, const CheckLimits& limits) {
  return is_cheap(op, problem, limits) ? kAlterations : kCostlyAlterations;
}

}  // namespace ridge::evaluate
