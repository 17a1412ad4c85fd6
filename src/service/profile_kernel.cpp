#include "service/profile_kernel.h"

#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/profile_hook.h"
#include "hardware/spec.h"
#include "profile/profile.h"
#include "roofline/machine.h"

namespace ridge::service {
namespace {

// Of the product: its cited bandwidth, for tools that count bytes, and whose events perf counted.
Result<profile::Options> profile_options(const Context& context, const ProfileRequest& o) {
  profile::Options options;
  options.kernel = o.kernel;
  options.keep = o.keep;
  if (o.on.empty()) return options;
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(o.on));
  RIDGE_TRY(machine, roofline::machine_of(*spec, {}));
  options.bandwidth = machine.memory.front().peak;
  options.vendor = spec->vendor;
  return options;
}

Result<record::ProfileReport> profile_report(const Context& context, const ProfileRequest& o) {
  RIDGE_TRY(options, profile_options(context, o));
  if (!o.from.empty()) {
    if (!o.command.empty()) return invalid("a report and a command: name one of them");
    if (!o.keep.empty()) return invalid("--keep is for a command's report; {} is there already", o.from);
    return profile::read_report(o.from, o.tool, options);
  }
  if (o.command.empty()) {
    return with_hint(invalid("nothing to profile"),
                     "give a report with --from FILE, or a command: ridge profile --tool perf -- ./program");
  }
  if (o.tool.empty()) return with_hint(invalid("no profiler is named"), "one of --tool ncu, cupti, rocprofv3 or perf");
  return profile::collect(o.tool, o.command, options);
}

}  // namespace

Result<ProfiledKernel> profile_kernel(const Context& context, const ProfileRequest& o) {
  RIDGE_TRY(report, profile_report(context, o));
  ProfiledKernel profiled{std::move(report), {}};
  if (o.campaign.empty()) return profiled;
  RIDGE_TRY(state, campaign::load_campaign(o.campaign));
  RIDGE_TRY(kept, campaign::keep_profile(state, o.campaign, profiled.report));
  profiled.kept = kept;
  return profiled;
}

}  // namespace ridge::service
