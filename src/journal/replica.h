// The final comparison of a campaign on another device: which device that is, and on which shapes the two agree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "record/journal.h"
#include "record/report.h"

namespace ridge::journal {

// What tells one device from another. `uuid` and `driver` are a GPU's; empty where they are not known.
struct Device {
  std::string host, name, uuid, driver;
};
// From the facts of an environment. `host`: of the machine, where they do not say.
Device device_of(const record::Environment& environment, std::string_view backend, const std::string& host = {});
// "NVIDIA H200 of host n7 (driver 550.54.15)"
std::string device_text(const Device& device);

// Two processors are one when model and host are, two GPUs when model and UUID are; a GPU without a UUID goes by its
// host.
enum class Kinship { kSame, kSameKind, kOther };
Kinship kinship(const Device& a, const Device& b);
// "another device of the same kind"
std::string_view kinship_words(Kinship kinship);

// Every shape that both measured, "suite" first. Two differ where their intervals do not overlap, or where the other
// device shows a loss (its ratio is below 1) and this one a gain (its interval is above 1).
std::vector<record::ReplicaRow> compare_effects(const std::vector<record::Effect>& here,
                                                const std::vector<record::Effect>& there);
// "it agrees on all 5 shapes", or on which it differs and in which way; no full stop.
std::string agreement_words(const std::vector<record::ReplicaRow>& rows);

}  // namespace ridge::journal
