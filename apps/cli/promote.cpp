// ridge promote: what a campaign won becomes part of the library's sources, checked and measured as the library builds
// it; --revert takes it back.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/promote.h"
#include "campaign_run.h"
#include "record/json.h"
#include "record/kernel_description.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct PromoteOptions {
  std::string campaign, into, key, name, revert, limit;
  bool commit = false, dry_run = false;
};

// The tree that is edited: the named one, that of this program, or where the user is.
fs::path tree_of(const PromoteOptions& options) {
  if (!options.into.empty()) return fs::absolute(options.into).lexically_normal();
  std::error_code ignored;
  const fs::path own = data_directory().parent_path();
  return fs::exists(own / "src/ops", ignored) ? own : fs::current_path();
}

// What this machine is, by the words of its worker.
struct Machine {
  std::map<std::string, std::string> facts;
  [[nodiscard]] std::string model() const {
    const auto found = facts.find("cpu.model");
    return found == facts.end() ? "cpu" : found->second;
  }
  [[nodiscard]] std::vector<std::string> features() const {
    const auto found = facts.find("cpu.features");
    return found == facts.end() ? std::vector<std::string>() : split(found->second, ' ');
  }
};

Result<Machine> this_machine() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  return Machine{response.environment.value_or(record::Environment{}).facts};
}

// As the library compiles a configuration (cmake/ridge_ops.cmake): without what only this machine has.
std::vector<std::string> library_flags(const std::string& instructions) {
  std::vector<std::string> flags;
#if defined(__x86_64__)
  flags = {"-march=x86-64"};
#endif
  const char* more = instructions == "avx512" ? RIDGE_AVX512_FLAGS : instructions == "avx2" ? RIDGE_AVX2_FLAGS : "";
  for (std::string& flag : split(more, ' ')) {
    if (!flag.empty()) flags.push_back(std::move(flag));
  }
  return flags;
}

record::WorkerRequest request_for(record::WorkerTask task, const campaign::State& state) {
  record::WorkerRequest request;
  request.task = task;
  request.cases = state.spec().target_cases;
  request.protocol.threads = state.spec().protocol.threads;
  return request;
}

// The operator's edge cases, as `ridge check` runs them.
Status check_configuration(const campaign::State& state, const record::Candidate& candidate) {
  record::WorkerRequest request = request_for(record::WorkerTask::kCheck, state);
  request.cases = {record::Case{candidate.op, {}}};
  request.candidates = {candidate};
  RIDGE_TRY(response, ask_worker(std::move(request)));
  std::int64_t passed = 0;
  for (const record::CheckReport& report : response.checks) {
    for (const record::CheckRow& row : report.rows) {
      if (row.outcome == record::Outcome::kNotClaimed || row.outcome == record::Outcome::kDeclined) continue;
      if (row.outcome != record::Outcome::kPass) {
        return with_hint(make_error(ErrorCode::kConflict, "{} is {} on {}: {}", candidate.name,
                                    record::name_of(row.outcome), row.label, row.detail),
                         "nothing was changed; `ridge check` with the kernel's source repeats it");
      }
      ++passed;
    }
  }
  if (passed == 0) return make_error(ErrorCode::kConflict, "{}: no check case is in its scope", candidate.name);
  if (!globals().quiet) say(stderr, "{}: {} check cases passed\n", candidate.name, passed);
  return ok_status();
}

// What dispatch runs today for a shape of the campaign.
struct Before {
  record::Explanation explanation;
  std::string subject;  // in a benchmark: an implementation, or a configuration of the same kernel as a candidate
};

Result<std::vector<Before>> choices_before(const campaign::State& state) {
  RIDGE_TRY(response, ask_worker(request_for(record::WorkerTask::kExplain, state)));
  std::vector<Before> all;
  for (record::Explanation& one : response.explanations) {
    if (!one.forced_by.empty()) {
      return with_hint(make_error(ErrorCode::kConflict, "{}: the choice is forced by {}", one.label, one.forced_by),
                       "unset it: a promotion is held against what the library chooses by itself");
    }
    all.push_back({one, one.choice});
  }
  return all;
}

// The kernel in the configuration of that name, built as the library builds it.
Result<record::Candidate> configured(const campaign::PromotionPlan& plan, const std::string& name) {
  record::Candidate candidate = plan.candidate;
  RIDGE_TRY(kernel, record::parse_kernel(candidate.sources.front().text));
  const record::KernelConfig* config = kernel->find(name);
  if (config == nullptr) return invalid("{} has no configuration {}", plan.promotion.implementation, name);
  candidate.name = plan.promotion.implementation + "/" + name;
  candidate.defines = config->values;
  candidate.flags = library_flags(config->instructions);
  return candidate;
}

