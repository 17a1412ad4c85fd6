// ridge list: what can be named, and what the engine asks of a candidate.
#include <fmt/format.h>

#include "record/listing.h"
#include "say.h"
#include "service/library.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

void print(std::string_view title, const std::vector<record::ListedItem>& items) {
  std::size_t width = 0;
  for (const record::ListedItem& item : items) width = std::max(width, item.name.size());
  say("{}\n", title);
  for (const record::ListedItem& item : items) say("  {:<{}}  {}\n", item.name, width, item.summary);
}

int list(const Context& context) {
  const Result<record::Listing> listing = service::list_names(context);
  if (!listing) return fail(listing.error());
  if (globals().json) return print_json(*listing);
  print("Operators", listing->operators);
  print("\nProposers (--proposer)", listing->proposers);
  print("\nGates, in the order they are asked", listing->gates);
  print("\nWhat a campaign does next: the first line that holds", listing->phases);
  return kSuccess;
}

}  // namespace

void define_list(Command root) {
  root.subcommand("list", "List operators, proposers, gates and the steps of a campaign")
      .example("ridge list", "names and one line each")
      .exits({kInterrupted})
      .json("operators, proposers, gates and phases, each with a summary")
      .action(list);
}

}  // namespace ridge::cli
