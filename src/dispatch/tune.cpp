#include "dispatch/tune.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "dispatch/tuned.h"
#include "measure/machine.h"
#include "measure/rounds.h"
#include "stats/summary.h"

namespace ridge::dispatch {
namespace {

constexpr std::int64_t kMostCalls = 200;  // of one block
constexpr double kShort = 0.02;           // seconds

double now() { return 1e-9 * static_cast<double>(measure::now_ns()); }

// Median over the rounds of log(time of the first / time of `index`).
double log_ratio(const std::vector<measure::Round>& rounds, std::size_t index) {
  std::vector<double> ratios;
  for (const measure::Round& round : rounds) {
    if (!round[0] || !round[index]) continue;
    ratios.push_back(std::log((*round[0])[0] * (*round[0])[1] / ((*round[index])[0] * (*round[index])[1])) / 2);
  }
  return ratios.empty() ? -HUGE_VAL : stats::median(ratios);
}

double median_latency(const std::vector<measure::Round>& rounds, std::size_t index) {
  std::vector<double> all;
  for (const measure::Round& round : rounds) {
    if (round[index]) all.insert(all.end(), round[index]->begin(), round[index]->end());
  }
  return all.empty() ? 0 : stats::median(all);
}

// A case without its sizes.
std::string kind_of(const ops::Operator& op, const ops::Problem& problem) {
  std::string kind;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (op.params[i].kind != record::ParamKind::kWhole) kind += fmt::format("{} ", problem.values[i]);
  }
  return kind;
}

}  // namespace

TuneOptions options_for(Backend backend) {
  TuneOptions options;
  if (backend == Backend::kCpu) return options;
  options.rounds = 5;
  options.margin = 0.01;
  options.block = 0.003;
  options.beaten = 1.08;
  return options;
}

Ranking rank(std::size_t contenders, const std::function<std::optional<double>(std::size_t, std::int64_t)>& seconds,
             const TuneOptions& options) {
  const double start = now();
  Ranking ranking;
  ranking.hopeless.assign(contenders, false);
  std::vector<bool> racing(contenders, true);
  std::vector<std::int64_t> calls(contenders, 1);
  double fastest = HUGE_VAL;
  for (std::size_t i = 0; i < contenders; ++i) {
    std::optional<double> once = seconds(i, 1);
    // A first call may set something up, and a short one may meet an interruption: a contender that seems slow is
    // called again.
    for (int again = 0; again < 3 && once && *once > options.hopeless * fastest; ++again) {
      if (again > 0 && *once > kShort) break;
      const std::optional<double> more = seconds(i, 1);
      once = more ? std::optional(std::min(*once, *more)) : std::nullopt;
    }
    racing[i] = once.has_value();
    ranking.first_failed = !racing[0];
    if (ranking.first_failed) return ranking;
    if (!once) continue;
    ranking.hopeless[i] = i > 0 && *once > options.hopeless * fastest;
    racing[i] = !ranking.hopeless[i];
    fastest = std::min(fastest, *once);
    calls[i] = std::clamp<std::int64_t>(std::llround(options.block / *once), 1, kMostCalls);
  }
  if (std::count(racing.begin(), racing.end(), true) < 2) return ranking;
  const auto launch = [&](std::size_t i) { return racing[i] ? seconds(i, calls[i]) : std::nullopt; };
  measure::Coin coin = options.seed ? measure::Coin(*options.seed) : measure::Coin();
  std::vector<measure::Round> rounds;
  for (std::int64_t r = 0; r < options.rounds && (r < 1 || now() - start < options.seconds); ++r) {
    for (measure::Round& round : measure::run_rounds(launch, contenders, 1, coin)) rounds.push_back(std::move(round));
    if (r > 0) continue;
    double best = 0;
    for (std::size_t i = 1; i < contenders; ++i) best = std::max(best, log_ratio(rounds, i));
    for (std::size_t i = 1; i < contenders; ++i) {
      racing[i] = racing[i] && log_ratio(rounds, i) > best - std::log(options.beaten);
    }
  }
  for (std::size_t i = 1; i < contenders; ++i) {
    const double found = racing[i] ? log_ratio(rounds, i) : -HUGE_VAL;
    if (found <= std::max(ranking.gain, std::log1p(options.margin))) continue;
    ranking.gain = found;
    ranking.best = i;
  }
  ranking.latency = median_latency(rounds, ranking.best);
  ranking.rounds = static_cast<std::int64_t>(rounds.size());
  return ranking;
}

