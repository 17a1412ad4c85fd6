// ridge handoff init: writes a harness and a ridge-project.toml into a project, and tries them.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "handoff_words.h"
#include "say.h"
#include "service/harness.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct InitOptions {
  service::HarnessRequest request;
  bool no_check = false;
};

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && !globals().json; }

// An answer of one line, or what stands in brackets; on no terminal what stands there.
std::string answer_to(const std::string& question, const std::string& otherwise) {
  if (!can_ask()) return otherwise;
  say(stderr, "{}{}: ", question, otherwise.empty() ? "" : " [" + otherwise + "]");
  std::string answer;
  std::getline(std::cin, answer);
  return answer.empty() ? otherwise : answer;
}

void print_files(const service::HarnessRequest& request, const record::HandoffInit& report) {
  for (const record::HandoffInit::File& file : report.files) {
    const std::string path = (fs::path(request.project) / file.path).string();
    if (request.dry_run)
      say("--- {}\n{}", path, file.text);
    else
      say("Wrote {}\n", path);
  }
}

int init(const Context& context, InitOptions options) {
  options.request.ask = answer_to;
  Result<record::HandoffInit> report = service::write_harness(context, options.request);
  if (!report) return fail(report.error());
  if (!globals().json) print_files(options.request, *report);
  int code = kSuccess;
  if (!options.request.dry_run && !options.no_check) {
    const Result<service::HandedProject> handed = service::hand_off(context, {.project = options.request.project});
    if (!handed) return fail(handed.error());
    report->checks = handed->report.rows;
    code = exit_code_of(handed->report);
    if (!globals().json) say_handoff(handed->report, handed->project, options.request.project, false);
  }
  return globals().json ? print_json(*report, code) : code;
}

}  // namespace

void define_handoff_init(Command& handoff) {
  auto o = std::make_shared<InitOptions>();
  handoff.inner_command("init", "Write a harness and a ridge-project.toml into a project, then check it")
      .option("--project DIR", o->request.project, "The project's folder (default: here)")
      .option("--kernel FILE", o->request.kernel,
              "A file that a campaign may change; relative to the folder; may be repeated")
      .option("--call NAME", o->request.call,
              "What the harness calls: MODULE:FUNCTION of Python (PyTorch tensors), or a function of C++")
      .option("--language c++|cpp|cuda|hip|python|triton", o->request.language,
              "Of the kernel; by default its file says it")
      .option("--form product|grouped|rows", o->request.form,
              "out = a b; the same with a b for every group of rows; or any function of each row of x")
      .option("--dtype f32|bf16|f16", o->request.dtype, "Of the tensors")
      .option("--shapes LIST", o->request.shapes,
              "small=64x64x64,... (M N K); grouped: even=256x512:16/16/0 (N K : tokens of each group); rows: "
              "tall=4096x64")
      .option("--reference NAME", o->request.reference, "MODULE:FUNCTION that gives form rows in float64")
      .flag("--forward-only", o->request.forward_only, "The kernel has no backward pass")
      .option("--op NAME", o->request.op, "What the kernel computes; by default the name of its function")
      .option("--build COMMAND", o->request.build, "Cut into words; no shell runs it")
      .option("--artifact FILE", o->request.artifact, "What the build makes")
      .option("--acceptance COMMAND", o->request.acceptance, "The whole test suite, for the best kernel at the end")
      .option("--prefix COMMAND", o->request.prefix, "Begins every command: ssh box, docker exec c")
      .option("--device NAME", o->request.device, "The device; by default it is asked, through the prefix")
      .option("--peak X", o->request.peak, "What the device could do at most: TFLOPS, or GB/s of form rows")
      .option("--branch NAME", o->request.branch,
              "Branch that campaigns on this project commit to (default: optimize/<id>)")
      .option("--constraint TEXT", o->request.constraints,
              "What campaigns on this project must keep to, told to every proposer (repeatable)")
      .flag("--force", o->request.force, "Write over files that are there")
      .flag("--dry-run", o->request.dry_run, "Print what would be written, and write nothing")
      .flag("--no-check", o->no_check, "Do not run the handoff afterwards")
      .example("ridge handoff init --project my_kernels",
               "reads the folder, asks for what it does not show, writes the files and tries them")
      .example("ridge handoff init --project my_kernels --kernel kernel.py --call kernel:matmul --dtype bf16 --dry-run",
               "prints quick_test_bench.py and ridge-project.toml")
      .example("ridge handoff init --project . --kernel matmul.cu --shapes large=4096x4096x4096 --peak 67",
               "a C++ harness with a main() of its own, built by nvcc")
      .exits({{kNo, "the files are written, and something of the project does not work"},
              {kUnavailable, "a program that the project's build needs is not installed here"},
              kSystem,
              {kHeld, "a file is there already; see --force"}})
      .json("the files with their text, whether they were written, and what the handoff found")
      .action([o](const Context& context) { return init(context, *o); });
}

}  // namespace ridge::cli
