// ridge promote: what a campaign won becomes part of the library's sources, checked and measured as the library builds
// it; --revert takes it back.
#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/promote_proof.h"
#include "campaign_run.h"
#include "execute/tree_build.h"
#include "record/backend.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct PromoteOptions {
  std::string campaign, into, key, name, revert, limit;
  bool commit = false, dry_run = false, no_build = false;
};

// The tree that is edited: the named one, that of this program, or where the user is.
fs::path tree_of(const PromoteOptions& options) {
  if (!options.into.empty()) return fs::absolute(options.into).lexically_normal();
  std::error_code ignored;
  const fs::path own = data_directory().parent_path();
  return fs::exists(own / "src/ops", ignored) ? own : fs::current_path();
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

void print(const record::Promotion& promotion) {
  std::vector<std::vector<std::string>> rows;
  for (const record::PromotedShape& one : promotion.shapes) {
    rows.push_back({one.shape.label(), one.over, fmt::format("{:.3f}x", one.ratio),
                    fmt::format("[{:.3f}, {:.3f}]", one.low, one.high), std::to_string(one.sessions),
                    campaign::tuned_text(promotion, one)});
  }
  if (!rows.empty()) say("{}\n", table({"shape", "before", "speed", "95 % interval", "sessions", "tuned table"}, rows));
  say("{}", campaign::promotion_diff(promotion));
}

std::string commit_text(const record::Promotion& promotion) {
  return fmt::format("{}/{} is promoted by the campaign {}\n\n{}", promotion.implementation, promotion.configuration,
                     promotion.campaign, campaign::promotion_page(promotion));
}

void note(const std::string& line) {
  if (!globals().quiet) say(stderr, "{}\n", line);
}

// One line of a long command in place of the other.
execute::TreeCommand shown_as(ProgressLine& line, const std::string& stage) {
  return {[&line, stage](std::string_view text) {
            record::Progress progress;
            progress.stage = stage;
            progress.detail = text;
            line.show(progress);
          },
          [] { return interruptions() > 0; }};
}

// Registers and spills of every variant of the new configuration, or, of a changed source, of all of the kernel.
Status check_builds_of(const fs::path& tree, const record::Promotion& promotion, ProgressLine& line) {
  if (record::runs_on_host(promotion.backend)) return ok_status();
  const fs::path kernel = fs::path(promotion.kernel).lexically_relative("src/ops").replace_extension();
  const std::string names =
      fmt::format("{}:{}", kernel.generic_string(), promotion.new_source ? "" : promotion.configuration + "/");
  const Status checked = execute::check_kernel_builds(tree, names, shown_as(line, "registers and spills"));
  line.clear();
  if (checked || checked.error().code != ErrorCode::kUnsupported) {
    if (checked) note(fmt::format("tools/check_kernels.py {}: no spills, no more registers than allowed", names));
    return checked ? checked : with_hint(checked.error(), "every edit is put back");
  }
  note(fmt::format("Not checked: registers and spills of its other variants ({})", checked.error().message));
  return ok_status();
}

// The tree as it became, built and asked by its own worker.
Status build_and_check(const fs::path& tree, const fs::path& build, const campaign::PromotionPlan& plan) {
  ProgressLine line;
  const auto targets = {"ridge", "ridge-worker", "ridge_kernel_builds"};
  const Status built = execute::build_targets(build, {targets.begin(), targets.end()}, shown_as(line, "building"));
  line.clear();
  if (!built) return with_hint(built.error(), "every edit is put back");
  RIDGE_CHECK_OK(campaign::check_built(plan, {ask_worker_in(build / "bin"), {}, note}));
  return check_builds_of(tree, plan.promotion, line);
}

// What is to be done after the edits, in the tree's build folder; nothing where there is none or none is wanted.
Result<std::function<Status()>> after_edits(const PromoteOptions& options, const fs::path& tree,
                                            const campaign::PromotionPlan& plan) {
  const Result<fs::path> build =
      options.no_build ? make_error(ErrorCode::kNotFound, "--no-build") : execute::configured_build(tree);
  if (build)
    return std::function<Status()>([&plan, tree, build = *build] { return build_and_check(tree, build, plan); });
  if (plan.promotion.new_source && !record::runs_on_host(plan.promotion.backend)) {
    return with_hint(make_error(ErrorCode::kConflict,
                                "the campaign changed {}, of which {} operators are made: only a "
                                "build of the tree can check them, and {}",
                                plan.promotion.kernel, plan.ops.size(), build.error().message),
                     "configure the tree with scripts/build, and promote without --no-build");
  }
  note(fmt::format(
      "Not built: {}. What was checked and measured is the kernel as a candidate, compiled like the library's.",
      build.error().message));
  return std::function<Status()>();
}

struct Promoted {
  record::Promotion promotion;
  bool built = false;  // the tree's build has it, and was asked
};

Result<Promoted> promote_campaign(const PromoteOptions& options, const fs::path& tree, execute::Git& git) {
  campaign::ProofOptions proof;
  proof.names.configuration = options.name;
  proof.names.date = format_minute(SystemClock().unix_time());
  proof.elsewhere = options.dry_run;
  if (!options.limit.empty()) {
    RIDGE_TRY(seconds, parse_duration(options.limit));
    proof.seconds = seconds;
  }
  const campaign::ProofTools tools{ask_worker, library_flags, note};
  RIDGE_TRY(plan, campaign::prove_promotion(options.campaign, options.key, tree, git, proof, tools));
  if (options.dry_run) return Promoted{std::move(plan.promotion)};
  RIDGE_TRY(after, after_edits(options, tree, plan));
  RIDGE_CHECK_OK(campaign::apply_promotion(plan, tree, {}, after));
  return Promoted{std::move(plan.promotion), static_cast<bool>(after)};
}

// The id of the campaign in a folder, or the words as they are.
std::string promoted_name(const std::string& words) {
  std::error_code ignored;
  if (!fs::exists(fs::path(words) / campaign::kJournalFile, ignored)) return words;
  const Result<campaign::State> state = campaign::load_campaign(words);
  return state ? state->spec().id : words;
}

Result<std::string> committed(execute::Git& git, const record::Promotion& promotion, const std::string& message) {
  return git.commit(message, campaign::touched_files(promotion));
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
  const auto lock = campaign::TreeLock::acquire(tree);
  if (!lock) return fail(lock.error());
  if (options.dry_run && campaign::has_unfinished_edits(tree)) {
    return fail(
        with_hint(make_error(ErrorCode::kConflict, "{} has edits of a promotion that was killed", tree.string()),
                  "the next ridge promote without --dry-run takes them back"));
  }
  const Result<bool> recovered = campaign::recover_edits(tree, *git);
  if (!recovered) return fail(recovered.error());
  if (*recovered && !globals().quiet) say(stderr, "A promotion that was killed is taken back in {}.\n", tree.string());

  const bool back = !options.revert.empty();
  const auto taken_back = [&]() -> Result<Promoted> {
    RIDGE_TRY(found, campaign::find_promotion(tree, promoted_name(options.revert)));
    if (!options.dry_run) RIDGE_CHECK_OK(campaign::revert_promotion(found, tree));
    return Promoted{std::move(found)};
  };
  const Result<Promoted> done = back ? taken_back() : promote_campaign(options, tree, *git);
  if (!done) return fail(done.error());
  const record::Promotion& promotion = done->promotion;
  const std::string name = promotion.implementation + "/" + promotion.configuration;
  std::string said = fmt::format("{} of {} is {}", name, promotion.campaign, back ? "taken back" : "promoted");
  if (options.dry_run) said += " (not really: --dry-run)";
  if (options.commit && !options.dry_run) {
    const auto commit = committed(*git, promotion, back ? said + "\n" : commit_text(promotion));
    if (!commit) return fail(commit.error());
    said += ", commit " + commit->substr(0, 12);
  }
  if (globals().json) {
    say("{}\n", record::to_pretty(promotion));
    return kSuccess;
  }
  if (!back) print(promotion);
  if (options.dry_run) return answer(said);
  const std::string build = done->built ? "" : "cmake --build build, then: ";
  return answer(said,
                build + fmt::format("ridge check {} --impl {}", promotion.op, back ? promotion.implementation : name));
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
      .flag("--no-build", options->no_build, "Leave the tree's build folder alone, and what is checked in it")
      .flag("--dry-run", options->dry_run,
            "Check, measure and show the edits, and write nothing; without the campaign's device only show them")
      .example("ridge promote campaigns/gemm_cpu_xeon_20260101",
               "checks, measures, edits the sources, builds, checks again, shows what changed")
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
