// What each round tried, saw and left to do: memory/v<N>.json of a workspace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/command_table.h"
#include "record/iteration.h"
#include "ridge/result.h"

namespace ridge::service {

Result<record::CommandAnswer> init_memory(const std::string& workspace);

struct NewMemory {
  std::string workspace = ".", version;  // empty: the next one
  std::string from;                      // a JSON file to start from; empty: none
  std::vector<std::string> set;          // FIELD=VALUE
};
// The record as it is kept, like the two below.
Result<std::string> create_memory(const NewMemory& request);
Result<std::string> read_memory(const std::string& workspace, const std::string& version, bool masked);
Result<std::string> update_memory(const std::string& workspace, const std::string& version,
                                  const std::vector<std::string>& set);

struct MemorySummary {
  std::vector<record::Iteration> records;
  std::string best;                    // version
  std::vector<std::string> set_aside;  // files that could not be read, with the reason
};
Result<MemorySummary> summarise_memory(const std::string& workspace, bool masked);

// Hides records from every reader, or shows them again.
Result<record::CommandAnswer> mask_memory(const std::string& workspace, const std::vector<std::string>& versions,
                                          bool masked);
// Hides about half of what was learned; the same seed and memory hide the same records.
Result<record::MemoryRestart> restart_memory(const std::string& workspace, std::int64_t seed);
// What is wrong with any record; empty: nothing.
Result<std::vector<std::string>> validate_memory(const std::string& workspace);

}  // namespace ridge::service
