// ridge workspace: an isolated folder around one kernel, ready for rounds of optimisation.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "execute/git.h"
#include "knowledge/memory.h"
#include "record/backend.h"
#include "record/json.h"
#include "record/listing.h"
#include "record/workspace.h"
#include "roofline.h"
#include "roofline/analyse.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"
#include "workspace_file.h"

namespace fs = std::filesystem;

namespace ridge::cli {
namespace {

struct WorkspaceOptions {
  std::string name, kernel, platform, language, op;
  std::vector<std::string> words;
  std::int64_t threads = 1;
};

// Everything that must be said and was not, in one message: nothing is guessed.
Status check_inputs(const WorkspaceOptions& o) {
  std::string missing;
  const std::pair<const char*, const std::string*> needed[] = {{"--kernel FILE", &o.kernel},
                                                               {"--platform PRODUCT or this", &o.platform},
                                                               {"--language cuda, hip or c++", &o.language}};
  for (const auto& [flag, value] : needed) {
    if (value->empty()) missing += (missing.empty() ? "" : "; ") + std::string(flag);
  }
  if (!missing.empty()) return with_hint(invalid("a workspace also needs: {}", missing), "these are never guessed");
  if (o.language != "cuda" && o.language != "hip" && o.language != "c++") {
    return with_hint(invalid("--language {} is unknown", o.language), "use cuda, hip or c++");
  }
  std::error_code ignored;
  if (!fs::is_regular_file(o.kernel, ignored))
    return make_error(ErrorCode::kNotFound, "there is no kernel {}", o.kernel);
  if (fs::exists(o.name, ignored))
    return with_hint(make_error(ErrorCode::kConflict, "{} exists already", o.name),
                     "a workspace never overwrites anything");
  return ok_status();
}

// What compilers and profilers leave behind; a pattern without a slash holds in every folder below.
constexpr const char* kIgnored =
    "*.ncu-rep\n*.nsys-rep\n*.sqlite\n*.rpd\nperf.data*\nmemory/.lock\n/campaigns/\n*.o\n*.so\n*.a\n*.ptx\n*.cubin\n"
    "*.fatbin\n*.hsaco\n*.co\na.out\n__pycache__/\n";

std::string task_context(const WorkspaceOptions& o) {
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

std::string isa_targets(const WorkspaceOptions& o) {
  std::string text = "## ISA Targets\n\n| metric | target | read by |\n|---|---|---|\n";
  if (o.language == "c++") {
    text += "| fma_scalar | 0 where fma_f32 is possible | `ridge inspect kernel.o` |\n";
  } else {
    text +=
        "| spill_store_bytes, spill_load_bytes | 0 | `ridge inspect kernel.cubin` |\n| matrix | above 0 for a matrix "
        "product | `ridge inspect --expect-matrix` |\n";
    text += "| load_global of 128 bits | TBD from the first inspection | `ridge inspect kernel.cubin` |\n";
  }
  return text + "\n";
}

// The sections that an operator with cases gives; "TBD" where nothing is known yet.
Result<std::string> limits(const WorkspaceOptions& o) {
  if (o.op.empty() || o.words.empty()) {
    return std::string(
        "## Hardware Spec\n\nTBD\n\n## Roofline\n\nTBD: `ridge roofline --flop N --bytes N --on PRODUCT --write "
        "README.md`\n\n## Stop Conditions\n\nTBD\n\n");
  }
  const record::BackendInfo& info = record::backend_of_language(o.language);
  const std::string here(info.host || !info.measured ? "" : info.name);
  RIDGE_TRY(reports, rooflines(o.op, o.words, o.platform == "this" ? here : o.platform, o.threads));
  // The tightest case sets the target of the workspace; every case has its line.
  std::string text = roofline::to_markdown(reports.front());
  if (reports.size() > 1) {
    text += "Other cases:\n\n";
    for (std::size_t i = 1; i < reports.size(); ++i)
      text += fmt::format("- {}: {}\n", reports[i].label, reports[i].stop_conditions.front());
    text += "\n";
  }
  return text;
}

Status write_workspace(const WorkspaceOptions& o) {
  const fs::path folder = o.name;
  RIDGE_TRY(sections, limits(o));
  RIDGE_TRY(kernel, read_file(o.kernel));
  RIDGE_CHECK_OK(make_directories(folder));
  RIDGE_CHECK_OK(write_file_durably(folder / fs::path(o.kernel).filename(), kernel));
  RIDGE_CHECK_OK(write_file_durably(folder / "README.md", task_context(o) + sections + isa_targets(o)));
  const record::Workspace file{1,
                               fs::path(o.name).filename().string(),
                               fs::path(o.kernel).filename().string(),
                               o.platform,
                               o.language,
                               o.op,
                               o.words,
                               o.threads};
  RIDGE_CHECK_OK(write_file_durably(folder / kWorkspaceFile, record::to_pretty(file) + "\n"));
  RIDGE_CHECK_OK(write_file_durably(folder / ".gitignore", kIgnored));
  for (const char* empty : {"memory", "plans", "profiles"})
    RIDGE_CHECK_OK(write_file_durably(folder / empty / ".keep", ""));
  const Result<knowledge::Memory> memory = knowledge::Memory::init(folder);
  if (!memory) return memory.error();
  const std::unique_ptr<execute::Git> git = execute::make_git(folder);
  RIDGE_CHECK_OK(git->init());
  RIDGE_CHECK_OK(git->add({"."}));
  RIDGE_TRY(commit, git->commit("Workspace of " + o.name));
  if (!globals().quiet) say(stderr, "{}: committed as {}\n", o.name, commit.substr(0, 12));
  return ok_status();
}

int init(const WorkspaceOptions& o) {
  Status done = check_inputs(o);
  if (done) done = write_workspace(o);
  if (!done) return fail(done.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(record::ListedItem{o.name, "kernel, README.md, memory, plans, profiles"}));
  } else {
    say("{}: kernel, README.md, memory/, plans/, profiles/\n", o.name);
  }
  return kSuccess;
}

}  // namespace

void define_workspace(Command root) {
  auto o = std::make_shared<WorkspaceOptions>();
  Command workspace =
      root.subcommand("workspace", "An isolated folder around one kernel, ready for rounds of optimisation");
  workspace
      .subcommand("init", "Make the folder: kernel, README with targets, memory, plans, profiles, and a first commit")
      .positional("name", o->name, "Folder to make; it must not exist")
      .positional("case", o->words, "Cases of the operator, for instance m=4096 n=4096 k=4096", false)
      .option("--kernel FILE", o->kernel, "The kernel's source; it is copied")
      .option("--platform PRODUCT", o->platform,
              "A product of ridge spec list, or this: the processor of this machine, or its GPU for cuda")
      .option("--language cuda|hip|c++", o->language, "cuda, hip or c++")
      .option("--op OPERATOR", o->op, "Operator that the kernel implements; with cases it gives the targets")
      .option("--threads", o->threads, "CPU threads, for this processor")
      .example(
          "ridge workspace init fast_gemm m=512 n=512 k=512 --op gemm --kernel my_gemm.cpp --platform this --language "
          "c++",
          "targets from measured ceilings")
      .example(
          "ridge workspace init fast_gemm m=4096 n=4096 k=4096 dtype=bf16 --op gemm --kernel my_gemm.cu --platform "
          "this "
          "--language cuda",
          "the same for a kernel of the GPU here")
      .example("ridge workspace init norm --kernel norm.cu --platform H200 --language cuda",
               "targets to be filled in by ridge roofline --write")
      .example("ridge optimize --workspace fast_gemm --yes --budget 5m", "then: a campaign on it")
      .exits({kUnavailable, kSystem, {kHeld, "the folder exists already"}, kInterrupted})
      .json("the name of the folder and what it holds")
      .action([o] { return init(*o); });
}

}  // namespace ridge::cli
