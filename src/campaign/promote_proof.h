// What a promotion rests on beside the campaign's record: the winner as the library builds it is right, keeps its
// registers, and is measured against what dispatch runs now; and, after the edits, what the tree's own build says of
// them. Everything is asked of workers; nothing here touches a device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "campaign/promote.h"
#include "record/worker.h"

namespace ridge::campaign {

using AskWorker = std::function<Result<record::WorkerResponse>(record::WorkerRequest)>;

struct ProofTools {
  AskWorker ask;
  // Of a processor: the flags of a configuration in the library's build, by its instructions.
  std::function<std::vector<std::string>(const std::string&)> flags;
  std::function<void(const std::string&)> note;  // a line for people about what was done, or not; may be empty
};

struct ProofOptions {
  PromotionNames names;    // implementations and instructions are asked here
  double seconds = 0;      // for measuring all shapes; 0: a few for each
  bool elsewhere = false;  // plan on a machine without the campaign's device too: then nothing is checked or measured
};

// The plan with everything that it needs: promotable(), check_device(), plan_promotion(), no uncommitted changes, the
// operator's check cases, of a GPU registers and spills, the campaign's shapes in paired sessions against what dispatch
// runs there now, the lines of the tuned table for those that are faster, the line of the changelog. kConflict where
// one of them does not hold.
Result<PromotionPlan> prove_promotion(const std::filesystem::path& campaign, const std::filesystem::path& key,
                                      const std::filesystem::path& tree, execute::Git& repository,
                                      const ProofOptions& options, const ProofTools& tools);

// After the edits, with the worker of the tree's build: the configuration is among those of the implementation and
// right on the operator's check cases; of a changed source the implementation's own choice too, for every operator that
// is made of the kernel. Notes shapes on which dispatch does not take it although the table says so.
Status check_built(const PromotionPlan& plan, const ProofTools& tools);

}  // namespace ridge::campaign
