// What the library has, and which implementation it would run.
#pragma once

#include <string>
#include <vector>

#include "record/listing.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// Every operator with its parameters, implementations and target cases.
Result<std::vector<record::OperatorInfo>> list_operators(const Context& context);

// What can be named: operators, proposers, gates and the steps of a campaign.
Result<record::Listing> list_names(const Context& context);

// The walk through the implementations of an operator for each case.
struct ExplainRequest {
  std::string op, backend = "cpu";
  std::vector<std::string> words;  // empty: the operator's own cases
};
Result<std::vector<record::Explanation>> explain_choice(const Context& context, const ExplainRequest& request);

}  // namespace ridge::service
