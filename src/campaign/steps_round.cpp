// Steps of one round, each with an intent, an effect and a record. Doing any of them again after a crash is harmless.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "campaign/advice.h"
#include "campaign/campaign.h"
#include "campaign/context.h"
#include "campaign/decide.h"
#include "campaign/escalate.h"
#include "campaign/iterations.h"
#include "campaign/level.h"
#include "campaign/manifest.h"
#include "campaign/proposal_rules.h"
#include "campaign/render.h"
#include "campaign/sweep.h"
#include "campaign/versions.h"
#include "record/json.h"
#include "record/tunables.h"

namespace ridge::campaign {
namespace {

using record::EventKind;
using record::Outcome;
using record::WorkerRequest;
using record::WorkerResponse;
using record::WorkerTask;

std::string shorten(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most) + " ...";
}

std::string failure_text(const record::Evaluation& evaluation) {
  std::string text =
      fmt::format("the candidate failed: {}: {}", record::name_of(evaluation.outcome), evaluation.detail);
  if (evaluation.outcome == Outcome::kCompile && !evaluation.build.log.empty()) {
    text += "\n" + shorten(evaluation.build.log, 4000);
  }
  return text;
}

}  // namespace

record::ProposalRequest proposal_request(const State& state) {
  record::ProposalRequest request;
  const Round* round = state.open_round();
  request.round = round != nullptr ? round->number : state.next_round();
  request.spec = manifest_of(state);
  request.constraints = constraints_of(request.spec);
  request.incumbent = state.incumbent.candidate;
  if (Result<record::TuneSpace> space = record::tune_space(state.incumbent.candidate)) request.space = *space;
  request.build = state.incumbent.build;
  request.space.constraints.insert(request.space.constraints.end(), request.build.needs.begin(),
                                   request.build.needs.end());
  request.roofline = state.incumbent.roofline;
  request.ceilings = state.prepared->ceilings;
  request.history = history(state);
  request.environment = state.prepared->environment;
  request.tips = state.tips->tips;
  if (const record::Escalated* evidence = escalation_of(state, request.round)) {
    request.findings = evidence->findings;
    request.directions = evidence->directions;
  }
  if (state.max_iterations) request.rounds_left = *state.max_iterations - state.rounds_closed();
  if (round != nullptr && round->last().evaluated)
    request.last_error = failure_text(round->last().evaluated->evaluation);
  else if (!state.refused.empty())
    request.last_error = state.refused.back().refused;
  return request;
}

record::ProposalRequest Engine::request_of_round() const {
  return campaign::proposal_request(state_,
                                    {memory_, advised(kMostAdvice), profile_, seconds_left(state_, termination_input()),
                                     earlier_.value_or(std::vector<record::EarlierLooks>())});
}

Status Engine::propose() {
  if (!earlier_ && options_.earlier) earlier_ = options_.earlier(state_);
  const record::ProposalRequest request = request_of_round();
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/propose", request.round), "ask the proposer for one hypothesis"));
  const double started = services_.clock.monotonic();
  Result<record::Proposal> answer = services_.proposer.propose(request);
  record::Proposed proposed;
  proposed.round = request.round;
  proposed.proposer = services_.proposer.name();
  proposed.context = sha256(record::to_line(request));
  proposed.seconds = services_.clock.monotonic() - started;
  if (answer) {
    proposed.refused = refuse(*answer, state_);
    proposed.proposal = std::move(*answer);
  } else {
    proposed.refused = "the proposer failed: " + answer.error().text();
  }
  RIDGE_TRY(foreign, journal_.cut_foreign_bytes());
  if (foreign > 0) {
    proposed.refused = fmt::format(
        "the proposer wrote {} bytes into the journal; they do not count, and neither does its answer", foreign);
  }
  // A parent is a fact, not a claim.
  for (record::Candidate& candidate : proposed.proposal.candidates) candidate.parent = state_.incumbent.candidate.id();
  RIDGE_CHECK_OK(record(EventKind::kProposed, record::to_json(proposed)));
  if (!store_ || !state_.spec().extra.contains(kWorkspaceKey)) return ok_status();
  return write_plan(state_, *store_, memory_root(state_, options_.directory));
}

Status Engine::screen() {
  const Round& round = *state_.open_round();
  const record::Proposal& proposal = round.last().proposal;
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/screen", round.number), "look at every configuration of the sweep"));
  WorkerRequest request = this->request(WorkerTask::kScreen);
  request.candidates = proposal.candidates;
  request.incumbent = round.incumbent;
  if (request.time_limit > 0) request.time_limit = std::max(request.time_limit / 2, kShortestRequest);
  const double started = journal_.active();
  Result<WorkerResponse> response = work(request);
  if (!response && interrupted_) return response.error();
  record::Screened screened;
  screened.round = round.number;
  screened.seconds = journal_.active() - started;
  if (response) {
    screened.rows = std::move(response->screen);
    screened.incumbent = take_incumbent(screened.rows, round.incumbent.id(), proposal);
    screened.cpu_seconds = response->cpu_seconds;
  }
  screened.chosen = worth_measuring(screened, proposal, round.incumbent.id());
  if (!response) {
    record::ScreenRow fault;
    fault.outcome = Outcome::kHarnessFault;
    fault.detail = response.error().text();
    screened.rows = {fault};
  }
  return record(EventKind::kScreened, record::to_json(screened));
}

