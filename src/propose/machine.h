// What a cost model needs to know of the machine, read from the facts and the roofline of a request.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record/campaign.h"

namespace ridge::propose {

// What the tile model needs of a GPU and of the shapes.
struct Gpu {
  double multiprocessors = 0;
  std::vector<std::map<std::string, double>> cases;  // every parameter that is a number
};

struct Machine {
  double lanes = 8;       // fp32 elements of the widest vector
  double registers = 16;  // vector registers
  double l1_bytes = 32768, l2_bytes = 1048576;
  double threads = 1;         // that one call may use
  double peak = 0;            // FLOP/s that the roofline of compute-bound shapes assumes; 0 = unknown
  std::string vector_source;  // where `lanes`, or the GPU's multiprocessors, came from, for the reasoning
  std::optional<Gpu> gpu;     // of a campaign on a GPU; what is above about processors then means nothing
};

// Missing facts keep the cautious defaults above; `vector_source` says so.
Machine describe_machine(const record::ProposalRequest& request);

}  // namespace ridge::propose
