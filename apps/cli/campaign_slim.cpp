#include "campaign_slim.h"

#include <fmt/format.h>

#include "record/listing.h"
#include "say.h"
#include "service/upkeep.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int print_slimmed(const Result<record::Slimmed>& done, std::string_view verb, std::string_view next,
                  const std::string& directory) {
  if (!done) return fail(done.error());
  if (globals().json) return print_json(*done);
  for (const std::string& path : done->kept) say("{}: left as it is: it holds what the journal does not give\n", path);
  say("{} {} files, {:.2f} MB\nNext: ridge campaign {} {}\n", verb, done->files,
      1e-6 * static_cast<double>(done->bytes), next, directory);
  return kSuccess;
}

}  // namespace

void define_campaign_slim(Command& group) {
  constexpr const char* kJson = "how many files and bytes, and the files that were left as they are";
  auto directory = std::make_shared<std::string>();
  group.subcommand("slim", "Take away what the journal of an ended campaign gives again, bit for bit")
      .positional("directory", *directory, "Folder of a campaign that has ended")
      .example("ridge campaign slim campaigns/gemm_cpu_xeon_20260101",
               "leaves the journal, the manifest, the report and what the journal does not give; verify and replay "
               "work as before")
      .exits({kSystem, {kHeld, "it has not ended, verify objects to it, or another process works on it"}})
      .json(kJson)
      .action(
          [directory] { return print_slimmed(service::slim_record(*directory), "Took away", "verify", *directory); });
  group.subcommand("restore", "Write the files again that slim took away")
      .positional("directory", *directory, "Folder of a campaign that has ended")
      .example("ridge campaign restore campaigns/gemm_cpu_xeon_20260101", "before it is extended, or for other tools")
      .exits({kSystem, {kHeld, "it has not ended, verify objects to it, or another process works on it"}})
      .json(kJson)
      .action(
          [directory] { return print_slimmed(service::restore_record(*directory), "Wrote", "verify", *directory); });
}

}  // namespace ridge::cli
