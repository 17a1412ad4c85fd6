// ridge list: what can be named, and what the engine asks of a candidate.
#include <fmt/format.h>

#include "campaign/gates.h"
#include "campaign/transition.h"
#include "propose/proposer.h"
#include "record/json.h"
#include "record/listing.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

Result<record::Listing> make_listing() {
  record::Listing listing;
  record::WorkerRequest request;
  request.task = record::WorkerTask::kOperators;
  RIDGE_TRY(response, ask_worker(std::move(request)));
  for (const record::OperatorInfo& op : response.operators) listing.operators.push_back({op.name, op.summary});
  for (const propose::ProposerInfo& proposer : propose::list_proposers()) {
    listing.proposers.push_back({propose::proposer_usage(proposer), std::string(proposer.summary)});
  }
  for (const campaign::DecisionGate& gate : campaign::gates()) listing.gates.push_back({gate.name, gate.question});
  for (const campaign::Transition& transition : campaign::transitions()) {
    listing.phases.push_back({std::string(record::name_of(transition.phase)),
                              fmt::format("{}, when {}", transition.action, transition.when)});
  }
  return listing;
}

void print(std::string_view title, const std::vector<record::ListedItem>& items) {
  std::size_t width = 0;
  for (const record::ListedItem& item : items) width = std::max(width, item.name.size());
  say("{}\n", title);
  for (const record::ListedItem& item : items) say("  {:<{}}  {}\n", item.name, width, item.summary);
}

int list() {
  const Result<record::Listing> listing = make_listing();
  if (!listing) return fail(listing.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(*listing));
    return kSuccess;
  }
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
