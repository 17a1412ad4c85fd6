#include "service/harness.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "execute/project_device.h"
#include "hardware/spec.h"
#include "project/harness.h"
#include "roofline/machine.h"
#include "service/campaign_run.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

std::string ask(const HarnessRequest& request, const std::string& question, const std::string& otherwise) {
  return request.ask ? request.ask(question, otherwise) : otherwise;
}

// FLOP of one core in a second that no processor of today exceeds in f32: two units of 16 lanes, 5 GHz. Tiles (AMX) do
// 32 times as many on bf16 and f16, and vectors less. And bytes.
constexpr double kMostFlopPerCore = 2.0 * 2 * 16 * 5e9, kHalfWidthFactor = 32, kMostBytes = 1e12;

// TFLOPS that no processor of this machine's number of cores exceeds.
double most_tflops(const std::string& dtype) {
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  return cores * kMostFlopPerCore * (dtype == "f32" ? 1 : kHalfWidthFactor) / 1e12;
}

std::string or_else(const std::string& given, const std::string& found) { return given.empty() ? found : given; }

// The documents' peak of a GPU by its name, or what the processors of this machine could do at most; 0 for not known.
double peak_of(const Context& context, const project::HarnessSpec& spec, const std::string& device) {
  const bool bytes = spec.form == project::Form::kRows;
  if (project::backend_of_language(spec.language) == "cpu") return bytes ? kMostBytes / 1e9 : most_tflops(spec.dtype);
  const Result<hardware::Database> database = hardware::Database::open(context.data_directory);
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
std::string device_named(const HarnessRequest& options, const project::HarnessSpec& spec) {
  if (!options.device.empty()) return options.device;
  project::Project project;
  project.root = options.project;
  project.backend = project::backend_of_language(spec.language);
  project.prefix = spec.prefix;
  const Result<std::string> device = execute::device_of(project);
  return device ? *device : std::string();
}

Status add_commands(const HarnessRequest& options, const project::Findings& found, project::HarnessSpec& spec) {
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

Status add_numbers(const Context& context, const HarnessRequest& options, project::HarnessSpec& spec) {
  const std::string device = device_named(options, spec);
  const bool gpu = project::backend_of_language(spec.language) != "cpu";
  const std::string shapes =
      options.shapes.empty() ? ask(options, "Shapes", project::default_shapes(spec.form, gpu)) : options.shapes;
  RIDGE_TRY(parsed, project::parse_shapes(shapes, spec.form));
  spec.shapes = std::move(parsed);
  spec.device = options.device;
  spec.peak = options.peak > 0 ? options.peak : peak_of(context, spec, device);
  if (spec.peak > 0) return ok_status();
  const std::string unit = spec.form == project::Form::kRows ? "GB/s" : "TFLOPS";
  const std::string answer =
      ask(options, fmt::format("Peak of {} in {}", device.empty() ? "the device" : device, unit), "");
  spec.peak = std::strtod(answer.c_str(), nullptr);
  if (spec.peak > 0) return ok_status();
  return with_hint(invalid("the peak of {} is not known", device.empty() ? "the project's device" : device),
                   fmt::format("say it in {}: --peak; ridge spec list names the devices that are known", unit));
}

// From flags, then what the project's files tell, then questions on a terminal.
Result<project::HarnessSpec> spec_of_init(const Context& context, const HarnessRequest& options) {
  const fs::path root = options.project;
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) return make_error(ErrorCode::kNotFound, "{} is no folder", root.string());
  std::string first = options.kernel.empty() ? std::string() : options.kernel.front();
  project::Findings found = project::look_around(root, first);
  if (found.kernel.empty()) {
    found.kernel = ask(options, "The kernel's file, in " + root.string(), "");
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
  spec.call = options.call.empty() ? ask(options, "The function to call", found.call) : options.call;
  spec.op = or_else(options.op, or_else(spec.call.substr(spec.call.rfind(':') + 1), found.op));
  spec.dtype = options.dtype;
  spec.backward = !options.forward_only;
  spec.reference = options.reference;
  spec.branch = options.branch;
  spec.constraints = options.constraints;
  record::CampaignSpec scratch;
  RIDGE_CHECK_OK(add_wishes(scratch, options.branch, options.constraints));
  RIDGE_CHECK_OK(add_commands(options, found, spec));
  RIDGE_CHECK_OK(add_numbers(context, options, spec));
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

}  // namespace

Result<record::HandoffInit> write_harness(const Context& context, const HarnessRequest& options) {
  RIDGE_TRY(spec, spec_of_init(context, options));
  RIDGE_TRY(files, project::harness_files(spec, context.data_directory / "harness"));
  record::HandoffInit report{options.project, !options.dry_run, {}, {}};
  for (const auto& [path, text] : files) report.files.push_back({path, text});
  if (!options.dry_run) RIDGE_CHECK_OK(write_files(options.project, files, options.force));
  return report;
}

}  // namespace ridge::service
