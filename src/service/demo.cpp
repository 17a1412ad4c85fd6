#include "service/demo.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/process.h"
#include "campaign/verify.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::filesystem::path demo_folder() {
  const std::string name = "demo-" + format_day(SystemClock().unix_time());
  fs::path folder = fs::path("campaigns") / name;
  std::error_code ignored;
  for (int number = 2; fs::exists(folder, ignored); ++number) {
    folder = fs::path("campaigns") / fmt::format("{}-{}", name, number);
  }
  return folder;
}

DraftRequest demo_request(const fs::path& directory, const std::string& budget, const RunRequest& run) {
  DraftRequest request;
  request.op = "gemm";
  request.budget = budget;
  request.directory = directory.string();
  request.no_git = find_program("git").empty();
  request.run = run;
  return request;
}

Result<DemoAudit> audit_demo(const fs::path& directory) {
  RIDGE_TRY(verified, campaign::verify_campaign(directory));
  RIDGE_TRY(replayed, campaign::replay_campaign(directory));
  return DemoAudit{
      verified.ok() && replayed.ok(),
      fmt::format("Verified: {} events and {} files {}; {} decisions computed again from the raw samples: {}.",
                  verified.events, verified.files,
                  verified.ok() ? "are what the journal says" : "are NOT all what the journal says", replayed.decisions,
                  replayed.ok() ? "all the same" : "NOT all the same")};
}

}  // namespace ridge::service