Status Engine::evaluate() {
  const Round& round = *state_.open_round();
  const record::Candidate candidate = *round.last().candidate();
  const std::string level = quick_pays(state_) && !round.last().evaluated ? "quick" : "full";
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/evaluate-{}-{}", round.number, round.attempts.size(), level),
                        "build, check and measure the candidate against the incumbent"));
  const Tree wanted = tree_of(candidate);
  RIDGE_CHECK_OK(write_tree(worktree(), wanted, tree_of(round.incumbent)));
  RIDGE_TRY(on_disk, read_tree(worktree(), wanted));
  WorkerRequest request = this->request(WorkerTask::kEvaluate);
  request.cases = cases_of_level(state_, level);
  request.incumbent = round.incumbent;
  request.candidates = {candidate};
  request.calibration = state_.calibration;
  const double started = journal_.active();
  Result<WorkerResponse> response = work(request);
  if (!response && interrupted_) return response.error();
  record::Evaluated evaluated;
  evaluated.round = round.number;
  evaluated.level = level;
  evaluated.candidate = candidate;
  evaluated.tree = tree_digest(on_disk);
  evaluated.seconds = journal_.active() - started;
  if (response) evaluated.cpu_seconds = response->cpu_seconds;
  if (response && response->evaluation) {
    evaluated.evaluation = std::move(*response->evaluation);
  } else {
    evaluated.evaluation = harness_fault(candidate.id(), round.incumbent.id(),
                                         response ? "the worker sent no evaluation" : response.error().text());
  }
  RIDGE_CHECK_OK(rebuild(evaluated));
  return record(EventKind::kEvaluated, record::to_json(evaluated));
}

// Both arms once more, for a candidate that every gate but this one accepts: from the sources that the journal holds,
// in a private folder, past the cache. What comes out is recorded beside what was measured; a gate compares.
Status Engine::rebuild(record::Evaluated& evaluated) {
  if (!needs_rebuild(state_, evaluated)) return ok_status();
  WorkerRequest request = this->request(WorkerTask::kBuild);
  request.candidates = {evaluated.candidate, state_.open_round()->incumbent};
  request.fresh_build = true;
  const double started = journal_.active();
  const Result<WorkerResponse> response = work(request);
  if (!response && interrupted_) return response.error();
  record::Rebuild rebuilt;
  rebuilt.wall = journal_.active() - started;
  if (!response || response->builds.size() != 2) {
    rebuilt.error = response ? "the worker sent no builds" : response.error().text();
  } else {
    rebuilt.candidate = response->builds[0].artifact;
    rebuilt.incumbent = response->builds[1].artifact;
    for (const record::BuildEvidence& build : response->builds) {
      if (build.artifact.empty() && rebuilt.error.empty()) rebuilt.error = shorten(build.log, 400);
    }
  }
  evaluated.evaluation.rebuild = std::move(rebuilt);
  return ok_status();
}

// Ends a round that cannot be measured any more; it is decided (and rolled back) like any other.
Status Engine::abandon(const std::string& why) {
  const Round& round = *state_.open_round();
  if (round.last().evaluated) return decide_round();  // only a repair was due
  const record::Candidate* chosen = round.last().candidate();
  record::Evaluated evaluated;
  evaluated.round = round.number;
  evaluated.candidate = chosen != nullptr ? *chosen : round.last().proposal.candidates.front();
  evaluated.evaluation = harness_fault(evaluated.candidate.id(), round.incumbent.id(), why);
  return record(EventKind::kEvaluated, record::to_json(evaluated));
}

Status Engine::decide_round() { return record(EventKind::kDecided, record::to_json(decide(state_))); }

Status Engine::commit() {
  const Round* round = state_.open_round();
  const bool first = !state_.baseline_committed;
  const record::Candidate& candidate = first ? state_.baseline->candidate : round->last().evaluated->candidate;
  record::Committed committed;
  committed.round = first ? 1 : round->number;
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/commit", committed.round), "store the snapshot and commit it"));
  const Tree tree = tree_of(candidate);
  const Tree before = first ? Tree{} : tree_of(round->incumbent);
  RIDGE_TRY(snapshot, snapshots().put(tree));
  committed.snapshot = snapshot;
  RIDGE_CHECK_OK(write_tree(worktree(), tree, before));
  if (state_.spec().git_commit) {
    CommitText text;
    text.op = state_.spec().op;
    text.backend = state_.spec().backend;
    text.round = committed.round;
    text.summary = first ? std::string("baseline") : round->last().proposal.hypothesis.title;
    text.hypothesis =
        first ? std::string("none, this is the kernel to beat") : round->last().proposal.hypothesis.reasoning;
    text.result = first ? std::string("BASELINE") : round->decision->reason;
    text.details = "logs/optimize.md, round-" + std::to_string(committed.round);
    RIDGE_TRY(commit, commit_tree(*services_.git, tree, before, commit_message(text)));
    committed.commit = commit;
  }
  RIDGE_CHECK_OK(record(EventKind::kCommitted, record::to_json(committed)));
  RIDGE_CHECK_OK(write_tips());
  return render_files();
}

Status Engine::roll_back() {
  const Round& round = *state_.open_round();
  RIDGE_CHECK_OK(intend(fmt::format("round-{}/rollback", round.number), "restore the last accepted snapshot"));
  Tree present;
  for (const Attempt& attempt : round.attempts) {
    if (attempt.candidate() != nullptr) present.merge(tree_of(*attempt.candidate()));
  }
  // What was tried is kept, for people; what is restored is verified against its digest.
  if (const record::Candidate* candidate = round.last().candidate()) {
    RIDGE_CHECK_OK(snapshots().put(tree_of(*candidate)));
  }
  RIDGE_TRY(accepted, snapshots().get(state_.incumbent.snapshot));
  RIDGE_CHECK_OK(write_tree(worktree(), accepted, present));
  const record::RolledBack rolled_back{round.number, state_.incumbent.snapshot};
  RIDGE_CHECK_OK(record(EventKind::kRolledBack, record::to_json(rolled_back)));
  RIDGE_CHECK_OK(write_tips());
  return render_files();
}

}  // namespace ridge::campaign