// The configuration against what the library runs today on every shape of the campaign, in paired sessions.
Result<std::vector<record::PromotedShape>> measure(const PromoteOptions& options, const campaign::State& state,
                                                   const campaign::PromotionPlan& plan,
                                                   const std::vector<Before>& before) {
  RIDGE_TRY(own, configured(plan, plan.promotion.configuration));
  const std::string prefix = plan.promotion.implementation + "/";
  std::set<std::string> opponents;
  for (const Before& one : before) opponents.insert(one.subject);
  std::vector<record::PromotedShape> shapes(before.size());
  for (const std::string& opponent : opponents) {
    record::WorkerRequest request = request_for(record::WorkerTask::kBench, state);
    request.cases.clear();
    for (std::size_t i = 0; i < before.size(); ++i) {
      shapes[i].shape = state.spec().target_cases[i];
      if (before[i].subject == opponent) request.cases.push_back(shapes[i].shape);
    }
    if (opponent == own.name) continue;  // it is what runs already
    request.candidates = {own};
    request.versus = opponent;
    if (opponent.starts_with(prefix)) {
      RIDGE_TRY(other, configured(plan, opponent.substr(prefix.size())));
      request.candidates.push_back(std::move(other));
    } else {
      request.versus = opponent.substr(0, opponent.find('/'));
      request.implementations = {*request.versus};
    }
    if (!options.limit.empty()) {
      RIDGE_TRY(seconds, parse_duration(options.limit));
      request.time_limit = seconds * static_cast<double>(request.cases.size()) / static_cast<double>(before.size());
    }
    RIDGE_TRY(response, ask_worker(std::move(request)));
    for (const record::BenchRow& row : response.bench) {
      for (std::size_t i = 0; i < before.size() && row.subject == own.name; ++i) {
        if (before[i].subject != opponent || before[i].explanation.label != row.label) continue;
        if (!row.ratio) {
          return make_error(ErrorCode::kConflict, "{} against {} on {}: {}", own.name, opponent, row.label,
                            row.detail.empty() ? "not measured" : row.detail);
        }
        shapes[i].ratio = *row.ratio;
        shapes[i].low = row.ratio_low.value_or(*row.ratio);
        shapes[i].high = row.ratio_high.value_or(*row.ratio);
        shapes[i].latency = row.median;
        shapes[i].sessions = row.sessions;
        shapes[i].tuned = shapes[i].low > 1;
      }
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) shapes[i].over = before[i].subject;
  return shapes;
}

std::vector<record::TunedChoice> tuned_lines(const campaign::State& state, const campaign::PromotionPlan& plan,
                                             const std::vector<Before>& before) {
  std::vector<record::TunedChoice> lines;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const record::PromotedShape& shape = plan.promotion.shapes[i];
    if (!shape.tuned) continue;
    record::TunedChoice line;
    line.device = before[i].explanation.device;
    line.driver = before[i].explanation.driver;
    line.libraries = plan.version;
    line.bucket = before[i].explanation.bucket;
    line.implementation = plan.promotion.implementation;
    line.configuration = plan.promotion.configuration;
    line.over = shape.over;
    line.ratio = shape.ratio;
    line.latency = shape.latency;
    line.rounds = shape.sessions;
    line.threads = state.spec().protocol.threads;
    lines.push_back(std::move(line));
  }
  return lines;
}

void print(const record::Promotion& promotion) {
  std::vector<std::vector<std::string>> rows;
  for (const record::PromotedShape& one : promotion.shapes) {
    rows.push_back({one.shape.label(), one.over, fmt::format("{:.3f}x", one.ratio),
                    fmt::format("[{:.3f}, {:.3f}]", one.low, one.high), std::to_string(one.sessions),
                    one.tuned ? "yes" : "no: not faster than what runs there now"});
  }
  if (!rows.empty()) say("{}\n", table({"shape", "before", "speed", "95 % interval", "sessions", "tuned table"}, rows));
  say("{}", campaign::promotion_diff(promotion));
}

std::string commit_text(const record::Promotion& promotion) {
  return fmt::format("{}/{} is promoted by the campaign {}\n\n{}", promotion.implementation, promotion.configuration,
                     promotion.campaign, campaign::promotion_page(promotion));
}

