// The proposer that needs no language model: it reads the declared space, the evidence and the history, and picks the
// open direction with the largest predicted gain. When no direction is left it sweeps all parameters together, then the
// neighbours of the best configuration, then says that it is exhausted. The same request always gets the same answer.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/hash.h"
#include "propose/direction.h"
#include "propose/proposers.h"
#include "record/json.h"

namespace ridge::propose {
namespace {

using record::Candidate;
using record::Hypothesis;
using record::Proposal;
using record::ProposalRequest;

constexpr const char *kJoint = "joint sweep", *kNeighbours = "neighbours";
constexpr std::size_t kSweepMost = 20, kSweepLeast = 6;
constexpr double kShareOfBudget = 0.12;   // of the time left, for one sweep
constexpr double kSecondsPerLook = 0.5;   // verified calls of one configuration
constexpr double kSecondsPerBuild = 0.8;  // when the incumbent's build time is unknown

// Everything one decision looks at.
struct View {
  const ProposalRequest& request;
  const Space& space;
  Machine machine;
  Standing standing;
  Past past;
};

double count_of(const ProposalRequest& request, const std::string& name) {
  const auto found = request.build.counts.find(name);
  return found == request.build.counts.end() ? -1 : found->second;
}

// How many configurations one sweep may hold: what the time left allows.
std::size_t sweep_size(const View& view) {
  if (view.request.seconds_left <= 0) return kSweepMost;
  const record::BuildEvidence& build = view.request.build;
  const double per_build = !build.cached && build.wall > 0 ? build.wall : kSecondsPerBuild;
  const double affordable = kShareOfBudget * view.request.seconds_left / (per_build + kSecondsPerLook);
  return std::clamp(static_cast<std::size_t>(std::max(0.0, affordable)), kSweepLeast, kSweepMost);
}

// Out of `ranked` (best first): the model's favourites, neighbours of the incumbent, and some at random, so that a
// wrong model costs a part of the sweep only.
std::vector<Config> choose(const View& view, std::vector<Config> ranked, std::size_t size, Random& random) {
  std::vector<Config> chosen;
  const auto take = [&](std::size_t index) {
    chosen.push_back(ranked[index]);
    ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(index));
  };
  const std::size_t favourites = size - size / 4, near = favourites + size / 8;
  while (!ranked.empty() && chosen.size() < favourites) take(0);
  for (std::size_t i = 0; i < ranked.size() && chosen.size() < near;) {
    difference(view.standing.config, ranked[i]).size() == 1 ? take(i) : void(++i);
  }
  while (!ranked.empty() && chosen.size() < size) take(random.below(ranked.size()));
  return chosen;
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

// ---- The three kinds of round ---------------------------------------------------------------------------------------

Proposal follow(const View& view, const Direction& direction, const std::vector<Direction>& open, Random& random) {
  const std::vector<Config> configs = choose(view, direction.configs, sweep_size(view), random);
  const bool sweep = configs.size() > 1;
  Hypothesis h = frame(view, direction.mechanism, direction.category);
  const Config change = difference(view.standing.config, direction.configs[0]);
  h.title = sweep ? fmt::format("{}{}: {} values of {}", direction.retune ? "again " : "", direction.title,
                                configs.size(), fmt::join(direction.names, ", "))
                  : fmt::format("{}: {}", direction.title, to_text(change));
  h.bottleneck = bottleneck_of(view, direction.role);
  h.expected_gain = direction.prediction.gain;
  h.expected_gain_arithmetic = direction.prediction.arithmetic;
  h.reasoning = standing_text(view) +
                fmt::format("Of {} open directions this promises most: {}. ", open.size(), direction.effect) +
                fmt::format("The model's favourite is {}, whose issue limit is {} ({}).", to_text(change),
                            percent(direction.prediction.issue.fraction), direction.prediction.issue.limit);
  if (sweep && direction.configs.size() > configs.size()) {
    h.reasoning +=
        fmt::format(" {} of {} unseen values are looked at: the model's favourites, neighbours and some at random.",
                    configs.size(), direction.configs.size());
  }
  h.reasoning += profile_text(view) + lesson_text(view);
  h.risks = risks_of(direction.role);
  h.verification_signal = signal_of(view, direction.role, h.expected_gain);
  return make_proposal(view, std::move(h), configs);
}

std::vector<std::string> parameters(const View& view) {
  std::vector<std::string> names;
  for (const record::Tunable& tunable : view.space.declared().tunables) {
    if (tunable.kind == "parameter" && view.space.active(tunable, view.standing.config)) names.push_back(tunable.name);
  }
  return names;
}

void keep_unseen(const View& view, std::vector<Config>& configs) {
  std::erase_if(configs, [&](const Config& config) {
    return view.past.seen.contains(config) || is_refuted(view, config) ||
           !fits_machine(view.space, config, view.machine);
  });
  rank(view.space, view.machine, configs);
}

// All parameters at once: mostly two steps away from the incumbent, where single steps were judged one by one before.
std::vector<Config> joint_configs(const View& view, Random& random) {
  const std::vector<std::string> names = parameters(view);
  if (names.size() < 2) return {};
  std::set<Config> found;
  for (int i = 0; i < 400; ++i) {
    const std::size_t first = random.below(names.size());
    const std::size_t second = (first + 1 + random.below(names.size() - 1)) % names.size();
    found.insert(view.space.sample(view.standing.config, {names[first], names[second]}, random));
  }
  std::vector<Config> configs(found.begin(), found.end());
  keep_unseen(view, configs);
  return configs;
}

std::optional<Proposal> sweep_jointly(const View& view, Random& random) {
  if (view.past.spent(kJoint)) return std::nullopt;
  const std::vector<Config> all = joint_configs(view, random);
  if (all.size() < 2) return std::nullopt;  // one of them alone would be two changes at once
  const std::vector<Config> configs = choose(view, all, sweep_size(view), random);
  Hypothesis h = frame(view, kJoint, "tile");
  h.title = fmt::format("joint sweep: {} configurations two parameters away", configs.size());
  h.bottleneck = view.standing.memory_time * view.standing.fraction > 0.1 ? "memory" : "compute";
  h.expected_gain = 0.02;
  h.expected_gain_arithmetic = "parameters were tuned one family at a time; a pair of them typically hides 1 to 3 %";
  h.reasoning =
      standing_text(view) +
      "Every single direction has been tried, so what is left are pairs of parameters that help only together." +
      lesson_text(view);
  h.risks = {"the best of many looks is partly luck: the confirmation decides"};
  h.verification_signal = "suite ratio above 1.010 in the confirmation, not only in the look";
  return make_proposal(view, std::move(h), configs);
}

std::optional<Proposal> step_aside(const View& view, Random& random) {
  const std::string mechanism = fmt::format("{} of {}", kNeighbours, view.request.incumbent.short_id());
  if (view.past.spent(mechanism)) return std::nullopt;
  std::vector<Config> all = view.space.neighbours(view.standing.config);
  keep_unseen(view, all);
  if (all.empty()) return std::nullopt;
  const std::vector<Config> configs = choose(view, all, sweep_size(view), random);
  Hypothesis h = frame(view, mechanism, "tile");
  h.title = fmt::format("neighbours of the best: {} of {} that were never looked at", configs.size(), all.size());
  h.bottleneck = view.standing.memory_time * view.standing.fraction > 0.1 ? "memory" : "compute";
  h.expected_gain = 0.01;
  h.expected_gain_arithmetic = "a local optimum gains nothing; 1 % is the least that can be verified";
  h.reasoning =
      standing_text(view) +
      "All directions and the joint sweep are spent. If no single step from here helps, this is a local optimum." +
      lesson_text(view);
  h.risks = {"the best of many looks is partly luck: the confirmation decides"};
  h.verification_signal = "suite ratio above 1.010 in the confirmation";
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

// Two rollbacks in a row: what their categories promise counts half, so that the search looks elsewhere. So does what a
// direction promises that works on another limit than the profiler saw.
double score(const View& view, const Direction& direction) {
  const bool penalised =
      view.past.consecutive_rollbacks >= 2 && view.past.recent_categories.contains(direction.category);
  return direction.prediction.gain * (penalised ? 0.5 : 1.0) * (off_the_limit(view, direction) ? 0.5 : 1.0);
}

// Asked again within a round: what this proposed first did not build or was wrong, so the next best of the same
// direction comes forward. A direction with nothing else is over.
void drop_favourite(const View& view, std::vector<Direction>& open) {
  const auto best =
      std::ranges::max_element(open, {}, [&](const Direction& direction) { return score(view, direction); });
  if (best == open.end()) return;
  best->configs.erase(best->configs.begin());
  if (best->configs.empty()) open.erase(best);
}

class Search final : public Proposer {
 public:
  explicit Search(std::string seed) : seed_(std::move(seed)) {}

  [[nodiscard]] std::string name() const override { return seed_.empty() ? "search" : "search:" + seed_; }

  Result<Proposal> propose(const ProposalRequest& request) override {
    RIDGE_TRY(space, Space::create(request.space));
    View view{request, space, describe_machine(request), {}, {}};
    view.standing = where_it_stands(space, view.machine, request);
    view.past = digest_history(space, request);
    Random random(seed_of(request));
    std::vector<Direction> open = open_directions(space, view.machine, view.standing, view.past);
    for (Direction& direction : open)
      std::erase_if(direction.configs, [&](const Config& config) { return is_refuted(view, config); });
    std::erase_if(open, [](const Direction& direction) { return direction.configs.empty(); });
    if (!request.last_error.empty()) drop_favourite(view, open);
    if (!open.empty()) {
      const auto best =
          std::ranges::max_element(open, {}, [&](const Direction& direction) { return score(view, direction); });
      return follow(view, *best, open, random);
    }
    if (auto proposal = sweep_jointly(view, random)) return *std::move(proposal);
    if (auto proposal = step_aside(view, random)) return *std::move(proposal);
    return exhausted(view);
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
};

}  // namespace

Result<std::unique_ptr<Proposer>> make_search(std::string_view argument, const ProposerOptions&) {
  if (argument.find_first_not_of("0123456789") != std::string_view::npos)
    return with_hint(invalid("the seed \"{}\" of search is not a whole number", argument),
                     "write for instance search:7");
  return std::unique_ptr<Proposer>(std::make_unique<Search>(std::string(argument)));
}

}  // namespace ridge::propose
