#include "service/workspace_file.h"

#include "base/error.h"
#include "base/files.h"
#include "hardware/spec.h"
#include "record/backend.h"
#include "record/json.h"
#include "service/candidate_file.h"
#include "service/worker_call.h"

namespace fs = std::filesystem;

namespace ridge::service {
namespace {

Status runs_here(const Context& context, const record::Workspace& workspace, const fs::path& folder) {
  if (workspace.language == "hip") {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{} holds a HIP kernel, and no engine here runs HIP", folder.string()),
        "ridge inspect reads its code objects; campaigns take c++ kernels, and cuda ones on a GPU");
  }
  if (workspace.platform == "this") return ok_status();
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(workspace.platform));
  if (workspace.language == "cuda") {
    if (spec->is_gpu() && spec->vendor == "NVIDIA") return ok_status();
    return with_hint(
        make_error(ErrorCode::kUnsupported,
                   "the targets of {} are those of {}, and a cuda kernel runs on "
                   "a GPU of NVIDIA's",
                   folder.string(), workspace.platform),
        "make the workspace with --platform this, whose targets are the measured ceilings of the GPU here");
  }
  if (spec->kind == "cpu") return ok_status();
  return with_hint(make_error(ErrorCode::kUnsupported,
                              "the targets of {} are those of {}, and a c++ kernel runs on this "
                              "processor",
                              folder.string(), workspace.platform),
                   "make the workspace with --platform this, whose targets are this machine's measured ceilings");
}

}  // namespace

Result<record::Workspace> read_workspace(const fs::path& folder) {
  const Result<std::string> text = read_file(folder / kWorkspaceFile);
  if (!text) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} holds no {}", folder.string(), kWorkspaceFile),
                     "make a workspace with `ridge workspace init NAME CASE --op OP --kernel FILE --platform this "
                     "--language c++`");
  }
  return record::parse_record<record::Workspace>(*text, (folder / kWorkspaceFile).string());
}

Result<WorkspaceSubject> workspace_subject(const Context& context, const fs::path& folder) {
  WorkspaceSubject subject;
  RIDGE_TRY(workspace, read_workspace(folder));
  if (workspace.op.empty()) {
    return with_hint(invalid("{} names no operator: without a reference nothing can be judged", folder.string()),
                     "make the workspace with --op OP and its cases (ridge ops lists the operators), or describe your "
                     "own tests in a project: ridge optimize OP --project DIR");
  }
  RIDGE_CHECK_OK(runs_here(context, workspace, folder));
  RIDGE_TRY(kernel, candidate_of(context, workspace.op, (folder / workspace.kernel).string(), {}));
  RIDGE_TRY(cases, cases_of(context, workspace.op, workspace.cases));
  kernel.backend = record::backend_of_language(workspace.language).name;
  subject.workspace = std::move(workspace);
  subject.kernel = std::move(kernel);
  subject.cases = std::move(cases);
  return subject;
}

std::string with_section(const std::string& readme, const std::string& title, const std::string& body) {
  const std::string heading = "## " + title + "\n";
  const std::string section = heading + "\n" + body + "\n";
  const std::size_t at = readme.starts_with(heading) ? 0 : readme.find("\n" + heading);
  if (at == std::string::npos) return readme + (readme.ends_with("\n\n") ? "" : "\n") + section;
  const std::size_t begin = at == 0 ? 0 : at + 1;
  const std::size_t next = readme.find("\n## ", begin + heading.size() - 1);
  return readme.substr(0, begin) + section + (next == std::string::npos ? "" : readme.substr(next + 1));
}

}  // namespace ridge::service
