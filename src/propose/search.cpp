// The proposer that needs no language model: it reads the declared space, the evidence and the history, and picks the
// direction with the largest predicted gain: one of the options of the source, or a sweep over all of its parameters
// together, until such sweeps find nothing any more. When no direction is left it says that it is exhausted. Which
// configurations a sweep looks at is the search engine's choice (looks.h). The same request always gets the same
// answer.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"
#include "propose/direction.h"
#include "propose/looks.h"
#include "propose/proposers.h"
#include "propose/sweep_size.h"
#include "record/json.h"

namespace ridge::propose {
namespace {

using record::Candidate;
using record::Hypothesis;
using record::Proposal;
using record::ProposalRequest;

constexpr std::string_view kParameters = "parameters";
// At parameters, without anything accepted: after the first number only where the engine still hopes for a gain that
// can be verified, after the second no more.
constexpr std::size_t kLooksInVain = 40, kLooksAtMost = 160;
constexpr std::uint64_t kWholePool = 8'000;       // a space up to this size is chosen from whole
constexpr std::size_t kDraws = 3'000, kBest = 4;  // of a larger one: drawn, and the best whose neighbours are added
constexpr double kLeastGain = 0.01;               // that can be verified
constexpr double kShareOfBudget = 0.12;           // of the time left, for one sweep
constexpr double kSecondsPerLook = 0.5;           // verified calls of one configuration
constexpr double kSecondsPerBuild = 0.8;          // when the incumbent's build time is unknown

// Everything one decision looks at.
struct View {
  const ProposalRequest& request;
  const Space& space;
  Machine machine;
  Standing standing;
  Past past;
  std::uint64_t seed;
};

double count_of(const ProposalRequest& request, const std::string& name) {
  const auto found = request.build.counts.find(name);
  return found == request.build.counts.end() ? -1 : found->second;
}

// How many configurations one sweep may hold: what the time left allows. Devices that look together take as long for
// as many more.
std::size_t sweep_size(const View& view) {
  const Result<std::size_t> stated = sweep_most(view.request.spec);
  const std::size_t most = stated ? *stated : kSweepOfADevice;
  if (view.request.seconds_left <= 0) return most;
  const record::BuildEvidence& build = view.request.build;
  const double per_build = !build.cached && build.wall > 0 ? build.wall : kSecondsPerBuild;
  const double devices = std::max(1.0, static_cast<double>(most) / static_cast<double>(kSweepOfADevice));
  const double affordable = devices * kShareOfBudget * view.request.seconds_left / (per_build + kSecondsPerLook);
  return std::clamp(static_cast<std::size_t>(std::max(0.0, affordable)), kSweepLeast, most);
}

// The configuration as -D values: what is not at its default, and whatever the incumbent states explicitly.
Candidate make_candidate(const View& view, const Config& config) {
  Candidate candidate = view.request.incumbent;
  for (const auto& [name, value] : config) {
    const bool needed = value != view.space.find(name)->default_value || candidate.defines.contains(name);
    if (needed) candidate.defines[name] = value;
  }
  candidate.parent = view.request.incumbent.id();
  candidate.name = fmt::format("round {}: {}", view.request.round, to_text(difference(view.standing.config, config)));
  return candidate;
}

// Whether the memory, of earlier campaigns too, holds this configuration as measured and rolled back.
bool is_refuted(const View& view, const Config& config) {
  return !view.past.refuted.empty() && view.past.refuted.contains(make_candidate(view, config).id());
}

Proposal make_proposal(const View& view, Hypothesis hypothesis, const std::vector<Config>& configs) {
  Proposal proposal;
  proposal.hypothesis = std::move(hypothesis);
  for (const Config& config : configs) proposal.candidates.push_back(make_candidate(view, config));
  return proposal;
}

// ---- What the hypothesis says --------------------------------------------------------------------------------------

std::string standing_text(const View& view) {
  const Standing& now = view.standing;
  std::string text;
  if (now.measured) {
    const std::string set = to_text(difference(view.space.defaults(), now.config));
    text = fmt::format("The incumbent ({}) reaches {} of its roofline bound (geomean of {} shapes",
                       set.empty() ? "all tunables at their defaults" : set, percent(now.fraction),
                       view.request.roofline.size());
    text += fmt::format("; furthest from it {}, {}). ", now.worst_label, percent(now.worst_fraction));
  } else {
    text = "The incumbent has no roofline yet; the model stands in for it. ";
  }
  const double vector = count_of(view.request, "fma_vector"), scalar = count_of(view.request, "fma_scalar");
  if (vector >= 0 && scalar >= 0) {
    text += fmt::format("Its code holds {:.0f} vector and {:.0f} scalar multiply-adds", vector, scalar);
    const double bits = count_of(view.request, "vector_bits"), in_loop = count_of(view.request, "hot_loop_spill");
    const double spills = in_loop >= 0 ? in_loop : count_of(view.request, "stack_spill");
    if (bits > 0) text += fmt::format(", the widest vector {:.0f} bits", bits);
    if (spills >= 0)
      text += fmt::format(", {:.0f} spills to the stack{}", spills, in_loop >= 0 ? " in its hottest loop" : "");
    text += ". ";
  }
  const double registers = count_of(view.request, "registers");
  if (view.machine.gpu && registers >= 0) {
    text += fmt::format("Its kernel takes {:.0f} registers and spills {:.0f} bytes. ", registers,
                        std::max(0.0, count_of(view.request, "spill_bytes")));
  }
  const std::string peak =
      view.machine.peak > 0
          ? fmt::format(", {} {:.4g} GFLOP/s", view.machine.gpu ? "peak" : "measured peak", view.machine.peak * 1e-9)
          : std::string();
  text += fmt::format("On this machine ({}{}) the {} model allows this configuration {}, limited by {}",
                      view.machine.vector_source, peak, view.machine.gpu ? "tile" : "issue",
                      percent(now.issue.fraction), now.issue.limit);
  text += now.memory_time > 0.02 * (1 / now.fraction)
              ? fmt::format("; the other {} of the time is {}. ", percent(now.memory_time * now.fraction),
                            view.machine.gpu ? "waiting for memory, overhead, or a clock below the highest"
                                             : "waiting for memory or overhead")
              : std::string(". ");
  return text;
}

std::string profile_text(const View& view) {
  const auto& profile = view.request.profile;
  if (!profile || profile->bottleneck == record::Bottleneck::kUnknown) return {};
  return fmt::format(" {} says: {}; what works on another limit counts half.", profile->tool, profile->verdict);
}

std::string earlier_text(const View& view) {
  std::size_t looks = 0;
  for (const record::EarlierLooks& one : view.request.earlier) looks += one.looks.size();
  if (looks == 0) return {};
  return fmt::format(" {} looks of {} earlier campaign{} on this kernel say where to look first.", looks,
                     view.request.earlier.size(), view.request.earlier.size() == 1 ? "" : "s");
}

std::string lesson_text(const View& view) {
  const record::RoundSummary* last = view.past.last_rollback;
  if (view.past.consecutive_rollbacks == 0 || last == nullptr) return {};
  return fmt::format(" Round {} ({}) was rolled back: {}; so this turns to something else.", last->round,
                     last->hypothesis.mechanism, last->reason);
}

std::string bottleneck_of(const View& view, const std::string& role) {
  if (memory_share(role) > 0 && view.standing.memory_time > 0) return "memory";
  if (role == "threads") return "resource";
  return view.standing.issue.limit.starts_with("the latency") ? "latency" : "compute";
}

std::vector<std::string> risks_of(const std::string& role) {
  if (role == "vector_width") return {"wide vectors may lower the clock", "ragged edges need narrower code"};
  if (role == "register_rows" || role == "register_cols") {
    return {"accumulators beyond the register file spill to the stack",
            "rows or columns left over at the edge of a shape"};
  }
  if (role == "pack") return {"the copy costs more than it saves on small shapes", "a packing buffer takes cache"};
  if (role.starts_with("block"))
    return {"each block reads and writes the result once more", "sizes fit one cache only"};
  if (role == "prefetch") return {"useless requests take the place of useful ones", "more instructions in the loop"};
  if (role == "unroll") return {"larger code", "longer compile time"};
  if (role == "threads") return {"starting threads costs more than a small shape takes"};
  if (role.starts_with("tile ")) {
    return {"sums beyond the register file spill", "fewer tiles leave multiprocessors idle in the last wave"};
  }
  if (role.starts_with("cluster "))
    return {"blocks of a cluster wait for each other", "an odd one out leaves its pair idle"};
  if (role == "walk") return {"what is best depends on the shape of the tile grid"};
  if (role == "split") return {"the exchange of partial sums costs more than idle multiprocessors"};
  if (role == "loop_order") return {"the result is read and written once per step"};
  return {"no model: the effect is unknown"};
}

std::string signal_of(const View& view, const std::string& role, double gain) {
  std::string text = fmt::format("suite ratio above {:.3f}", 1 + std::max(0.01, gain / 2));
  if (role == "vector_width") text += fmt::format(", vector_bits at {:.0f} in the build", 32 * view.machine.lanes);
  if (role == "register_rows" || role == "register_cols") text += ", more vector multiply-adds and no new stack_spill";
  if (memory_share(role) > 0) text += ", most of all on the largest shapes";
  return text;
}

std::vector<std::string> evidence_of(const View& view) {
  std::vector<std::string> ids = {view.request.incumbent.id()};
  if (!view.request.build.artifact.empty()) ids.push_back(view.request.build.artifact);
  for (const record::RoundSummary& round : view.request.history) {
    if (!round.sweep.empty() || round.accepted) ids.push_back(fmt::format("round-{}", round.round));
  }
  return ids;
}

Hypothesis frame(const View& view, std::string mechanism, std::string category) {
  Hypothesis hypothesis;
  hypothesis.mechanism = std::move(mechanism);
  hypothesis.category = std::move(category);
  hypothesis.evidence = evidence_of(view);
  if (view.past.consecutive_rollbacks > 0) hypothesis.informed_by = view.past.last_rollback->round;
  return hypothesis;
}

Looks choose(const View& view, const std::vector<Config>& among, std::size_t size) {
  return choose_looks(view.space, view.machine, view.past, view.request.earlier, among, size, view.seed);
}

// What the engine expects takes the place of what the cost model predicts, once there are looks to expect it from.
void expect_of(const Looks& looks, Hypothesis& h) {
  if (!looks.outlook) return;
  const auto& [gain, deviation, from] = *looks.outlook;
  h.expected_gain = std::max(std::expm1(gain), kLeastGain);
  h.expected_gain_arithmetic = fmt::format(
      "a Gaussian process through {} looks puts the first of these at {:.3f}x the incumbent, {:.3f}x to {:.3f}x within "
      "one deviation{}; before that: {}",
      from, std::exp(gain), std::exp(gain - deviation), std::exp(gain + deviation),
      std::expm1(gain) < kLeastGain ? fmt::format(", and {} is the least that can be verified", percent(kLeastGain))
                                    : std::string(),
      h.expected_gain_arithmetic);
}

// ---- The parameters, all together -----------------------------------------------------------------------------------

struct Sweeps {
  std::int64_t count = 0;
  std::size_t in_vain = 0;  // looks since the last round that was accepted
};
Sweeps sweeps_of(const View& view) {
  Sweeps sweeps;
  for (const record::RoundSummary& round : view.request.history) {
    if (round.accepted) sweeps.in_vain = 0;
    if (!round.hypothesis.mechanism.starts_with(kParameters) || !view.past.tried(round.hypothesis.mechanism)) continue;
    ++sweeps.count;
    if (!round.accepted) sweeps.in_vain += round.sweep.size();
  }
  return sweeps;
}

// The space with every option as the incumbent has it.
record::TuneSpace parameters_of(const View& view) {
  record::TuneSpace fixed = view.space.declared();
  for (record::Tunable& tunable : fixed.tunables) {
    if (is_parameter(view.space, tunable)) continue;
    tunable.default_value = view.standing.config.at(tunable.name);
    tunable.values = {tunable.default_value};
  }
  return fixed;
}

// All of a small space; of a large one a sample, and the neighbours of the fastest.
std::vector<Config> parameter_configs(const View& view, const Space& space) {
  std::set<Config> found;
  if (space.count() <= kWholePool) {
    for (std::uint64_t i = 0; i < space.count(); ++i) found.insert(space.config(i));
  } else {
    Random random(view.seed);
    for (std::size_t i = 0; i < kDraws; ++i) found.insert(space.config(random.next() % space.count()));
    std::vector<Look> best = view.past.looks;
    std::erase_if(best, [&](const Look& look) { return !look.time || !space.number(look.config); });
    std::ranges::stable_sort(best, {}, [](const Look& look) { return *look.time; });
    if (best.size() > kBest) best.resize(kBest);
    for (const Look& look : best) {
      for (Config& near : space.neighbours(look.config)) found.insert(std::move(near));
    }
  }
  std::vector<Config> configs(found.begin(), found.end());
  std::erase_if(configs, [&](const Config& config) {
    return view.past.seen.contains(config) || is_refuted(view, config) ||
           !fits_machine(view.space, config, view.machine);
  });
  return configs;
}

// Whether the best that the engine expects, within one deviation, is worth another sweep.
bool has_hope(const View& view, const std::vector<Config>& configs) {
  const Looks next = choose(view, configs, 1);
  return !next.outlook || std::expm1(next.outlook->gain + next.outlook->deviation) > kLeastGain;
}

// A sweep over all of them; nothing when enough looks found nothing, or none is left.
std::optional<Direction> parameters_direction(const View& view, const Space& space) {
  const Sweeps before = sweeps_of(view);
  if (before.in_vain >= kLooksAtMost || space.declared().tunables.empty()) return std::nullopt;
  Direction direction;
  direction.configs = parameter_configs(view, space);
  if (direction.configs.size() < 2) return std::nullopt;  // one alone may be two changes at once
  if (before.in_vain >= kLooksInVain && !has_hope(view, direction.configs)) return std::nullopt;
  double left = 1;  // of the time that the issue limit does not explain
  for (const record::Tunable& tunable : view.space.declared().tunables) {
    if (!is_parameter(view.space, tunable) || !view.space.active(tunable, view.standing.config)) continue;
    direction.names.push_back(tunable.name);
    left *= 1 - memory_share(tunable.model);
    if (memory_share(tunable.model) >= memory_share(direction.role)) direction.role = tunable.model;
  }
  direction.mechanism = fmt::format("{} {}", kParameters, before.count + 1);
  direction.title = kParameters;
  direction.category = "tile";
  direction.effect = "several of them often help only together";
  direction.retune = before.count > 0;
  rank(view.space, view.machine, direction.configs);
  direction.prediction =
      predict(view.space, view.machine, view.standing, direction.configs[0], direction.retune ? 0 : 1 - left);
  if (direction.prediction.gain < kLeastGain) {
    direction.prediction.gain = kLeastGain;
    direction.prediction.arithmetic +=
        fmt::format("; the model sees nothing here, {} is the least a look is made for", percent(kLeastGain));
  }
  return direction;
}

// ---- A round --------------------------------------------------------------------------------------------------------

std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 6;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} tunables ({}, ...)", names.size(), fmt::join(names.begin(), names.begin() + kMost, ", "));
}

