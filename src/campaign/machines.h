// Where a campaign builds, looks and measures, as its manifest says: keys of `extra`, so that they are confirmed with
// the rest and hold for every process that goes on with it.
#pragma once

#include <string>

#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::campaign {

inline constexpr const char* kBuildOnKey = "build_on";
inline constexpr const char* kMeasureOnKey = "measure_on";
inline constexpr const char* kScreenOnKey = "screen_on";
inline constexpr const char* kReplicateOnKey = "replicate_on";

// As in execute/make_executor.h. Empty: beside the engine; of `build` and `screen`: where it measures; of `replicate`:
// nowhere.
struct Machines {
  std::string build = {}, measure = {};
  std::string screen = {};     // devices of the kind that measures; the configurations of a sweep are dealt to them
  std::string replicate = {};  // where the final comparison is made once more
  // Whether another worker builds or measures than the one beside the engine that sees all devices.
  [[nodiscard]] bool elsewhere() const;
  // Whether another takes part in anything.
  [[nodiscard]] bool any() const;
};

// Refuses what is no place to run, what a project's own commands cannot be sent to, and a replica on the device itself.
// With several devices that look, the manifest also says how large a sweep may be (propose/sweep_size.h).
Status set_machines(record::CampaignSpec& spec, const Machines& machines);
Error no_place_of_a_project();
Machines machines_of(const record::CampaignSpec& spec);

}  // namespace ridge::campaign
