#include "dispatch/tune.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "dispatch/configuration_search.h"
#include "dispatch/tuned.h"
#include "measure/machine.h"
#include "measure/rounds.h"
#include "stats/summary.h"

namespace ridge::dispatch {
namespace {

constexpr std::int64_t kMostCalls = 200;  // of one block
constexpr double kShort = 0.02;           // seconds
constexpr std::size_t kFinalists = 3;     // of the configurations that a search looked at
constexpr const char* kOrigin = "ridge tune";

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
  for (std::size_t i = 0; i < contenders; ++i) ranking.latencies.push_back(median_latency(rounds, i));
  ranking.rounds = static_cast<std::int64_t>(rounds.size());
  return ranking;
}

// What is measured on one case.
struct Tuner::Session {
  const ops::Problem& problem;
  const TuneOptions& options;
  TuningRun& run;
  double end;  // of searching: half of the time
  std::vector<Choice> contenders;
  std::vector<std::string> refused;
  std::map<std::pair<const ops::Implementation*, int>, std::optional<double>> looks;  // seconds by configuration

  // Says why not where its numbers are wrong.
  bool is_right(const Choice& choice) {
    const auto wrong = run.wrong(choice);
    if (wrong) refused.push_back(fmt::format("{}: {}", choice.name(), *wrong));
    return !wrong;
  }
  // Seconds of a call: of a block of them after one, or the faster of two.
  [[nodiscard]] std::optional<double> look(const Choice& choice) const {
    const std::optional<double> first = run.seconds(choice, 1);
    if (!first) return first;
    const std::int64_t calls = std::clamp<std::int64_t>(std::llround(options.block / *first), 1, kMostCalls);
    const std::optional<double> more = run.seconds(choice, calls);
    return more && options.block == 0 ? std::min(*more, *first) : more;
  }
};

Tuner::Tuner(const ops::Operator& op, const Stream& stream, std::filesystem::path cache)
    : op_(op),
      stream_(stream),
      prober_(op, stream, stream.backend == Backend::kCpu ? host_runner(stream) : cuda_runner(stream)),
      earlier_(op, std::move(cache), shipped_table()) {}

bool Tuner::known_as_hopeless(const Choice& choice, const ops::Problem& problem) const {
  const auto found = hopeless_.find(choice.implementation->name + " " + kind_of(op_, problem));
  return found != hopeless_.end() && op_.cost(problem).flop >= found->second;
}

// Those that may run it, by their own choice, in the default order.
std::vector<Choice> Tuner::implementations(const ops::Problem& problem) const {
  const ops::DeviceInfo& device = ops::device_info(stream_);
  std::vector<Choice> able;
  for (const ops::Implementation& one : op_.implementations) {
    const Choice own{&one, -1};
    if (ops::why_not(one, problem, device) || known_as_hopeless(own, problem)) continue;
    if (!one.is_reference || able.empty()) able.push_back(own);
  }
  return able;
}

// The implementation by its own choice, which is always compared, and its other configurations.
void Tuner::add_configurations(Session& session, const Choice& own) {
  const bool right = session.is_right(own);
  if (right) session.contenders.push_back(own);
  if (!own.implementation->promising) return;
  const std::vector<int> fitting = own.implementation->promising(session.problem, ops::device_info(stream_));
  if (fitting.size() > session.options.configurations) return search(session, *own.implementation, fitting, right);
  for (std::size_t i = 1; i < fitting.size() && now() < session.end; ++i) {
    const Choice other{own.implementation, fitting[i]};
    if (session.is_right(other)) session.contenders.push_back(other);
  }
}

// The fastest few of those that the search looks at. Looks are single blocks, one after the other: good enough to say
// who is compared.
void Tuner::search(Session& session, const ops::Implementation& one, const std::vector<int>& fitting, bool own_right) {
  const ops::DeviceInfo& device = ops::device_info(stream_);
  ConfigurationSearch search(one, session.problem, device, fitting, earlier_.sources(one, session.problem, device),
                             session.options.seed.value_or(1));
  std::vector<std::pair<double, int>> ran;
  const auto look = [&](int configuration) {
    const Choice choice{&one, configuration};
    const bool right = configuration == fitting[0] ? own_right : session.is_right(choice);
    const std::optional<double> seconds = right ? session.look(choice) : std::nullopt;
    search.observe(configuration, seconds);
    session.looks[{&one, configuration}] = seconds;
    if (seconds && configuration != fitting[0]) ran.emplace_back(*seconds, configuration);
  };
  look(fitting[0]);  // its own choice
  for (std::size_t i = 1; i < session.options.configurations && now() < session.end; ++i) {
    const std::optional<int> next = search.propose();
    if (!next) break;
    look(*next);
  }
  std::ranges::sort(ran);
  for (std::size_t i = 0; i < std::min(kFinalists, ran.size()); ++i)
    session.contenders.push_back({&one, ran[i].second});
}

// For later cases, processes and campaigns.
void Tuner::keep_looks(const Session& session) {
  const ops::DeviceInfo& device = ops::device_info(stream_);
  std::map<const ops::Implementation*, std::vector<record::StoredMeasurement>> by_kernel;
  for (const auto& [which, seconds] : session.looks) {
    const auto& [implementation, configuration] = which;
    record::StoredMeasurement& one = by_kernel[implementation].emplace_back();
    one.kernel = kernel_of(op_, *implementation);
    one.device = device.name;
    one.compiler = implementation->version ? implementation->version() : "";
    if (!device.driver.empty()) one.compiler += "; driver " + device.driver;
    if (device.clock > 0) one.clocks = record::clocks_text(device.clock);
    one.problem = session.problem.problem_case.label();
    one.origin = kOrigin;
    one.configuration = values_of(*implementation, configuration);
    one.seconds = seconds;
    if (!seconds) one.failure = "failed or wrong";
  }
  for (const auto& [implementation, measurements] : by_kernel) earlier_.add(*implementation, measurements);
}

// Compares the contenders; one that fails in the first place is left out.
Ranking Tuner::compare(Session& session, const TuneOptions& options) {
  std::vector<Choice>& contenders = session.contenders;
  Ranking found;
  while (!contenders.empty()) {
    found = rank(
        contenders.size(), [&](std::size_t i, std::int64_t calls) { return session.run.seconds(contenders[i], calls); },
        options);
    if (!found.first_failed) break;
    session.refused.push_back(contenders[0].name() + ": its call failed");
    contenders.erase(contenders.begin());
  }
  return found;
}

// Who is hopeless, and how fast the others were: more than a look says.
void Tuner::remember(Session& session, const Ranking& found) {
  for (std::size_t i = 0; i < session.contenders.size(); ++i) {
    const auto [one, named] = session.contenders[i];
    if (found.hopeless[i] && named < 0)
      hopeless_.try_emplace(one->name + " " + kind_of(op_, session.problem), op_.cost(session.problem).flop);
    if (!one->promising || i >= found.latencies.size() || found.latencies[i] <= 0) continue;
    const int configuration = named >= 0 ? named : one->promising(session.problem, ops::device_info(stream_)).front();
    session.looks[{one, configuration}] = found.latencies[i];
  }
  keep_looks(session);
}

Result<record::TunedChoice> Tuner::tune(const ops::Problem& problem, const TuneOptions& options) {
  const ops::DeviceInfo& device = ops::device_info(stream_);
  const auto nothing = [&] {
    return make_error(ErrorCode::kUnsupported, "{}: nothing can run it on {}{}{}", problem.problem_case.text(),
                      device.name.empty() ? to_string(stream_.backend) : device.name,
                      device.missing.empty() ? "" : ": ", device.missing);
  };
  const std::vector<Choice> able = implementations(problem);
  if (able.empty()) return nothing();
  RIDGE_TRY(run, make_tuning_run(problem, stream_, prober_));
  const double start = now();
  Session session{problem, options, *run, start + options.seconds / 2, {}, {}, {}};
  for (const Choice& own : able) add_configurations(session, own);
  TuneOptions left = options;
  left.seconds = std::max(options.seconds - (now() - start), 0.0);
  const Ranking found = compare(session, left);
  if (session.contenders.empty()) return nothing();
  remember(session, found);
  const Choice& best = session.contenders[found.best];
  record::TunedChoice choice;
  choice.device = device.name;
  choice.driver = device.driver;
  choice.libraries = library_versions(op_, stream_.backend);
  choice.bucket = bucket_of(op_, problem);
  choice.threads = stream_.threads;
  choice.refused = std::move(session.refused);
  choice.implementation = best.implementation->name;
  if (best.configuration >= 0) {
    choice.configuration = best.implementation->configurations[static_cast<std::size_t>(best.configuration)];
  }
  choice.over = session.contenders[0].name();
  choice.ratio = std::exp(found.gain);
  choice.latency = found.best < found.latencies.size() ? found.latencies[found.best] : 0;
  choice.rounds = found.rounds;
  return choice;
}

}  // namespace ridge::dispatch