Proposal follow(const View& view, const Direction& direction, const std::vector<Direction>& open) {
  const std::size_t refused = view.request.last_error.empty() ? 0 : 1;  // the first of them
  Looks looks = choose(view, direction.configs, sweep_size(view) + refused);
  if (looks.configs.size() > refused) looks.configs.erase(looks.configs.begin(), looks.configs.begin() + refused);
  const std::vector<Config>& configs = looks.configs;
  const bool sweep = configs.size() > 1;
  Hypothesis h = frame(view, direction.mechanism, direction.category);
  const Config first = difference(view.standing.config, configs[0]);
  const Config favourite = difference(view.standing.config, direction.configs[0]);
  h.title = sweep ? fmt::format("{}{}: {} values of {}", direction.retune ? "again " : "", direction.title,
                                configs.size(), names_text(direction.names))
                  : fmt::format("{}: {}", direction.title, to_text(first));
  h.bottleneck = bottleneck_of(view, direction.role);
  h.expected_gain = direction.prediction.gain;
  h.expected_gain_arithmetic = direction.prediction.arithmetic;
  expect_of(looks, h);
  h.reasoning = standing_text(view) +
                fmt::format("Of {} open directions this promises most: {}. ", open.size(), direction.effect) +
                fmt::format("The model's favourite is {}, whose issue limit is {} ({}).", to_text(favourite),
                            percent(direction.prediction.issue.fraction), direction.prediction.issue.limit);
  if (sweep && direction.configs.size() > configs.size()) {
    h.reasoning += fmt::format(
        " {} of {} unseen values are looked at, each chosen for the most improvement that the model and the "
        "looks so far let expect.",
        configs.size(), direction.configs.size());
  }
  h.reasoning += profile_text(view) + earlier_text(view) + lesson_text(view);
  h.risks = risks_of(direction.role);
  h.verification_signal = signal_of(view, direction.role, h.expected_gain);
  return make_proposal(view, std::move(h), configs);
}

