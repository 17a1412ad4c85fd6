#include "service/replay_campaign.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "base/coin.h"
#include "base/error.h"
#include "base/files.h"
#include "propose/proposer.h"
#include "record/backend.h"
#include "record/campaign.h"
#include "record/tunables.h"

namespace ridge::service {
namespace {

using Defines = std::map<std::string, std::int64_t>;

constexpr double kBound = 0.8;             // of the fastest recorded time
constexpr double kAccepted = 1.01;         // what the best look of a round must gain
constexpr std::int64_t kMostRounds = 200;  // a proposer that asks for nothing new would go on for ever

// The declared space with the recorded values only.
Result<record::TuneSpace> recorded_space(const record::TuningCache& cache, record::TuneSpace declared) {
  for (const record::SearchParameter& recorded : cache.parameters) {
    const auto found = std::ranges::find(declared.tunables, recorded.name, &record::Tunable::name);
    if (found == declared.tunables.end()) {
      return with_hint(invalid("the recording has a parameter {}, which the kernel does not declare", recorded.name),
                       "name the kernel that it is a recording of");
    }
    std::set<std::int64_t> values;
    for (const record::ParameterValue& value : recorded.values) values.insert(static_cast<std::int64_t>(value.number));
    std::erase_if(found->values, [&](std::int64_t value) { return !values.contains(value); });
    if (found->values.empty()) return invalid("{}: no recorded value is one that the kernel declares", recorded.name);
  }
  for (record::Tunable& tunable : declared.tunables) {
    const bool recorded = std::ranges::any_of(cache.parameters, [&](const auto& p) { return p.name == tunable.name; });
    if (!recorded) tunable.values = {tunable.default_value};
    if (!std::ranges::count(tunable.values, tunable.default_value)) tunable.default_value = tunable.values.front();
  }
  return declared;
}

class Campaign {
 public:
  Campaign(const record::TuningCache& cache, record::ProposalRequest request)
      : cache_(cache), request_(std::move(request)) {
    for (std::size_t i = 0; i < cache.rows.size(); ++i) row_of_[defines_of(cache.rows[i])] = i;
    for (const record::TuningRow& row : cache.rows) {
      if (!row.failed()) bound_ = std::min(bound_, kBound * row.time);
    }
  }

  Status run(propose::Proposer& proposer, std::uint64_t seed, std::size_t evaluations) {
    request_.incumbent.defines = start(seed);
    time_ = *look(request_.incumbent.defines);
    for (request_.round = 2; request_.round < kMostRounds && order_.size() < evaluations; ++request_.round) {
      record::RooflinePoint point;
      point.label = cache_.problem;
      point.fraction = bound_ / time_;
      request_.roofline = {point};
      RIDGE_TRY(proposal, proposer.propose(request_));
      if (proposal.exhausted) break;
      judge(proposal);
    }
    return ok_status();
  }
  [[nodiscard]] const std::vector<std::int64_t>& order() const { return order_; }

 private:
  [[nodiscard]] Defines defines_of(const record::TuningRow& row) const {
    Defines defines;
    for (std::size_t p = 0; p < cache_.parameters.size(); ++p) {
      defines[cache_.parameters[p].name] = static_cast<std::int64_t>(cache_.parameters[p].values[row.values[p]].number);
    }
    return defines;
  }
  // With the defaults of what is not stated; of the recorded parameters only.
  [[nodiscard]] Defines whole(const Defines& stated) const {
    Defines defines;
    for (const record::Tunable& tunable : request_.space.tunables) {
      const bool recorded =
          std::ranges::any_of(cache_.parameters, [&](const auto& p) { return p.name == tunable.name; });
      const auto found = stated.find(tunable.name);
      if (recorded) defines[tunable.name] = found == stated.end() ? tunable.default_value : found->second;
    }
    return defines;
  }

