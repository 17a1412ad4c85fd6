#include "service/campaigns.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/handback.h"
#include "campaign/kernel_export.h"
#include "campaign/rules/rule.h"
#include "execute/git.h"
#include "record/execution.h"
#include "service/duration.h"
#include "service/progress.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

record::CampaignRow row_of(const fs::path& directory) {
  record::CampaignRow row;
  row.name = directory.filename().string();
  row.directory = directory.string();
  const Result<campaign::State> state = campaign::load_campaign(directory);
  if (!state) {
    row.state = "unreadable";
    row.problem = state.error().message;
    return row;
  }
  row.state = state_of_campaign(directory, *state);
  row.op = state->spec().op;
  row.backend = state->spec().backend;
  row.gpu = state->spec().gpu;
  row.rounds = state->rounds_closed();
  row.accepted = std::count_if(state->rounds.begin(), state->rounds.end(),
                               [](const campaign::Round& round) { return round.committed.has_value(); });
  if (state->baseline_committed) row.speedup = campaign::speedup_of(*state);
  row.updated = state->updated_at;
  return row;
}

}  // namespace

bool is_campaign(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / campaign::kJournalFile, ignored);
}

std::string state_of_campaign(const fs::path& directory, const campaign::State& state) {
  if (campaign::lock_holder(directory).pid != 0) return "running";
  if (!state.confirmed) return "draft";
  if (state.reported) return "finished";
  return state.paused ? "paused" : "stopped";  // by a crash or a kill
}

Result<std::vector<record::CampaignRow>> campaigns_in(const fs::path& folder) {
  std::error_code error;
  std::vector<record::CampaignRow> rows;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_campaign(entry.path())) rows.push_back(row_of(entry.path()));
  }
  if (error) {
    return with_hint(make_error(ErrorCode::kNotFound, "cannot list {}: {}", folder.string(), error.message()),
                     "name a folder that holds campaigns; `ridge optimize OP` makes ./campaigns");
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.updated != b.updated ? a.updated > b.updated : a.name < b.name;
  });
  return rows;
}

namespace {

Status write_kernel(const campaign::KernelExport& kernel, const fs::path& out) {
  std::error_code ignored;
  for (std::size_t i = 0; i < kernel.files.size(); ++i) {
    const fs::path path = i == 0 ? out : out.parent_path() / kernel.files[i].path;
    if (fs::exists(path, ignored)) {
      return with_hint(make_error(ErrorCode::kConflict, "{} exists already", path.string()), "name another with --out");
    }
  }
  for (std::size_t i = 0; i < kernel.files.size(); ++i) {
    const fs::path path = i == 0 ? out : out.parent_path() / kernel.files[i].path;
    RIDGE_CHECK_OK(write_file_durably(path, kernel.files[i].text));
  }
  return ok_status();
}

record::KernelFile summary_of(const campaign::KernelExport& kernel, const std::string& out) {
  record::KernelFile summary;
  summary.files = kernel.files;
  summary.out = out;
  summary.compile = kernel.compile;
  summary.configuration = kernel.configuration;
  summary.round = kernel.round;
  summary.speedup = kernel.speedup;
  summary.candidate = kernel.candidate;
  return summary;
}

}  // namespace

Result<report::Model> campaign_status(const fs::path& directory) {
  RIDGE_TRY(model, report::load(directory));
  if (auto progress = read_progress(directory)) model.progress = std::move(*progress);
  return model;
}

Result<record::CommandAnswer> confirm_draft(const fs::path& directory, const std::string& by) {
  SystemClock clock;
  RIDGE_TRY(state, campaign::confirm_campaign(directory, by, clock));
  return record::CommandAnswer{"Confirmed " + state.spec().id, "ridge campaign resume " + directory.string()};
}

Result<record::CommandAnswer> stop_campaign(const fs::path& directory) {
  RIDGE_CHECK_OK(campaign::request_stop(directory));
  return record::CommandAnswer{
      "The campaign ends after the measurement that is under way, with its final measurement and report.",
      "ridge campaign watch " + directory.string()};
}