Proposal exhausted(const View& view) {
  std::string spent;
  for (const auto& [mechanism, attempt] : view.past.attempts) {
    spent += fmt::format("{}{} ({} in round {})", spent.empty() ? "" : ", ", mechanism, record::name_of(attempt.state),
                         attempt.round);
  }
  Proposal proposal;
  proposal.exhausted = true;
  proposal.reason =
      view.space.declared().tunables.empty()
          ? "the source declares no tunables: add a ridge-tunables block, or use another proposer"
          : fmt::format(
                "nothing untried is left: {} configurations were looked at; directions tried: {}; the best "
                "reaches {} of its bound",
                view.past.seen.size(), spent.empty() ? "none" : spent, percent(view.standing.fraction));
  return proposal;
}

// Whether a profile says that something else limits than what this direction works on.
bool off_the_limit(const View& view, const Direction& direction) {
  const auto& profile = view.request.profile;
  if (!profile || profile->bottleneck == record::Bottleneck::kUnknown) return false;
  return bottleneck_of(view, direction.role) != record::name_of(profile->bottleneck);
}

// What a direction promises, by how much came of such promises before. What works on another limit than the profiler
// saw counts half.
double score(const View& view, const Direction& direction) {
  return direction.prediction.gain * view.past.trust_in(direction.category) *
         (off_the_limit(view, direction) ? 0.5 : 1.0);
}

