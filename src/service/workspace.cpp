#include "service/workspace.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "project/harness.h"
#include "record/backend.h"
#include "roofline/analyse.h"
#include "service/workspace_parts.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// Everything that must be said and was not, in one message: nothing is guessed.
Status check_inputs(const WorkspaceRequest& o) {
  std::string missing;
  // A reference of Python is a kernel to begin with.
  const bool has_kernel = !o.kernel.empty() || (o.reference.find(".py") != std::string::npos &&
                                                (o.language.empty() || project::is_python(o.language)));
  const std::string kernel = has_kernel ? "said" : "";
  const std::pair<const char*, const std::string*> needed[] = {
      {"--kernel FILE", &kernel},
      {"--platform PRODUCT or this", &o.platform},
      {o.reference.empty() ? "--language cuda, hip or c++" : "--language", &o.language}};
  for (const auto& [flag, value] : needed) {
    if (value->empty()) missing += (missing.empty() ? "" : "; ") + std::string(flag);
  }
  if (!missing.empty()) return with_hint(invalid("a workspace also needs: {}", missing), "these are never guessed");
  const bool compiled = o.language == "cuda" || o.language == "hip" || o.language == "c++";
  if (!compiled && !(project::is_python(o.language) && !o.reference.empty())) {
    return with_hint(invalid("--language {} is unknown{}", o.language,
                             project::is_python(o.language) ? " without a --reference" : ""),
                     "use cuda, hip or c++, and with --reference also python, triton or cutedsl");
  }
  std::error_code ignored;
  if (!o.kernel.empty() && !fs::is_regular_file(o.kernel, ignored))
    return make_error(ErrorCode::kNotFound, "there is no kernel {}", o.kernel);
  if (fs::exists(o.name, ignored))
    return with_hint(make_error(ErrorCode::kConflict, "{} exists already", o.name),
                     "a workspace never overwrites anything");
  return ok_status();
}

std::string task_context(const WorkspaceRequest& o) {
  const std::string file = fs::path(o.kernel).filename().string();
  std::string text =
      fmt::format("# {}\n\n## Task Context\n\n- kernel: `{}` ({})\n- platform: {}\n- operator: {}\n- cases: {}\n",
                  o.name, file, o.language, o.platform, o.op.empty() ? "TBD" : o.op,
                  o.words.empty() ? "TBD" : fmt::format("{}", fmt::join(o.words, " ")));
  text += "- one change per round; each round is one record in `memory/`, read before the next plan\n";
  if (!o.op.empty() && o.language != "hip")
    text += fmt::format("- check: `ridge check {} --candidate {}`; time: `ridge bench {} --candidate {}`\n", o.op, file,
                        o.op, file);
  return text + "\n";
}

// The sections that an operator with cases gives; "TBD" where nothing is known yet.
Result<std::string> limits(const Context& context, const WorkspaceRequest& o) {
  if (o.op.empty() || o.words.empty()) {
    return std::string(
        "## Hardware Spec\n\nTBD\n\n## Roofline\n\nTBD: `ridge roofline --flop N --bytes N --on PRODUCT --write "
        "README.md`\n\n## Stop Conditions\n\nTBD\n\n");
  }
  const record::BackendInfo& info = record::backend_of_language(o.language);
  const std::string here(info.host || !info.measured ? "" : info.name);
  const auto reports = rooflines(context, o.op, o.words, o.platform == "this" ? here : o.platform, o.threads, o.given);
  if (!reports) {
    if (o.platform == "this" || reports.error().code != ErrorCode::kUnsupported) return reports.error();
    return fmt::format(
        "## Roofline\n\nUNKNOWN: {}\n\n## Stop Conditions\n\nTBD: `ridge roofline --write README.md`\n\n",
        reports.error().message);
  }
  // The tightest case sets the target of the workspace; every case has its line.
  std::string text = roofline::to_markdown(reports->front());
  if (reports->size() > 1) {
    text += "Other cases:\n\n";
    for (std::size_t i = 1; i < reports->size(); ++i)
      text += fmt::format("- {}: {}\n", (*reports)[i].label, (*reports)[i].stop_conditions.front());
    text += "\n";
  }
  return text;
}

Status write_workspace(const Context& context, const WorkspaceRequest& o) {
  if (!o.reference.empty()) return write_reference_workspace(context, o);
  const fs::path folder = o.name;
  RIDGE_TRY(sections, limits(context, o));
  RIDGE_TRY(kernel, read_file(o.kernel));
  const std::string file = fs::path(o.kernel).filename().string();
  record::Workspace workspace{1, folder.filename().string(), file, o.platform, o.language, o.op, o.words, o.threads, {},
                              {}};
  RIDGE_TRY(hardware, hardware_limits(context, o, workspace.unknown));
  RIDGE_CHECK_OK(make_directories(folder));
  RIDGE_CHECK_OK(write_file_durably(folder / file, kernel));
  return finish_workspace(context, task_context(o) + sections + hardware + isa_targets(o), workspace, o.name);
}

}  // namespace

Status make_workspace(const Context& context, const WorkspaceRequest& request) {
  RIDGE_CHECK_OK(check_inputs(request));
  return write_workspace(context, request);
}

}  // namespace ridge::service
