// progress.json of a campaign (record/progress.h): written while an engine works, read by every front and by other
// processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"
#include "campaign/campaign.h"
#include "record/progress.h"
#include "ridge/result.h"

namespace ridge::service {

inline constexpr const char* kProgressFile = "progress.json";

// Writes the file for the one process that holds the campaign's lock: at every new step, and within a step at most once
// a second. By a rename, so that a reader sees a whole record; without fsync, because a lost one costs nothing.
class ProgressWriter {
 public:
  ProgressWriter(std::filesystem::path directory, const campaign::State& state, Clock& clock);
  // One that neither removed the file nor said why it ends was left by an error.
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  // Gives the record when it was written, so that a front can be told the same. A folder that cannot be written to
  // stops no campaign: what matters there fails by itself.
  std::optional<record::CampaignProgress> show(const campaign::EngineProgress& progress, const campaign::State& state);
  // The campaign has its report: the file goes.
  void remove();
  // The process stops for another reason, which stays in the file.
  void end(const std::string& because);

 private:
  void write();

  std::filesystem::path directory_;
  Clock& clock_;
  record::CampaignProgress now_;
  double written_ = -1;  // monotonic time; negative: not yet
  bool over_ = false;
};

// Of the campaign in a folder; none where no process left one. A file of a process that is gone says "stale". Errors:
// it cannot be understood, or a newer version wrote it.
Result<std::optional<record::CampaignProgress>> read_progress(const std::filesystem::path& directory);

// A line for a person: "round 3, VALIDATE: build, check and measure the candidate (2 of 4), measure: session 3 ...".
std::string progress_text(const record::CampaignProgress& progress);

}  // namespace ridge::service
