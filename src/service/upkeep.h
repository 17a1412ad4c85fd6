// What is done to the folder of a campaign that nothing works on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "record/command_table.h"
#include "record/listing.h"
#include "ridge/result.h"

namespace ridge::service {

// Takes away what the journal of an ended campaign gives again, bit for bit; or writes it again.
Result<record::Slimmed> slim_record(const std::filesystem::path& directory);
Result<record::Slimmed> restore_record(const std::filesystem::path& directory);

// What a repair would drop of a journal that was edited, damaged or torn, in words; empty: all lines are good.
struct RepairNeeded {
  std::string dropped;
  std::int64_t good_lines = 0;
};
Result<RepairNeeded> look_for_damage(const std::filesystem::path& directory);
// Takes the journal back to its last good line; what is dropped is kept in a folder beside it.
Result<record::CommandAnswer> repair_record(const std::filesystem::path& directory);

}  // namespace ridge::service