// Asked again within a round: what this proposed first did not build or was wrong. A direction with nothing else is
// over, and a sweep of parameters of which one would be left; of others the next best comes forward (follow()).
void drop_if_alone(const View& view, std::vector<Direction>& open) {
  const auto best =
      std::ranges::max_element(open, {}, [&](const Direction& direction) { return score(view, direction); });
  if (best == open.end()) return;
  if (best->configs.size() <= (best->mechanism.starts_with(kParameters) ? 2 : 1)) open.erase(best);
}

// Spaces that were counted before: to count a large one takes a second, and every round asks for the same two.
class Spaces {
 public:
  Result<Space> of(const record::TuneSpace& declared) {
    const std::string text = record::to_line(declared);
    const auto known = spaces_.find(text);
    if (known != spaces_.end()) return known->second;
    RIDGE_TRY(space, Space::create(declared));
    if (spaces_.size() == kMostSpaces) spaces_.clear();
    return spaces_.emplace(text, std::move(space)).first->second;
  }

 private:
  static constexpr std::size_t kMostSpaces = 8;
  std::map<std::string, Space> spaces_;
};

class Search final : public Proposer {
 public:
  explicit Search(std::string seed) : seed_(std::move(seed)) {}

  [[nodiscard]] std::string name() const override { return seed_.empty() ? "search" : "search:" + seed_; }

