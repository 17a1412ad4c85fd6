// Requests for tests: a made-up operator with the roles of a real one.
#pragma once

#include "record/campaign.h"
#include "record/tunables.h"

namespace ridge::propose {

inline constexpr const char* kToySource = R"(/* ridge-tunables
[[tunable]]
name = "LANES"
values = [1, 8, 16]
default = 1
kind = "structure"
category = "resource"
title = "vector width"
effect = "one instruction does LANES elements"
model = "vector_width"
[[tunable]]
name = "ROWS"
values = [1, 2, 4, 6, 8, 12]
default = 1
title = "rows"
model = "register_rows"
group = "register tile"
[[tunable]]
name = "COLS"
values = [1, 2, 3, 4]
default = 1
title = "columns"
model = "register_cols"
group = "register tile"
[[tunable]]
name = "PACK"
values = [0, 1]
default = 0
kind = "structure"
category = "layout"
title = "pack"
needs = "LANES > 1"
model = "pack"
[[tunable]]
name = "THREADS"
values = [1, 2]
default = 1
kind = "structure"
category = "algorithm"
title = "threads"
model = "threads"
[[constraint]]
expression = "ROWS * COLS + COLS + 1 <= 32"
reason = "registers"
*/
int toy;
)";

inline record::ProposalRequest toy_request(double fraction = 0.008, std::map<std::string, std::int64_t> defines = {}) {
  record::ProposalRequest request;
  request.round = 2;
  request.spec.op = "toy";
  request.incumbent.op = "toy";
  request.incumbent.sources = {{"toy.cpp", kToySource}};
  request.incumbent.defines = std::move(defines);
  request.space = *record::tune_space(request.incumbent);
  request.environment.facts["cpu.vector_bits"] = "512";
  request.build.counts = {{"fma_scalar", 1}, {"fma_vector", 0}, {"vector_bits", 32}, {"stack_spill", 0}};
  record::RooflinePoint point;
  point.label = "n=1";
  point.fraction = fraction;
  request.roofline = {point};
  return request;
}

inline record::RoundSummary toy_round(const record::ProposalRequest& request, const record::Proposal& proposal,
                                      bool accepted) {
  record::RoundSummary summary;
  summary.round = request.round;
  summary.hypothesis = proposal.hypothesis;
  summary.candidate = proposal.candidates.front();
  summary.accepted = accepted;
  summary.state = accepted ? record::RoundState::kAccepted : record::RoundState::kRolledBack;
  summary.outcome = accepted ? record::Outcome::kPass : record::Outcome::kSlower;
  summary.reason = accepted ? "faster" : "not faster";
  for (const record::Candidate& candidate : proposal.candidates) {
    record::ScreenRow row;
    row.defines = candidate.defines;
    summary.sweep.push_back(row);
  }
  return summary;
}

}  // namespace ridge::propose
