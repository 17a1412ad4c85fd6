#include "dispatch/probe.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/fill.h"
#include "ops/arguments.h"

namespace ridge::dispatch {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr double kProbedFlop = 1e8;  // above it, a reduced case is probed instead

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

// The case with every size cut to a few tiles, odd multiples of 16 and of different counts so that none is mistaken for
// another; nothing where it is as small already or still too large.
std::optional<ops::Problem> cut(const ops::Operator& op, const ops::Problem& problem, std::uint64_t seed) {
  constexpr std::int64_t kMost = 304;
  record::Case smaller = problem.problem_case;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (op.params[i].kind != record::ParamKind::kWhole) continue;
    const auto most = kMost + 16 * static_cast<std::int64_t>((i + seed) % 3);
    smaller.set(op.params[i].name, std::to_string(std::min(problem.values[i], most)));
  }
  auto bound = op.bind(smaller);
  if (!bound || op.cost(*bound).flop > kProbedFlop) return std::nullopt;
  return std::move(*bound);
}

}  // namespace

Scratch::Scratch(const ops::Problem& problem, std::uint64_t seed) {
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const ops::OperandSpec& spec = problem.operands[i];
    TensorView view = ops::dense_view(spec, nullptr);
    const std::size_t bytes = size_bytes(spec.dtype, spec.element_count());
    memory_.push_back(std::make_unique<unsigned char[]>(bytes + 2 * kAlignment));
    const auto start = reinterpret_cast<std::uintptr_t>(memory_.back().get());
    view.data = reinterpret_cast<void*>((start + kAlignment - 1) / kAlignment * kAlignment);
    if (!spec.output || spec.read_write) {
      ops::fill_input(spec.fill, view, numerics::Family::kNormal, seed + i);
    } else {
      std::memset(view.data, 0xff, bytes);  // what is never written is NaN
    }
    views_.push_back(view);
  }
}

Prober::Prober(const ops::Operator& op, const Stream& stream, Runner runner)
    : op_(op), stream_(stream), runner_(std::move(runner)) {}

std::shared_ptr<const Prober::Exercise> Prober::exercise(const ops::Problem& problem, std::uint64_t seed) {
  ops::Problem small = problem;
  if (op_.cost(problem).flop > kProbedFlop) {
    // A GPU's kernels differ by their tiles, so several must be seen; a processor's are tried on a call's way.
    auto reduced = stream_.backend == Backend::kCpu ? std::nullopt : cut(op_, problem, seed);
    if (!reduced && op_.vary) {
      if (auto drawn = op_.bind(op_.vary(problem, ops::Variation::kAlignedReduced, seed))) reduced = std::move(*drawn);
    }
    if (reduced) small = std::move(*reduced);
  }
  small.configuration = -1;
  std::shared_ptr<const Exercise>& known = exercises_[fmt::format("{} {}", seed, small.problem_case.text())];
  if (known == nullptr) {
    auto before = std::make_unique<Scratch>(small, 7 * seed);
    auto expected = op_.reference(small, before->views());
    known = std::make_shared<Exercise>(Exercise{std::move(small), std::move(before), std::move(expected)});
  }
  return known;
}

std::optional<std::string> Prober::attempt(const Choice& choice, const Exercise& exercise, std::uint64_t seed) {
  if (why_not(choice, exercise.problem, ops::device_info(stream_))) return std::nullopt;
  if (!exercise.expected) return exercise.expected.error().text();
  const ops::Problem problem = configured(exercise.problem, choice);
  const Scratch after(problem, 7 * seed);
  if (const Status ran = runner_(*choice.implementation, problem, after.views()); !ran) return ran.error().text();
  std::size_t output = 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    auto wrong =
        judge(problem.operands[i].name, numerics::to_doubles(after.views()[i]), (*exercise.expected)[output++]);
    if (wrong) return fmt::format("{}: {}", problem.problem_case.text(), *wrong);
  }
  return std::nullopt;
}

std::optional<std::string> Prober::wrong(const Choice& choice, const ops::Problem& problem) {
  constexpr std::uint64_t kSeeds[] = {1, 2};
  for (const std::uint64_t seed : kSeeds) {
    const std::shared_ptr<const Exercise> set = exercise(problem, seed);
    const std::string key = fmt::format("{} {} {}", choice.name(), seed, set->problem.problem_case.text());
    const auto [at, fresh] = known_.try_emplace(key);
    if (fresh) at->second = attempt(choice, *set, seed);
    if (at->second) return at->second;
  }
  return std::nullopt;
}

Runner host_runner(const Stream& stream) {
  return [stream](const ops::Implementation& one, const ops::Problem& problem, const std::vector<TensorView>& views) {
    return one.run(problem, views, stream);
  };
}

std::optional<std::string> probe(const ops::Operator& op, const ops::Implementation& implementation,
                                 const ops::Problem& problem, const Stream& stream) {
  Prober prober(op, stream, host_runner(stream));
  return prober.wrong({&implementation, problem.configuration}, problem);
}

}  // namespace ridge::dispatch