Result<record::CommandAnswer> stop_campaign_after(const fs::path& directory, std::int64_t rounds) {
  RIDGE_CHECK_OK(campaign::request_stop_after(directory, rounds));
  return record::CommandAnswer{fmt::format("The campaign ends in good order when {} rounds are closed.", rounds),
                               "ridge campaign watch " + directory.string()};
}

Result<record::CommandAnswer> pause_campaign(const fs::path& directory) {
  RIDGE_CHECK_OK(campaign::request_pause(directory));
  return record::CommandAnswer{"The campaign pauses after the measurement that is under way.",
                               "ridge campaign resume " + directory.string()};
}

Result<record::CommandAnswer> extend_campaign(const ExtendRequest& request) {
  RIDGE_TRY(state, campaign::load_campaign(request.directory));
  record::BudgetChange change{state.wall_budget, state.max_iterations};
  if (!request.budget.empty()) {
    RIDGE_TRY(seconds, parse_duration(request.budget));
    change.wall_budget += seconds;
  }
  if (request.max_iterations) change.max_iterations = request.max_iterations;
  SystemClock clock;
  if (const auto extended = campaign::extend_budget(request.directory, change, clock); !extended)
    return extended.error();
  return record::CommandAnswer{"Extended", "ridge campaign resume " + request.directory};
}

Result<report::Model> write_report(const fs::path& directory) {
  RIDGE_TRY(model, report::load(directory));
  RIDGE_CHECK_OK(report::write(directory, model));
  return model;
}

Result<record::KernelFile> export_campaign_kernel(const fs::path& directory, const std::string& out) {
  RIDGE_TRY(state, campaign::load_campaign(directory));
  RIDGE_TRY(kernel, campaign::export_kernel(state));
  if (!out.empty()) RIDGE_CHECK_OK(write_kernel(kernel, out));
  return summary_of(kernel, out);
}

Result<HandedBack> hand_back_campaign(const HandBackRequest& request) {
  RIDGE_TRY(state, campaign::load_campaign(request.directory));
  if (!record::is_of_project(state.spec())) {
    return with_hint(invalid("{} is about an operator of Ridgeline, not about a project", request.directory),
                     fmt::format("its commits are in {}/src", request.directory));
  }
  const fs::path project = fs::absolute(request.repository.empty() ? fs::path(state.spec().kernel_source).parent_path()
                                                                   : fs::path(request.repository));
  RIDGE_TRY(top, campaign::repository_above(project));
  const auto repository = execute::make_git(top);
  const fs::path prefix = project.lexically_normal().lexically_relative(top);
  RIDGE_TRY(back,
            campaign::hand_back(request.directory, state, *repository, prefix == "." ? "" : prefix, request.at_start));
  const std::string base = back.base.substr(0, 12);
  record::CommandAnswer answer{
      fmt::format("{} commits on {}, from {}; your checkout is as it was", back.commits.size(), back.branch, base),
      fmt::format("git -C {} log {}..{}", top.string(), base, back.branch)};
  return HandedBack{std::move(back.commits), std::move(answer)};
}

Result<record::CommandAnswer> waive_campaign_rule(const fs::path& directory, const std::string& rule,
                                                  const std::string& reason, const std::string& by) {
  SystemClock clock;
  if (const auto waived = campaign::waive_rule(directory, rule, reason, by, clock); !waived) return waived.error();
  return record::CommandAnswer{"Waived, with its reason in the journal and the report",
                               "ridge campaign resume " + directory.string()};
}

Result<record::RuleTable> campaign_rules(const fs::path& directory, std::optional<std::int64_t> round) {
  RIDGE_TRY(state, campaign::load_campaign(directory));
  campaign::RuleContext context{state, nullptr, &directory};
  if (round) {
    const auto found = std::ranges::find(state.rounds, *round, &campaign::Round::number);
    if (found == state.rounds.end()) {
      return with_hint(invalid("there is no round {}", *round),
                       fmt::format("rounds 2 to {} exist", state.rounds.size() + 1));
    }
    context.round = &*found;
  }
  std::vector<record::RuleRow> rows = campaign::judge_all(context);
  std::ranges::stable_sort(rows, {}, &record::RuleRow::phase);
  const bool blocked = !campaign::blocking(rows).empty();
  return record::RuleTable{!blocked, std::move(rows)};
}

}  // namespace ridge::service
