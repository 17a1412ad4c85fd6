#include "dispatch/probe.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/fill.h"

namespace ridge::dispatch {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr double kProbedFlop = 1e8;  // above it, a reduced case is probed instead

TensorView dense(const ops::OperandSpec& spec) {
  TensorView view;
  view.dtype = spec.dtype;
  view.rank = static_cast<int>(spec.shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = spec.shape.size(); d-- > 0;) {
    view.shape[d] = spec.shape[d];
    view.stride[d] = stride;
    stride *= spec.shape[d];
  }
  return view;
}

// The worst of both lines of the error model for one output.
std::optional<std::string> judge(const std::string& name, const std::vector<double>& found,
                                 const ops::ReferenceOutput& expected) {
  double squares = 0;
  for (std::size_t e = 0; e < found.size(); ++e) {
    const double right = expected.value[e], error = std::abs(found[e] - right);
    if (found[e] == right || (std::isnan(found[e]) && std::isnan(right))) continue;
    if (!(error <= expected.allowed[e])) {
      return fmt::format("element {} of {} is {:.9g}, not {:.9g} +- {:.3g}", e, name, found[e], right,
                         expected.allowed[e]);
    }
    squares += error * error / expected.ideal_square[e];
  }
  const double rms = found.empty() ? 0 : std::sqrt(squares / static_cast<double>(found.size()));
  const double limit = numerics::rms_limit(static_cast<std::int64_t>(found.size()));
  if (rms <= limit) return std::nullopt;
  return fmt::format("the RMS error of {} is {:.3g} times the ideal kernel's, {:.3g} is allowed", name, rms, limit);
}

std::optional<std::string> run_and_judge(const ops::Operator& op, const ops::Implementation& implementation,
                                         const ops::Problem& problem, const Stream& stream, std::uint64_t seed) {
  const Scratch before(problem, seed), after(problem, seed);
  const auto expected = op.reference(problem, before.views());
  if (!expected) return expected.error().text();
  if (const Status ran = implementation.run(problem, after.views(), stream); !ran) return ran.error().text();
  std::size_t output = 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    auto wrong = judge(problem.operands[i].name, numerics::to_doubles(after.views()[i]), (*expected)[output++]);
    if (wrong) return fmt::format("{}: {}", problem.problem_case.text(), *wrong);
  }
  return std::nullopt;
}

}  // namespace

Scratch::Scratch(const ops::Problem& problem, std::uint64_t seed) {
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const ops::OperandSpec& spec = problem.operands[i];
    TensorView view = dense(spec);
    const std::size_t bytes = size_bytes(spec.dtype, spec.element_count());
    memory_.push_back(std::make_unique<unsigned char[]>(bytes + 2 * kAlignment));
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.back().get());
    view.data = reinterpret_cast<void*>((start + kAlignment - 1) / kAlignment * kAlignment);
    if (!spec.output || spec.read_write) {
      numerics::fill(view, numerics::Family::kNormal, seed + i);
    } else {
      std::memset(view.data, 0xff, bytes);  // what is never written is NaN
    }
    views_.push_back(view);
  }
}

std::optional<std::string> probe(const ops::Operator& op, const ops::Implementation& implementation,
                                 const ops::Problem& problem, const Stream& stream) {
  constexpr std::uint64_t kSeeds[] = {1, 2};
  for (const std::uint64_t seed : kSeeds) {
    ops::Problem small = problem;
    if (op.cost(problem).flop > kProbedFlop && op.vary) {
      const auto reduced = op.bind(op.vary(problem, ops::Variation::kReduced, seed));
      if (!reduced || ops::why_not(implementation, *reduced, ops::device_info(stream))) continue;
      small = *reduced;
    }
    if (auto wrong = run_and_judge(op, implementation, small, stream, 7 * seed)) return wrong;
  }
  return std::nullopt;
}

}  // namespace ridge::dispatch
