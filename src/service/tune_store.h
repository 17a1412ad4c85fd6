// Measurements of tuning that are kept in the cache folder: of campaigns, and taken from recordings and given back.
#pragma once

#include <string>

#include "record/tuning_store.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct TuneStoreRequest {
  std::string file;              // the recording to read, or the results to write
  std::string kernel, device;    // empty: what the file says; of an export, the device: the only one there is
  std::string clocks, compiler;  // of an export: only these; empty: all
  std::string problem, origin;   // the same, for campaigns
};
Result<record::TuningStoreReport> import_tuning(const Context& context, const TuneStoreRequest& request);
// An error lists the devices of a kernel, or the circumstances, where they are not told apart.
Result<record::TuningStoreReport> export_tuning(const Context& context, const TuneStoreRequest& request);

}  // namespace ridge::service
