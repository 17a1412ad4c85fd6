// ridge promote: what a campaign won becomes part of the library's sources, checked and measured as the library builds
// it; --revert takes it back.
#include <fmt/format.h>

#include "campaign/promote_proof.h"
#include "say.h"
#include "service/promote.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

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

int run_promote(const Context& context, const service::PromoteRequest& request) {
  const Result<service::Promoted> done = service::promote(context, request);
  if (!done) return fail(done.error());
  if (globals().json) return print_json(done->promotion);
  if (request.revert.empty()) print(done->promotion);
  return answer(done->said, done->next);
}

}  // namespace

void define_promote(Command root) {
  auto options = std::make_shared<service::PromoteRequest>();
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
      .action([options](const Context& context) { return run_promote(context, *options); });
}

}  // namespace ridge::cli