  // Drawn from those that run.
  [[nodiscard]] Defines start(std::uint64_t seed) const {
    Coin coin(seed);
    const auto drawn = [&] { return &cache_.rows[coin.below(cache_.rows.size())]; };
    const record::TuningRow* row = drawn();
    while (row->failed()) row = drawn();
    return defines_of(*row);
  }

  // Its recorded time; nothing when it failed or is not recorded, which is a failure that costs nothing.
  std::optional<double> look(const Defines& defines) {
    const auto found = row_of_.find(whole(defines));
    if (found == row_of_.end()) return std::nullopt;
    const auto number = static_cast<std::int64_t>(found->second);
    if (std::ranges::find(order_, number) == order_.end()) order_.push_back(number);
    const record::TuningRow& row = cache_.rows[found->second];
    return row.failed() ? std::nullopt : std::optional(row.time);
  }

  void judge(const record::Proposal& proposal) {
    record::RoundSummary round;
    round.round = request_.round;
    round.hypothesis = proposal.hypothesis;
    round.candidate = proposal.candidates.front();
    double fastest = std::numeric_limits<double>::infinity();
    for (const record::Candidate& candidate : proposal.candidates) {
      const std::optional<double> time = look(candidate.defines);
      record::ScreenRow row;
      row.candidate = candidate.id();
      row.defines = candidate.defines;
      row.outcome = time ? record::Outcome::kPass : record::Outcome::kCompile;
      if (time) row.score = bound_ / *time;
      round.sweep.push_back(std::move(row));
      if (!time || *time >= fastest) continue;
      fastest = *time;
      round.candidate = candidate;
    }
    round.suite_ratio = std::isfinite(fastest) ? time_ / fastest : 0;
    round.accepted = round.suite_ratio >= kAccepted;
    round.state = round.accepted ? record::RoundState::kAccepted : record::RoundState::kRolledBack;
    round.outcome = round.accepted ? record::Outcome::kPass : record::Outcome::kSlower;
    if (round.accepted) {
      request_.incumbent = round.candidate;
      time_ = fastest;
    }
    if (proposal.candidates.size() == 1) round.sweep.clear();
    request_.history.push_back(std::move(round));
  }

  const record::TuningCache& cache_;
  record::ProposalRequest request_;
  std::map<Defines, std::size_t> row_of_;
  double bound_ = std::numeric_limits<double>::infinity(), time_ = 0;
  std::vector<std::int64_t> order_;
};

}  // namespace

Result<ReplayedKernel> replayed_kernel(const std::string& path) {
  RIDGE_TRY(text, read_file(path));
  auto space = record::parse_tunables(text);
  if (!space) return in_context(path, space.error());
  if (space->tunables.empty()) return invalid("{} declares no tunables", path);
  return ReplayedKernel{path, std::move(text), std::move(*space)};
}

Result<record::TuningRun> replay_campaign(const record::TuningCache& cache, const ReplayedKernel& kernel,
                                          std::int64_t seed, std::size_t evaluations) {
  record::ProposalRequest request;
  RIDGE_TRY(space, recorded_space(cache, kernel.space));
  request.space = std::move(space);
  if (!cache.problem.empty()) {
    RIDGE_TRY(problem, record::parse_case(cache.problem));
    request.spec.op = request.incumbent.op = problem.op;
    request.spec.target_cases = {std::move(problem)};
  }
  const bool gpu = std::filesystem::path(kernel.path).extension() == ".cu";
  request.spec.backend = record::info_of(gpu ? Backend::kCuda : Backend::kCpu).name;
  request.incumbent.sources = {{kernel.path, kernel.text}};
  RIDGE_TRY(proposer, propose::make_proposer(fmt::format("search:{}", seed)));
  Campaign campaign(cache, std::move(request));
  RIDGE_CHECK_OK(campaign.run(*proposer, static_cast<std::uint64_t>(seed), evaluations));
  return record::TuningRun{"", "campaign", seed, campaign.order()};
}

}  // namespace ridge::service
