// ridge workspace: an isolated folder around one kernel, ready for rounds of optimisation.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "project/harness.h"
#include "record/backend.h"
#include "record/json.h"
#include "record/listing.h"
#include "roofline.h"
#include "roofline/analyse.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"
#include "workspace_init.h"

namespace fs = std::filesystem;

namespace ridge::cli {
namespace {

// Everything that must be said and was not, in one message: nothing is guessed.
Status check_inputs(const WorkspaceOptions& o) {
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

// The sections that an operator with cases gives; "TBD" where nothing is known yet.
Result<std::string> limits(const WorkspaceOptions& o) {
  if (o.op.empty() || o.words.empty()) {
    return std::string(
        "## Hardware Spec\n\nTBD\n\n## Roofline\n\nTBD: `ridge roofline --flop N --bytes N --on PRODUCT --write "
        "README.md`\n\n## Stop Conditions\n\nTBD\n\n");
  }
  const record::BackendInfo& info = record::backend_of_language(o.language);
  const std::string here(info.host || !info.measured ? "" : info.name);
  const auto reports = rooflines(o.op, o.words, o.platform == "this" ? here : o.platform, o.threads, o.given);
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

Status write_workspace(const WorkspaceOptions& o) {
  if (!o.reference.empty()) return write_reference_workspace(o);
  const fs::path folder = o.name;
  RIDGE_TRY(sections, limits(o));
  RIDGE_TRY(kernel, read_file(o.kernel));
  const std::string file = fs::path(o.kernel).filename().string();
  record::Workspace workspace{1, folder.filename().string(), file, o.platform, o.language, o.op, o.words, o.threads, {},
                              {}};
  RIDGE_TRY(hardware, hardware_limits(o, workspace.unknown));
  RIDGE_CHECK_OK(make_directories(folder));
  RIDGE_CHECK_OK(write_file_durably(folder / file, kernel));
  return finish_workspace(task_context(o) + sections + hardware + isa_targets(o), workspace, o.name);
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
      .option("--kernel FILE", o->kernel,
              "The kernel's source; it is copied. Without one a reference in Python is the first kernel itself")
      .option("--reference FILE[:NAME]", o->reference,
              "What is right, run in float64, instead of an operator: a module or function of PyTorch with get_inputs "
              "(model.py:Model), or a function of C++ in double (ref.cpp)")
      .option("--call NAME", o->call,
              "What is called in the kernel: MODULE:CLASS or MODULE:FUNCTION of Python, or a function of C++")
      .option("--shapes LIST", o->shapes,
              "Of a reference: LABEL=SIZExSIZE,... handed to get_inputs and get_init_inputs, or the sizes of ref.cpp")
      .option("--dtype f32|bf16|f16", o->dtype,
              "Of floating-point operands; without it they are what get_inputs gives, f32 of ref.cpp")
      .flag("--backward", o->backward, "Gradients are checked and timed, too, as PyTorch takes them of the reference")
      .option("--platform PRODUCT", o->platform,
              "A product of ridge spec list, or this: the processor of this machine, or its GPU for cuda")
      .option("--language cuda|hip|c++|python|triton|cutedsl", o->language,
              "Of the kernel; those of Python with a --reference, and python is any other language embedded in it")
      .option("--op OPERATOR", o->op, "Operator that the kernel implements; with cases it gives the targets")
      .option("--threads", o->threads, "CPU threads, for this processor")
      .option("--measured RATE", o->given.arithmetic, "What no source states or you measured: arithmetic, 148TFLOPS")
      .option("--bandwidth RATE", o->given.bandwidth, "The same of the memory, 4TB/s")
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
      .example("ridge workspace init fast_norm --reference model.py:Model --platform this --language python",
               "any module with get_inputs and get_init_inputs; the first kernel is a copy of it")
      .example(
          "ridge workspace init fast_norm --reference model.py:Model --kernel norm.cu --call norm --platform H200 "
          "--language cuda",
          "a CUDA function, whose signature is written to fast_norm/signature.h")
      .example(
          "ridge workspace init fast_softmax --reference ref.cpp --kernel softmax.cpp --shapes wide=8x4096 --platform "
          "this --language c++",
          "a reference in double; docs/workspace.md shows the comment that says its operands")
      .example("ridge optimize --workspace fast_gemm --yes --budget 5m", "then: a campaign on it")
      .exits({{kUnavailable, "python3 has no PyTorch, or this machine's ceilings cannot be measured"},
              kSystem,
              {kHeld, "the folder exists already, or the reference cannot judge: it says why"},
              kInterrupted})
      .json("the name of the folder and what it holds")
      .action([o] { return init(*o); });
}

}  // namespace ridge::cli