  Result<Proposal> propose(const ProposalRequest& request) override {
    RIDGE_TRY(space, spaces_.of(request.space));
    View view{request, space, describe_machine(request), {}, {}, seed_of(request)};
    view.standing = where_it_stands(space, view.machine, request);
    view.past = digest_history(space, request);
    RIDGE_TRY(parameters, spaces_.of(parameters_of(view)));
    // The model of a processor credits parameters with shares of the time and cannot rank many of them together: those
    // of a space that is too large to be chosen from whole are first tuned a group at a time.
    const bool grouped = !view.machine.gpu && parameters.count() > kWholePool;
    std::vector<Direction> open = open_directions(space, view.machine, view.standing, view.past, grouped);
    for (Direction& direction : open)
      std::erase_if(direction.configs, [&](const Config& config) { return is_refuted(view, config); });
    std::erase_if(open, [](const Direction& direction) { return direction.configs.empty(); });
    const bool groups_left = std::ranges::any_of(
        open, [&](const Direction& direction) { return is_parameter(space, *space.find(direction.names.front())); });
    if (!groups_left) {
      if (auto sweep = parameters_direction(view, parameters)) open.push_back(*std::move(sweep));
    }
    if (!request.last_error.empty()) drop_if_alone(view, open);
    if (open.empty()) return exhausted(view);
    const auto best =
        std::ranges::max_element(open, {}, [&](const Direction& direction) { return score(view, direction); });
    return follow(view, *best, open);
  }

 private:
  // The same campaign draws the same, and another one with another seed of the user's.
  [[nodiscard]] std::uint64_t seed_of(const ProposalRequest& request) const {
    ProposalRequest timeless = request;
    timeless.memory.clear();  // its records carry the time of day
    timeless.knowledge.clear();
    timeless.profile.reset();
    const std::string digest = sha256(record::to_line(timeless) + seed_);
    std::uint64_t seed = 0;
    std::from_chars(digest.data(), digest.data() + 16, seed, 16);
    return seed;
  }

  std::string seed_;  // as it was written; empty: none
  Spaces spaces_;
};

}  // namespace

Result<std::unique_ptr<Proposer>> make_search(std::string_view argument, const ProposerOptions&) {
  if (argument.find_first_not_of("0123456789") != std::string_view::npos)
    return with_hint(invalid("the seed \"{}\" of search is not a whole number", argument),
                     "write for instance search:7");
  return std::unique_ptr<Proposer>(std::make_unique<Search>(std::string(argument)));
}

}  // namespace ridge::propose
