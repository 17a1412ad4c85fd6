// ridge handoff init: writes a harness and a ridge-project.toml into a project, and tries them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "campaign_run.h"
#include "execute/project_device.h"
#include "handoff.h"
#include "hardware/spec.h"
#include "project/harness.h"
#include "record/json.h"
#include "roofline/machine.h"
#include "say.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct InitOptions {
  std::string project = ".", op, call, language, form = "product", dtype = "f32", shapes, reference, artifact, device,
              prefix, build, acceptance, branch;
  std::vector<std::string> kernel, constraints;
  double peak = 0;
  bool forward_only = false, force = false, dry_run = false, no_check = false;
};

// FLOP of one core in a second that no processor of today exceeds in f32: two units of 16 lanes, 5 GHz. Tiles (AMX) do
// 32 times as many on bf16 and f16, and vectors less. And bytes.
constexpr double kMostFlopPerCore = 2.0 * 2 * 16 * 5e9, kHalfWidthFactor = 32, kMostBytes = 1e12;

// TFLOPS that no processor of this machine's number of cores exceeds.
double most_tflops(const std::string& dtype) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  return cores * kMostFlopPerCore * (dtype == "f32" ? 1 : kHalfWidthFactor) / 1e12;
}

bool can_ask() { return ::isatty(STDIN_FILENO) == 1 && !globals().json; }

// An answer of one line, or what stands in brackets; on no terminal what stands there.
std::string ask(const std::string& question, const std::string& otherwise) {
  if (!can_ask()) return otherwise;
  say(stderr, "{}{}: ", question, otherwise.empty() ? "" : " [" + otherwise + "]");
  std::string answer;
  std::getline(std::cin, answer);
  return answer.empty() ? otherwise : answer;
}

std::string or_else(const std::string& given, const std::string& found) { return given.empty() ? found : given; }

// The documents' peak of a GPU by its name, or what the processors of this machine could do at most; 0 for not known.
double peak_of(const project::HarnessSpec& spec, const std::string& device) {
  const bool bytes = spec.form == project::Form::kRows;
  if (project::backend_of_language(spec.language) == "cpu") return bytes ? kMostBytes / 1e9 : most_tflops(spec.dtype);
  const Result<hardware::Database> database = hardware::Database::open(data_directory());
  if (!database) return 0;
  const Result<const hardware::Spec*> found = database->find(device);
  if (!found) return 0;
  if (bytes) {
    const Result<roofline::Machine> machine = roofline::machine_of(**found, {});
    return machine && !machine->memory.empty() ? machine->memory.front().peak / 1e9 : 0;
  }
  // A kernel of f32 may round its operands to TF32.
  for (const char* dtype : {spec.dtype == "f32" ? "tf32" : spec.dtype.c_str(), spec.dtype.c_str()}) {
    if (const Result<roofline::Limit> limit = roofline::arithmetic_limit(**found, dtype, {})) return limit->peak / 1e12;
  }
  return 0;
}

// The device as the user or the project's own prefix names it; empty where neither can.
std::string device_named(const InitOptions& options, const project::HarnessSpec& spec) {
  if (!options.device.empty()) return options.device;
  project::Project project;
  project.root = options.project;
  project.backend = project::backend_of_language(spec.language);
  project.prefix = spec.prefix;
  const Result<std::string> device = execute::device_of(project);
  return device ? *device : std::string();
}

Status add_commands(const InitOptions& options, const project::Findings& found, project::HarnessSpec& spec) {
  const auto words = [](const std::string& given, const project::Command& otherwise) -> Result<project::Command> {
    return given.empty() ? Result<project::Command>(otherwise) : project::command_words(given);
  };
  RIDGE_TRY(prefix, words(options.prefix, {}));
  RIDGE_TRY(build, words(options.build, found.build));
  RIDGE_TRY(acceptance, words(options.acceptance, found.acceptance));
  spec.prefix = std::move(prefix);
  spec.build = std::move(build);
  spec.acceptance = std::move(acceptance);
  spec.artifact = options.artifact;
  spec.standard = found.standard;
  spec.includes = found.includes;
  return ok_status();
}

Status add_numbers(const InitOptions& options, project::HarnessSpec& spec) {
  const std::string device = device_named(options, spec);
  const bool gpu = project::backend_of_language(spec.language) != "cpu";
  const std::string shapes =
      options.shapes.empty() ? ask("Shapes", project::default_shapes(spec.form, gpu)) : options.shapes;
  RIDGE_TRY(parsed, project::parse_shapes(shapes, spec.form));
  spec.shapes = std::move(parsed);
  spec.device = options.device;
  spec.peak = options.peak > 0 ? options.peak : peak_of(spec, device);
  if (spec.peak > 0) return ok_status();
  const std::string unit = spec.form == project::Form::kRows ? "GB/s" : "TFLOPS";
  const std::string answer = ask(fmt::format("Peak of {} in {}", device.empty() ? "the device" : device, unit), "");
  spec.peak = std::strtod(answer.c_str(), nullptr);
  if (spec.peak > 0) return ok_status();
  return with_hint(invalid("the peak of {} is not known", device.empty() ? "the project's device" : device),
                   fmt::format("say it in {}: --peak; ridge spec list names the devices that are known", unit));
}

