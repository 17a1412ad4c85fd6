// How many configurations one sweep may hold: a number of the manifest, so that it is confirmed and in the journal, and
// the same request has the same answer wherever it is asked again.
#pragma once

#include <cstddef>

#include "record/campaign.h"
#include "ridge/result.h"

namespace ridge::propose {

inline constexpr const char* kSweepMostKey = "sweep_most";  // of the manifest
inline constexpr std::size_t kSweepLeast = 6, kSweepOfADevice = 20, kSweepMost = 80;

// Of a pool of so many devices that look at a sweep together: as many as one has, for each, up to kSweepMost.
std::size_t sweep_most_of(std::size_t devices);
// What the manifest says; without it, that of one device. An Error is a value that is no number of 6 to 80.
Result<std::size_t> sweep_most(const record::CampaignSpec& spec);

}  // namespace ridge::propose
