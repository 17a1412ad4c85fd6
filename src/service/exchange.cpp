#include "service/exchange.h"

#include "base/error.h"
#include "base/files.h"
#include "campaign/campaign.h"
#include "campaign/export.h"
#include "campaign/foreign.h"
#include "record/json.h"

namespace ridge::service {
Result<record::CommandAnswer> export_record(const ExportRequest& request) {
  RIDGE_TRY(format, campaign::export_format(request.format));
  if (request.out.empty()) return with_hint(invalid("no folder to write to"), "name a new one with --out");
  RIDGE_TRY(state, campaign::load_campaign(request.directory));
  RIDGE_TRY(exported, campaign::render_export(state, format));
  RIDGE_CHECK_OK(campaign::write_export(request.out, exported));
  return record::CommandAnswer{
      fmt::format("{} files in {}, {} rounds; the raw samples stay in {}", exported.files.size(), request.out,
                  state.rounds_closed() + 1, request.directory),
      {}};
}

Result<record::ForeignCampaign> import_record(const std::string& directory, const std::string& out) {
  RIDGE_TRY(campaign, campaign::import_foreign(directory));
  if (!out.empty()) RIDGE_CHECK_OK(write_file_durably(out, record::to_pretty(campaign) + "\n"));
  return campaign;
}

}  // namespace ridge::service
