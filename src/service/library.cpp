#include "service/library.h"

#include "base/error.h"
#include "campaign/gates.h"
#include "campaign/transition.h"
#include "propose/proposer.h"
#include "service/worker_call.h"

namespace ridge::service {
Result<std::vector<record::OperatorInfo>> list_operators(const Context& context) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kOperators;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  return std::move(response.operators);
}

Result<record::Listing> list_names(const Context& context) {
  record::Listing listing;
  RIDGE_TRY(operators, list_operators(context));
  for (const record::OperatorInfo& op : operators) listing.operators.push_back({op.name, op.summary});
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

Result<std::vector<record::Explanation>> explain_choice(const Context& context, const ExplainRequest& asked) {
  RIDGE_TRY(cases, cases_of(context, asked.op, asked.words));
  return explanations_of(context, std::move(cases), asked.backend);
}

}  // namespace ridge::service
