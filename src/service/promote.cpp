#include "service/promote.h"

#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/promote_proof.h"
#include "execute/git.h"
#include "execute/tree_build.h"
#include "record/backend.h"
#include "service/campaigns.h"
#include "service/duration.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// The tree that is edited: the named one, that of this program, or where the user is.
fs::path tree_of(const Context& context, const PromoteRequest& options) {
  if (!options.into.empty()) return fs::absolute(options.into).lexically_normal();
  std::error_code ignored;
  const fs::path own = context.data_directory.parent_path();
  return fs::exists(own / "src/ops", ignored) ? own : fs::current_path();
}

std::string commit_text(const record::Promotion& promotion) {
  return fmt::format("{}/{} is promoted by the campaign {}\n\n{}", promotion.implementation, promotion.configuration,
                     promotion.campaign, campaign::promotion_page(promotion));
}

std::function<void(const std::string&)> notes_of(const Context& context) {
  return [&context](const std::string& line) { context.note(line); };
}

// One line of a long command in place of the other.
execute::TreeCommand shown_as(const Context& context, const std::string& stage) {
  return {[&context, stage](std::string_view text) {
            record::Progress progress;
            progress.stage = stage;
            progress.detail = text;
            context.progress(progress);
          },
          [&context] { return context.stopped(); }};
}

// Registers and spills of every variant of the new configuration, or, of a changed source, of all of the kernel.
Status check_builds_of(const Context& context, const fs::path& tree, const record::Promotion& promotion) {
  if (record::runs_on_host(promotion.backend)) return ok_status();
  const fs::path kernel = fs::path(promotion.kernel).lexically_relative("src/ops").replace_extension();
  const std::string names =
      fmt::format("{}:{}", kernel.generic_string(), promotion.new_source ? "" : promotion.configuration + "/");
  const Status checked = execute::check_kernel_builds(tree, names, shown_as(context, "registers and spills"));
  context.settled();
  if (checked || checked.error().code != ErrorCode::kUnsupported) {
    if (checked)
      context.note(fmt::format("tools/check_kernels.py {}: no spills, no more registers than allowed", names));
    return checked ? checked : with_hint(checked.error(), "every edit is put back");
  }
  context.note(fmt::format("Not checked: registers and spills of its other variants ({})", checked.error().message));
  return ok_status();
}

// The tree as it became, built and asked by its own worker.
Status build_and_check(const Context& context, const fs::path& tree, const fs::path& build,
                       const campaign::PromotionPlan& plan) {
  const auto targets = {"ridge", "ridge-worker", "ridge_kernel_builds"};
  const Status built = execute::build_targets(build, {targets.begin(), targets.end()}, shown_as(context, "building"));
  context.settled();
  if (!built) return with_hint(built.error(), "every edit is put back");
  RIDGE_CHECK_OK(campaign::check_built(plan, {ask_worker_in(context, build / "bin"), {}, notes_of(context)}));
  return check_builds_of(context, tree, plan.promotion);
}

// What is to be done after the edits, in the tree's build folder; nothing where there is none or none is wanted.
Result<std::function<Status()>> after_edits(const Context& context, const PromoteRequest& options, const fs::path& tree,
                                            const campaign::PromotionPlan& plan) {
  const Result<fs::path> build =
      options.no_build ? make_error(ErrorCode::kNotFound, "--no-build") : execute::configured_build(tree);
  if (build)
    return std::function<Status()>(
        [&context, &plan, tree, build = *build] { return build_and_check(context, tree, build, plan); });
  if (plan.promotion.new_source && !record::runs_on_host(plan.promotion.backend)) {
    return with_hint(make_error(ErrorCode::kConflict,
                                "the campaign changed {}, of which {} operators are made: only a "
                                "build of the tree can check them, and {}",
                                plan.promotion.kernel, plan.ops.size(), build.error().message),
                     "configure the tree with scripts/build, and promote without --no-build");
  }
  context.note(fmt::format(
      "Not built: {}. What was checked and measured is the kernel as a candidate, compiled like the library's.",
      build.error().message));
  return std::function<Status()>();
}

struct Edited {
  record::Promotion promotion;
  bool built = false;  // the tree's build has it, and was asked
};