Tuner::Tuner(const ops::Operator& op, const Stream& stream)
    : op_(op),
      stream_(stream),
      prober_(op, stream, stream.backend == Backend::kCpu ? host_runner(stream) : cuda_runner(stream)) {}

bool Tuner::known_as_hopeless(const Choice& choice, const ops::Problem& problem) const {
  const auto found = hopeless_.find(choice.implementation->name + " " + kind_of(op_, problem));
  return found != hopeless_.end() && op_.cost(problem).flop >= found->second;
}

// The default order's first by its own choice, its other configurations, then the same of the next.
std::vector<Choice> Tuner::contenders(const ops::Problem& problem, const TuneOptions& options) const {
  const ops::DeviceInfo& device = ops::device_info(stream_);
  std::vector<Choice> able;
  for (const ops::Implementation& one : op_.implementations) {
    const Choice own{&one, -1};
    if (ops::why_not(one, problem, device) || known_as_hopeless(own, problem)) continue;
    if (one.is_reference && !able.empty()) continue;
    able.push_back(own);
    if (!one.promising) continue;
    const std::vector<int> promising = one.promising(problem, device);  // the first is its own choice
    for (std::size_t i = 1; i < std::min(promising.size(), options.configurations); ++i) {
      able.push_back({&one, promising[i]});
    }
  }
  return able;
}

Result<record::TunedChoice> Tuner::tune(const ops::Problem& problem, const TuneOptions& options) {
  const ops::DeviceInfo& device = ops::device_info(stream_);
  record::TunedChoice choice;
  choice.device = device.name;
  choice.driver = device.driver;
  choice.libraries = library_versions(op_, stream_.backend);
  choice.bucket = bucket_of(op_, problem);
  choice.threads = stream_.threads;
  const auto nothing = [&] {
    return make_error(ErrorCode::kUnsupported, "{}: nothing can run it on {}{}{}", problem.problem_case.text(),
                      device.name.empty() ? to_string(stream_.backend) : device.name,
                      device.missing.empty() ? "" : ": ", device.missing);
  };
  std::vector<Choice> able = contenders(problem, options);
  if (able.empty()) return nothing();
  RIDGE_TRY(run, make_tuning_run(problem, stream_, prober_));
  const double start = now();
  std::erase_if(able, [&](const Choice& one) {
    // Configurations are tried as long as half of the time is left; implementations always.
    if (one.configuration >= 0 && now() - start > options.seconds / 2) return true;
    const auto wrong = run->wrong(one);
    if (wrong) choice.refused.push_back(fmt::format("{}: {}", one.name(), *wrong));
    return wrong.has_value();
  });
  if (able.empty()) return nothing();
  TuneOptions left = options;
  left.seconds = std::max(options.seconds - (now() - start), 0.0);
  const auto seconds = [&](std::size_t i, std::int64_t calls) { return run->seconds(able[i], calls); };
  Ranking found = rank(able.size(), seconds, left);
  while (found.first_failed) {
    choice.refused.push_back(able[0].name() + ": its call failed");
    able.erase(able.begin());
    if (able.empty()) return nothing();
    found = rank(able.size(), seconds, left);
  }
  for (std::size_t i = 0; i < able.size(); ++i) {
    if (!found.hopeless[i] || able[i].configuration >= 0) continue;
    hopeless_.try_emplace(able[i].implementation->name + " " + kind_of(op_, problem), op_.cost(problem).flop);
  }
  const Choice& best = able[found.best];
  choice.implementation = best.implementation->name;
  if (best.configuration >= 0) {
    choice.configuration = best.implementation->configurations[static_cast<std::size_t>(best.configuration)];
  }
  choice.over = able[0].name();
  choice.ratio = std::exp(found.gain);
  choice.latency = found.latency;
  choice.rounds = found.rounds;
  return choice;
}

Result<record::TunedChoice> tune(const ops::Operator& op, const ops::Problem& problem, const Stream& stream,
                                 const TuneOptions& options) {
  return Tuner(op, stream).tune(problem, options);
}

}  // namespace ridge::dispatch
