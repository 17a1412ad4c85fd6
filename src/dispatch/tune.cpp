#include "dispatch/tune.h"

#include <cmath>

#include "base/error.h"
#include "dispatch/probe.h"
#include "dispatch/tuned.h"
#include "measure/machine.h"
#include "measure/rounds.h"
#include "stats/summary.h"

namespace ridge::dispatch {
namespace {

double now() { return 1e-9 * static_cast<double>(measure::now_ns()); }

using Contenders = std::vector<const ops::Implementation*>;

// Those that can run the case and are right; what is wrong goes into `refused`.
Contenders contenders(const ops::Operator& op, const ops::Problem& problem, const Stream& stream,
                      std::vector<std::string>& refused) {
  Contenders able;
  for (const ops::Implementation& one : op.implementations) {
    if (ops::why_not(one, problem, ops::device_info(stream))) continue;
    if (one.is_reference && !able.empty()) continue;
    if (auto wrong = probe(op, one, problem, stream)) {
      refused.push_back(fmt::format("{}: {}", one.name, *wrong));
    } else {
      able.push_back(&one);
    }
  }
  return able;
}

// Median over the rounds of log(time of the first / time of `index`).
double log_ratio(const std::vector<measure::Round>& rounds, std::size_t index) {
  std::vector<double> ratios;
  for (const measure::Round& round : rounds) {
    if (!round[0] || !round[index]) continue;
    ratios.push_back(std::log((*round[0])[0] * (*round[0])[1] / ((*round[index])[0] * (*round[index])[1])) / 2);
  }
  return ratios.empty() ? -HUGE_VAL : stats::median(ratios);
}

std::vector<measure::Round> race(const Contenders& able, const ops::Problem& problem, const Stream& stream,
                                 const TuneOptions& options) {
  const Scratch scratch(problem, 11);
  const auto launch = [&](std::size_t i) -> std::optional<double> {
    const double start = now();
    if (!able[i]->run(problem, scratch.views(), stream)) return std::nullopt;
    return std::max(now() - start, 1e-9);
  };
  for (std::size_t i = 0; i < able.size(); ++i) (void)launch(i);  // first calls load libraries and allocate
  measure::Coin coin;
  std::vector<measure::Round> rounds;
  const double start = now();
  for (std::int64_t r = 0; r < options.rounds && (r < 3 || now() - start < options.seconds); ++r) {
    for (measure::Round& round : measure::run_rounds(launch, able.size(), 1, coin)) rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace

Result<record::TunedChoice> tune(const ops::Operator& op, const ops::Problem& problem, const Stream& stream,
                                 const TuneOptions& options) {
  if (stream.backend != Backend::kCpu) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{}: tuning measures on the CPU only", problem.problem_case.text()),
        "compare implementations with ridge bench --on cuda");
  }
  const ops::DeviceInfo& device = ops::device_info(stream);
  record::TunedChoice choice;
  choice.device = device.name;
  choice.libraries = library_versions(op, stream.backend);
  choice.bucket = bucket_of(op, problem);
  choice.threads = stream.threads;
  const Contenders able = contenders(op, problem, stream, choice.refused);
  if (able.empty()) {
    return make_error(ErrorCode::kUnsupported, "{}: nothing can run it on {}", problem.problem_case.text(),
                      device.name);
  }
  const std::vector<measure::Round> rounds =
      able.size() > 1 ? race(able, problem, stream, options) : std::vector<measure::Round>();
  std::size_t best = 0;
  double gain = 0;
  for (std::size_t i = 1; i < able.size(); ++i) {
    const double found = log_ratio(rounds, i);
    if (found <= std::max(gain, std::log1p(options.margin))) continue;
    gain = found;
    best = i;
  }
  choice.implementation = able[best]->name;
  choice.over = able[0]->name;
  choice.ratio = std::exp(gain);
  choice.rounds = static_cast<std::int64_t>(rounds.size());
  return choice;
}

}  // namespace ridge::dispatch
