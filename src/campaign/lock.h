// At most one process works on a campaign. The lock file names its holder by process id, boot id and process start time
// (a process id alone is reused after a reboot or a while), so that a stale lock is told from a live one and taken
// over.
#pragma once

#include <filesystem>
#include <string>

#include "ridge/result.h"

namespace ridge::campaign {

struct LockHolder {
  long pid = 0;
  std::string boot_id;     // of the kernel; changes at every start of the machine
  std::string start_time;  // of the process, in the kernel's clock ticks since boot
  friend bool operator==(const LockHolder&, const LockHolder&) = default;
};

// This process.
LockHolder current_process();
// Whether that very process still runs on this machine.
bool is_alive(const LockHolder& holder);

class CampaignLock {
 public:
  // kConflict, with the holder and what to do, when another process works on the campaign.
  static Result<CampaignLock> acquire(const std::filesystem::path& directory);
  CampaignLock(CampaignLock&& other) noexcept;
  CampaignLock& operator=(CampaignLock&&) = delete;
  ~CampaignLock();

 private:
  CampaignLock(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_ = -1;
};

// The live holder of a campaign's lock, or pid 0.
LockHolder lock_holder(const std::filesystem::path& directory);

}  // namespace ridge::campaign
