#include "campaign_repair.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "base/error.h"
#include "say.h"
#include "service/upkeep.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct RepairOptions {
  std::string directory;
  bool yes = false;
};

Status ask(const RepairOptions& options) {
  if (options.yes) return ok_status();
  const Error unanswered =
      with_hint(make_error(ErrorCode::kConflict, "nothing was changed"),
                fmt::format("drop these lines with: ridge campaign repair {} --yes", options.directory));
  if (::isatty(STDIN_FILENO) != 1) return unanswered;
  say(stderr, "Drop them? They are kept in a folder beside the journal. [y]es or [n]o: ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes" ? ok_status() : Status(unanswered);
}

int repair(const RepairOptions& options) {
  const Result<service::RepairNeeded> needed = service::look_for_damage(options.directory);
  if (!needed) return fail(needed.error());
  if (!needed->dropped.empty()) {
    if (!options.yes) say(stderr, "To drop: {}\n", needed->dropped);
    if (const Status agreed = ask(options); !agreed) return fail(agreed.error());
  }
  return answer(service::repair_record(options.directory));
}

}  // namespace

void define_campaign_repair(Command& group) {
  auto options = std::make_shared<RepairOptions>();
  group.subcommand("repair", "Take a journal that was edited or torn back to its last good line")
      .positional("directory", options->directory, "Folder of the campaign")
      .flag("-y,--yes", options->yes, "Drop the lines behind it without asking; they are kept in DIR/dropped-1")
      .example("ridge campaign repair campaigns/gemm_cpu_xeon_20260101", "says what would be dropped, and asks")
      .exits({kSystem, {kHeld, "it was not confirmed, or another process runs the campaign"}})
      .json("a message and the command to run next")
      .action([options] { return repair(*options); });
}

}  // namespace ridge::cli
