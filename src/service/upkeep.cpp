#include "service/upkeep.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "campaign/repair.h"
#include "campaign/slim.h"

namespace ridge::service {
namespace {

std::string what_is_dropped(const campaign::RepairPlan& plan) {
  return fmt::format("{} line{} from line {} on ({} bytes), because that line {}; line {} is the last good one ({})",
                     plan.dropped_lines, plan.dropped_lines == 1 ? "" : "s", plan.good_lines + 1, plan.dropped_bytes,
                     plan.problem, plan.good_lines, plan.last_good);
}

record::Slimmed record_of(campaign::SlimReport report) {
  return record::Slimmed{report.files, report.bytes, std::move(report.kept)};
}

}  // namespace

Result<record::Slimmed> slim_record(const std::filesystem::path& directory) {
  RIDGE_TRY(done, campaign::slim_campaign(directory));
  return record_of(std::move(done));
}

Result<record::Slimmed> restore_record(const std::filesystem::path& directory) {
  RIDGE_TRY(done, campaign::restore_campaign(directory));
  return record_of(std::move(done));
}

Result<RepairNeeded> look_for_damage(const std::filesystem::path& directory) {
  RIDGE_TRY(plan, campaign::plan_repair(directory));
  return RepairNeeded{plan.needed() ? what_is_dropped(plan) : std::string(), plan.good_lines};
}

Result<record::CommandAnswer> repair_record(const std::filesystem::path& directory) {
  RIDGE_TRY(plan, campaign::plan_repair(directory));
  if (!plan.needed())
    return record::CommandAnswer{fmt::format("All {} lines of the journal are good", plan.good_lines), {}};
  SystemClock clock;
  RIDGE_TRY(folder, campaign::repair_campaign(directory, clock));
  return record::CommandAnswer{fmt::format("Dropped {}. They are kept in {}", what_is_dropped(plan), folder.string()),
                               "ridge campaign resume " + directory.string()};
}

}  // namespace ridge::service