Result<Edited> promote_campaign(const Context& context, const PromoteRequest& options, const fs::path& tree,
                                execute::Git& git) {
  campaign::ProofOptions proof;
  proof.names.configuration = options.name;
  proof.names.date = format_minute(SystemClock().unix_time());
  proof.elsewhere = options.dry_run;
  if (!options.limit.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.limit));
    proof.seconds = seconds;
  }
  const campaign::ProofTools tools{
      [&](record::WorkerRequest request) { return ask_worker(context, std::move(request)); }, context.library_flags,
      notes_of(context)};
  RIDGE_TRY(plan, campaign::prove_promotion(options.campaign, options.key, tree, git, proof, tools));
  if (options.dry_run) return Edited{std::move(plan.promotion)};
  RIDGE_TRY(after, after_edits(context, options, tree, plan));
  RIDGE_CHECK_OK(campaign::apply_promotion(plan, tree, {}, after));
  return Edited{std::move(plan.promotion), static_cast<bool>(after)};
}

// The id of the campaign in a folder, or the words as they are.
std::string promoted_name(const std::string& words) {
  if (!is_campaign(words)) return words;
  const Result<campaign::State> state = campaign::load_campaign(words);
  return state ? state->spec().id : words;
}

Result<std::string> committed(execute::Git& git, const record::Promotion& promotion, const std::string& message) {
  return git.commit(message, campaign::touched_files(promotion));
}

// Nothing to begin with: no second process edits the tree, and what a killed one left is taken back.
Status prepare_tree(const Context& context, const PromoteRequest& options, const fs::path& tree, execute::Git& git) {
  if (options.dry_run && campaign::has_unfinished_edits(tree)) {
    return with_hint(make_error(ErrorCode::kConflict, "{} has edits of a promotion that was killed", tree.string()),
                     "the next ridge promote without --dry-run takes them back");
  }
  RIDGE_TRY(recovered, campaign::recover_edits(tree, git));
  if (recovered) context.note(fmt::format("A promotion that was killed is taken back in {}.", tree.string()));
  return ok_status();
}

Result<Edited> take_back(const PromoteRequest& options, const fs::path& tree) {
  RIDGE_TRY(found, campaign::find_promotion(tree, promoted_name(options.revert)));
  if (!options.dry_run) RIDGE_CHECK_OK(campaign::revert_promotion(found, tree));
  return Edited{std::move(found)};
}

}  // namespace

Result<Promoted> promote(const Context& context, const PromoteRequest& options) {
  if (options.campaign.empty() == options.revert.empty()) {
    return with_hint(invalid("name the folder of one campaign, or what to --revert"),
                     "ridge promote campaigns/gemm_cpu_xeon_20260101");
  }
  const fs::path tree = tree_of(context, options);
  const auto git = execute::make_git(tree);
  if (options.commit && !git->is_repository())
    return with_hint(invalid("{} is no git repository", tree.string()), "leave out --commit");
  const auto lock = campaign::TreeLock::acquire(tree);
  if (!lock) return lock.error();
  RIDGE_CHECK_OK(prepare_tree(context, options, tree, *git));
  const bool back = !options.revert.empty();
  RIDGE_TRY(done, back ? take_back(options, tree) : promote_campaign(context, options, tree, *git));
  Promoted promoted{std::move(done.promotion), {}, {}, done.built};
  const record::Promotion& promotion = promoted.promotion;
  const std::string name = promotion.implementation + "/" + promotion.configuration;
  promoted.said = fmt::format("{} of {} is {}", name, promotion.campaign, back ? "taken back" : "promoted");
  if (options.dry_run) promoted.said += " (not really: --dry-run)";
  if (options.commit && !options.dry_run) {
    RIDGE_TRY(commit, committed(*git, promotion, back ? promoted.said + "\n" : commit_text(promotion)));
    promoted.said += ", commit " + commit.substr(0, 12);
  }
  if (!options.dry_run) {
    promoted.next =
        fmt::format("{}ridge check {} --impl {}", promoted.built ? "" : "cmake --build build, then: ", promotion.op,
                    back ? promotion.implementation : name);
  }
  return promoted;
}

}  // namespace ridge::service