// From flags, then what the project's files tell, then questions on a terminal.
Result<project::HarnessSpec> spec_of_init(const InitOptions& options) {
  const fs::path root = options.project;
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) return make_error(ErrorCode::kNotFound, "{} is no folder", root.string());
  std::string first = options.kernel.empty() ? std::string() : options.kernel.front();
  project::Findings found = project::look_around(root, first);
  if (found.kernel.empty()) {
    found.kernel = ask("The kernel's file, in " + root.string(), "");
    if (found.kernel.empty()) {
      return with_hint(invalid("{} does not show which file is the kernel", root.string()), "name it: --kernel FILE");
    }
    found = project::look_around(root, found.kernel);
  }
  if (!fs::is_regular_file(root / found.kernel, ignored))
    return make_error(ErrorCode::kNotFound, "{} has no file {}", root.string(), found.kernel);
  project::HarnessSpec spec;
  RIDGE_TRY(form, project::parse_form(options.form));
  spec.form = form;
  spec.kernel = options.kernel.empty() ? std::vector<std::string>{found.kernel} : options.kernel;
  spec.language = options.language == "cpp" ? "c++" : or_else(options.language, found.language);
  spec.call = options.call.empty() ? ask("The function to call", found.call) : options.call;
  spec.op = or_else(options.op, or_else(spec.call.substr(spec.call.rfind(':') + 1), found.op));
  spec.dtype = options.dtype;
  spec.backward = !options.forward_only;
  spec.reference = options.reference;
  spec.branch = options.branch;
  spec.constraints = options.constraints;
  record::CampaignSpec scratch;
  RIDGE_CHECK_OK(add_wishes(scratch, options.branch, options.constraints));
  RIDGE_CHECK_OK(add_commands(options, found, spec));
  RIDGE_CHECK_OK(add_numbers(options, spec));
  return spec;
}

Status write_files(const fs::path& root, const std::map<std::string, std::string>& files, bool force) {
  std::error_code ignored;
  for (const auto& [path, text] : files) {
    if (force || !fs::exists(fs::symlink_status(root / path, ignored))) continue;
    return with_hint(make_error(ErrorCode::kConflict, "{} is there already", (root / path).string()),
                     "--force writes over it, --dry-run shows what would be written");
  }
  for (const auto& [path, text] : files) RIDGE_CHECK_OK(write_file_durably(root / path, text));
  return ok_status();
}

int init(const InitOptions& options) {
  const Result<project::HarnessSpec> spec = spec_of_init(options);
  if (!spec) return fail(spec.error());
  const auto files = project::harness_files(*spec, data_directory() / "harness");
  if (!files) return fail(files.error());
  record::HandoffInit report{options.project, !options.dry_run, {}, {}};
  for (const auto& [path, text] : *files) report.files.push_back({path, text});
  int code = kSuccess;
  if (!options.dry_run) {
    if (const Status written = write_files(options.project, *files, options.force); !written)
      return fail(written.error());
  }
  for (const auto& [path, text] : *files) {
    if (globals().json) break;
    if (options.dry_run) {
      say("--- {}\n{}", (fs::path(options.project) / path).string(), text);
    } else {
      say("Wrote {}\n", (fs::path(options.project) / path).string());
    }
  }
  if (!options.dry_run && !options.no_check) {
    const Result<project::Project> project = project::read_project(options.project);
    if (!project) return fail(project.error());
    const Result<HandoffResult> result = try_project(*project, false);
    if (!result) return fail(result.error());
    report.checks = result->rows;
    code = result->exit_code();
    if (!globals().json) say_handoff(*result, *project, options.project, false);
  }
  if (globals().json) say("{}\n", record::to_pretty(report));
  return code;
}

}  // namespace

void define_handoff_init(Command& handoff) {
  auto o = std::make_shared<InitOptions>();
  handoff.inner_command("init", "Write a harness and a ridge-project.toml into a project, then check it")
      .option("--project DIR", o->project, "The project's folder (default: here)")
      .option("--kernel FILE", o->kernel, "A file that a campaign may change; relative to the folder; may be repeated")
      .option("--call NAME", o->call,
              "What the harness calls: MODULE:FUNCTION of Python (PyTorch tensors), or a function of C++")
      .option("--language c++|cpp|cuda|hip|python|triton", o->language, "Of the kernel; by default its file says it")
      .option("--form product|grouped|rows", o->form,
              "out = a b; the same with a b for every group of rows; or any function of each row of x")
      .option("--dtype f32|bf16|f16", o->dtype, "Of the tensors")
      .option("--shapes LIST", o->shapes,
              "small=64x64x64,... (M N K); grouped: even=256x512:16/16/0 (N K : tokens of each group); rows: "
              "tall=4096x64")
      .option("--reference NAME", o->reference, "MODULE:FUNCTION that gives form rows in float64")
      .flag("--forward-only", o->forward_only, "The kernel has no backward pass")
      .option("--op NAME", o->op, "What the kernel computes; by default the name of its function")
      .option("--build COMMAND", o->build, "Cut into words; no shell runs it")
      .option("--artifact FILE", o->artifact, "What the build makes")
      .option("--acceptance COMMAND", o->acceptance, "The whole test suite, for the best kernel at the end")
      .option("--prefix COMMAND", o->prefix, "Begins every command: ssh box, docker exec c")
      .option("--device NAME", o->device, "The device; by default it is asked, through the prefix")
      .option("--peak X", o->peak, "What the device could do at most: TFLOPS, or GB/s of form rows")
      .option("--branch NAME", o->branch, "Branch that campaigns on this project commit to (default: optimize/<id>)")
      .option("--constraint TEXT", o->constraints,
              "What campaigns on this project must keep to, told to every proposer (repeatable)")
      .flag("--force", o->force, "Write over files that are there")
      .flag("--dry-run", o->dry_run, "Print what would be written, and write nothing")
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
      .action([o] { return init(*o); });
}

}  // namespace ridge::cli