Result<record::Promotion> promote_campaign(const PromoteOptions& options, const fs::path& tree, execute::Git& git) {
  RIDGE_TRY(state, campaign::promotable(options.campaign, options.key));
  RIDGE_TRY(machine, this_machine());
  RIDGE_CHECK_OK(campaign::check_device(state, machine.model()));
  SystemClock clock;
  RIDGE_TRY(plan, campaign::plan_promotion(
                      state, tree,
                      {options.name, record::most_instructions(machine.features()), format_minute(clock.unix_time())}));
  RIDGE_CHECK_OK(campaign::check_clean(plan.promotion, git));
  RIDGE_TRY(candidate, configured(plan, plan.promotion.configuration));
  RIDGE_CHECK_OK(check_configuration(state, candidate));
  RIDGE_TRY(before, choices_before(state));
  RIDGE_TRY(shapes, measure(options, state, plan, before));
  plan.promotion.shapes = std::move(shapes);
  RIDGE_CHECK_OK(campaign::add_tuned_lines(plan, tree, tuned_lines(state, plan, before)));
  RIDGE_CHECK_OK(campaign::add_changelog_line(plan, tree));
  RIDGE_CHECK_OK(campaign::check_clean(plan.promotion, git));
  if (!options.dry_run) RIDGE_CHECK_OK(campaign::apply_promotion(plan, tree));
  return plan.promotion;
}

// The id of the campaign in a folder, or the words as they are.
std::string promoted_name(const std::string& words) {
  std::error_code ignored;
  if (!fs::exists(fs::path(words) / campaign::kJournalFile, ignored)) return words;
  const Result<campaign::State> state = campaign::load_campaign(words);
  return state ? state->spec().id : words;
}

Result<std::string> committed(execute::Git& git, const record::Promotion& promotion, const std::string& message) {
  RIDGE_CHECK_OK(git.add(campaign::touched_files(promotion)));
  return git.commit(message);
}

int promote(const PromoteOptions& options) {
  if (options.campaign.empty() == options.revert.empty()) {
    return fail(with_hint(invalid("name the folder of one campaign, or what to --revert"),
                          "ridge promote campaigns/gemm_cpu_xeon_20260101"));
  }
  const fs::path tree = tree_of(options);
  const auto git = execute::make_git(tree);
  if (options.commit && !git->is_repository()) {
    return fail(with_hint(invalid("{} is no git repository", tree.string()), "leave out --commit"));
  }
  const Result<bool> recovered = campaign::recover_edits(tree, *git);
  if (!recovered) return fail(recovered.error());
  if (*recovered && !globals().quiet) say(stderr, "A promotion that was killed is taken back in {}.\n", tree.string());

  const bool back = !options.revert.empty();
  const auto promotion =
      back ? campaign::find_promotion(tree, promoted_name(options.revert)) : promote_campaign(options, tree, *git);
  if (!promotion) return fail(promotion.error());
  if (back && !options.dry_run) {
    if (const Status done = campaign::revert_promotion(*promotion, tree); !done) return fail(done.error());
  }
  std::string said =
      fmt::format("{}/{} of {}", promotion->implementation, promotion->configuration, promotion->campaign);
  said += back ? " is taken back" : " is promoted";
  if (options.dry_run) said += " (not really: --dry-run)";
  if (options.commit && !options.dry_run) {
    const auto commit = committed(*git, *promotion, back ? said + "\n" : commit_text(*promotion));
    if (!commit) return fail(commit.error());
    said += ", commit " + commit->substr(0, 12);
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(*promotion));
    return kSuccess;
  }
  if (!back) print(*promotion);
  return answer(said, fmt::format("cmake --build build, then: ridge check {} --impl {}", promotion->op,
                                  promotion->implementation));
}

}  // namespace

void define_promote(Command root) {
  auto options = std::make_shared<PromoteOptions>();
  root.subcommand("promote", "Make what a campaign won a configuration of the library's kernel, or take that back")
      .positional("campaign", options->campaign, "Folder of a campaign that has ended", false)
      .option("--into DIR", options->into,
              "Source tree of the library (default: that of this program, else this folder)")
      .option("--name NAME", options->name, "Of the new configuration (default: made of its values)")
      .option("--key FILE", options->key, "The public key that must have signed every line of the journal")
      .option("--time-limit TIME", options->limit, "For measuring all shapes against what the library runs now")
      .option("--revert CAMPAIGN", options->revert,
              "Take back what this campaign, or the configuration of that name, put in")
      .flag("--commit", options->commit, "Commit the edits")
      .flag("--dry-run", options->dry_run, "Check, measure and show the edits, and write nothing")
      .example("ridge promote campaigns/gemm_cpu_xeon_20260101",
               "checks, measures, edits the sources, shows what changed")
      .example("ridge promote campaigns/gemm_cpu_xeon_20260101 --name avx512_8x3 --commit", "the same as a commit")
      .example("ridge promote --revert gemm_cpu_xeon_20260101", "the tree is as it was, byte for byte")
      .exits({kUnavailable,
              kSystem,
              {kHeld, "the record, the kernel's source, the tree or this machine do not allow it"},
              kInterrupted})
      .json("the promotion: configuration, shapes with their measured gain, and every edit")
      .action([options] { return promote(*options); });
}

}  // namespace ridge::cli
