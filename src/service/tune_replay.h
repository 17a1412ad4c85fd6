// How a search does on recorded measurements of a whole space.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/tuning_replay.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct TuneReplayRequest {
  std::vector<std::string> caches;      // files
  std::vector<std::string> strategies;  // empty: ours
  std::string kernel;                   // the source that "campaign" is a search of
  std::string space;                    // the problem that the rows must belong to; empty: none
  std::vector<std::string> past;        // recordings that "ours" may look at; one that is replayed itself is left out
  std::string runs;                     // of other searches, to be scored as well; empty: none
  std::string csv, curves;              // files to write as well
  std::int64_t seeds = 100, first_seed = 1, evaluations = 500;
  bool score = false;  // the published scores; runs end where the score does
};
Result<record::ReplayReport> replay_tuning(const Context& context, TuneReplayRequest request);

}  // namespace ridge::service
