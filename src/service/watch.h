// Follows a campaign as another process works on it: what its journal gained, and what progress.json says.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "journal/follow.h"
#include "record/listing.h"
#include "record/progress.h"
#include "ridge/result.h"

namespace ridge::service {

class CampaignWatch {
 public:
  explicit CampaignWatch(std::filesystem::path directory);

  struct Look {
    bool anew = false;  // the journal was repaired or replaced: its lines came again from the first
    bool over = false;  // no process works on it, and it is paused or has its report
    std::optional<record::CampaignProgress> progress;  // none: no process left one that can be read
  };
  // A line for every event since the last look, in milliseconds however long the journal is.
  Result<Look> look(const std::function<void(const record::WatchLine&)>& on_line);

  [[nodiscard]] const journal::State& state() const { return follower_.state(); }

 private:
  std::filesystem::path directory_;
  journal::Follower follower_;
  bool began_ = false;
};

}  // namespace ridge::service
