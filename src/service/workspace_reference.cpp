// A workspace whose kernel is judged by a reference of the user's: a project with a harness made for that reference.
#include <fmt/ranges.h>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "execute/reference.h"
#include "hardware/spec.h"
#include "project/harness.h"
#include "record/json.h"
#include "roofline/analyse.h"
#include "roofline/machine.h"
#include "service/workspace_parts.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// B/s that no memory of today exceeds: of one processor, and of a GPU of which no source states it.
constexpr double kMostHostBandwidth = 1e12, kMostBandwidth = 30e12;

// What no file and no flag says is refused; nothing of the reference has run yet.
struct Plan {
  project::HarnessSpec spec;
  fs::path reference, kernel;  // where they are copied from
  std::string reference_file, peak_from;
};

// The class or function of a Python kernel: ModelNew, what the reference's is called, or the last function of the file.
std::string python_call(const std::string& file, const std::string& text, const std::string& reference_name) {
  std::string module = fs::path(file).stem().string();
  for (const std::string& name : {std::string("ModelNew"), reference_name}) {
    for (const char* const word : {"class ", "def "}) {
      if (("\n" + text).find("\n" + std::string(word) + name) != std::string::npos) return module + ":" + name;
    }
  }
  return {};
}

Result<std::string> call_of(const WorkspaceRequest& o, const Plan& plan, const std::string& reference_name) {
  if (!o.call.empty()) return o.call;
  RIDGE_TRY(text, read_file(plan.kernel));
  const std::string file = plan.spec.kernel.front();
  std::string call = project::is_python(o.language) ? python_call(file, text, reference_name) : std::string();
  if (call.empty()) call = project::look_around(plan.kernel.parent_path(), file).call;
  if (!call.empty()) return call;
  return with_hint(invalid("{} does not show what is to be called", plan.kernel.string()), "name it: --call NAME");
}

// Of a Python kernel the backend is what the platform is; of another what its language is for, which the platform must
// be.
Result<std::string> backend_for(const Context& context, const WorkspaceRequest& o) {
  const std::string own = project::backend_of_language(o.language);
  if (o.platform == "this") return own;
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(o.platform));
  const std::string there = !spec->is_gpu() ? "cpu" : spec->vendor == "NVIDIA" ? "cuda" : "hip";
  if (o.language == "python" || own == there || (own == "triton" && there != "cpu"))
    return o.language == "python" ? there : own;
  return with_hint(invalid("{} runs no {} kernel", spec->product, o.language), "--platform this is the device here");
}

// GB/s that no call may exceed, and where that is from. A platform of which nothing is known does not stop the
// workspace.
Status add_peak(const Context& context, const WorkspaceRequest& o, Plan& plan) {
  roofline::Override given;
  if (!o.given.bandwidth.empty()) {
    RIDGE_TRY(value, bandwidth_of(o.given.bandwidth));
    given.bandwidth = value;
  }
  double peak = given.bandwidth;
  plan.peak_from = "as given";
  if (!(peak > 0) && o.platform != "this") {
    RIDGE_TRY(database, hardware::Database::open(context.data_directory));
    RIDGE_TRY(spec, database.find(o.platform));
    RIDGE_TRY(machine, roofline::machine_of(*spec, given));
    peak = machine.memory.front().peak;
    plan.peak_from = machine.memory.front().source;
  }
  if (!(peak > 0)) {
    const bool host = o.platform == "this" && plan.spec.backend == "cpu";
    peak = host ? kMostHostBandwidth : kMostBandwidth;
    plan.peak_from = host ? "no processor has more" : "no device has more; what this one has is not known: --bandwidth";
  }
  plan.spec.peak = peak / 1e9;
  return ok_status();
}

Status add_shapes(const WorkspaceRequest& o, bool of_cpp, Plan& plan) {
  if (o.shapes.empty() && of_cpp)
    return with_hint(invalid("a reference in C++ needs shapes"),
                     fmt::format("--shapes LABEL={}", fmt::join(plan.spec.block.sizes, "x")));
  if (o.shapes.empty()) {
    plan.spec.shapes = {{"default", {}, {}}};
    return ok_status();
  }
  RIDGE_TRY(shapes, project::parse_shapes(o.shapes, project::Form::kModule));
  for (const project::HarnessShape& shape : shapes) {
    if (!of_cpp || shape.sizes.size() == plan.spec.block.sizes.size()) continue;
    return invalid("the shape \"{}\" has {} sizes; {} takes {}", shape.label, shape.sizes.size(),
                   plan.spec.block.function, fmt::join(plan.spec.block.sizes, " x "));
  }
  plan.spec.shapes = std::move(shapes);
  return ok_status();
}

// A name of letters, digits and _ for what the kernel computes.
std::string op_of(const WorkspaceRequest& o) {
  std::string name = o.op.empty() ? fs::path(o.name).filename().string() : o.op;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0 ? "op_" + name : name;
}

// The reference and the kernel lie beside what the workspace writes itself.
Status check_names(const std::string& reference, const std::string& kernel) {
  constexpr const char* kWritten[] = {project::kModuleHarness, project::kSignature, project::kReferenceSignature};
  if (reference == kernel)
    return with_hint(invalid("{} is the name of two files of the workspace", kernel),
                     "the reference and the kernel lie side by side: call the kernel otherwise");
  for (const auto& [what, name] : {std::pair("reference", reference), std::pair("kernel", kernel)}) {
    if (std::ranges::find(kWritten, name, [](const char* one) { return std::string(one); }) == std::end(kWritten))
      continue;
    return with_hint(invalid("the {} {} has the name of a file that the workspace writes itself", what, name),
                     fmt::format("rename it, for instance to my_{}", name));
  }
  return ok_status();
}

Result<Plan> plan_of(const Context& context, const WorkspaceRequest& o) {
  Plan plan;
  auto [file, name] = project::reference_words(o.reference);
  plan.reference = file;
  plan.reference_file = fs::path(file).filename().string();
  const bool of_cpp = file.ends_with(".cpp");
  if (!of_cpp && !file.ends_with(".py"))
    return with_hint(invalid("the reference {} is no .py and no .cpp", file),
                     "for instance --reference model.py:Model");
  RIDGE_TRY(source, read_file(plan.reference));
  if (of_cpp) {
    Result<record::ReferenceBlock> parsed = record::parse_reference_block(source);
    if (!parsed) return in_context(file, parsed.error());
    record::ReferenceBlock block = std::move(*parsed);
    if (!name.empty() && name != block.function) return invalid("{} describes {}, not {}", file, block.function, name);
    if (o.backward)
      return with_hint(invalid("a reference in C++ has no gradient"), "leave --backward out, or write it in PyTorch");
    name = block.function;
    plan.spec.block = std::move(block);
  }
  project::HarnessSpec& spec = plan.spec;
  spec.form = project::Form::kModule;
  spec.op = op_of(o);
  spec.language = o.language;
  RIDGE_TRY(backend, backend_for(context, o));
  spec.backend = backend;
  spec.device = o.platform == "this" ? "" : o.platform;
  spec.backward = o.backward;
  if (o.backward && !project::is_python(o.language))
    return with_hint(invalid("a {} kernel is one function without a gradient", o.language),
                     "leave --backward out, or call it from a torch.autograd.Function in a --language python kernel");
  spec.cast = !o.dtype.empty();
  spec.dtype = o.dtype.empty() ? "f32" : o.dtype;
  spec.reference = plan.reference_file + ":" + name;
  plan.kernel = o.kernel.empty() ? plan.reference : fs::path(o.kernel);
  const std::string kernel_file = o.kernel.empty() ? "kernel.py" : plan.kernel.filename().string();
  RIDGE_CHECK_OK(check_names(plan.reference_file, kernel_file));
  spec.kernel = {kernel_file};
  if (o.kernel.empty()) {
    spec.call = o.call.empty() ? "kernel:" + name : o.call;
  } else {
    RIDGE_TRY(call, call_of(o, plan, name));
    spec.call = call;
  }
  RIDGE_CHECK_OK(add_shapes(o, of_cpp, plan));
  RIDGE_CHECK_OK(add_peak(context, o, plan));
  return plan;
}

Status write_module_harness(const Context& context, const Plan& plan, const fs::path& folder) {
  RIDGE_TRY(files, project::harness_files(plan.spec, context.data_directory / "harness"));
  for (const auto& [path, text] : files) RIDGE_CHECK_OK(write_file_durably(folder / path, text));
  return ok_status();
}

std::string dims_text(const record::OperandFacts& one) {
  return one.scalar ? fmt::format("= {:g}", *one.scalar) : fmt::format("[{}]", fmt::join(one.shape, ", "));
}

// Operands, work and what is allowed, for each shape.
std::string reference_section(const Plan& plan, const record::ReferenceFacts& facts) {
  std::string text = fmt::format(
      "## Reference\n\n`{}` in float64, from operands that the kernel never sees. An element may be off by the "
      "rounding "
      "of the result, by what one rounding of every operand does to it (times 4 and the root of the numbers it adds "
      "up), and by 8 times what the reference itself is off in the working type; indices and counts by what rounding "
      "leaves undecided.\n\n",
      plan.spec.reference);
  for (const auto& [label, shape] : facts.shapes) {
    text += fmt::format(
        "Shape {}: {:.0f} bytes{}, at most {} numbers added up, largest error allowed {:.3g}.\n\n"
        "| operand | type | shape |\n|---|---|---|\n",
        label, shape.bytes, shape.flop > 0 ? fmt::format(", {:.0f} FLOP", shape.flop) : "", shape.sums,
        shape.largest_error);
    for (const auto* operands : {&shape.inputs, &shape.parameters, &shape.outputs}) {
      for (const record::OperandFacts& one : *operands)
        text += fmt::format("| {} | {} | {} |\n", one.name, one.dtype, dims_text(one));
    }
    text += "\n";
  }
  return text;
}

std::string context_of(const WorkspaceRequest& o, const Plan& plan) {
  const std::string call = project::is_library(plan.spec)
                               ? fmt::format("`{}`, as `{}` declares it", plan.spec.call, project::kSignature)
                               : fmt::format("`{}`", plan.spec.call);
  return fmt::format(
      "# {}\n\n## Task Context\n\n- kernel: `{}` ({}), the only file that changes; it is called as {}\n- reference: "
      "`{}`\n"
      "- platform: {}\n- tests: `python3 -B {} --test`; a table: `--summary-csv t.csv`; the operands: `--describe`\n"
      "- baseline: `ridge baseline`; rounds: `ridge optimize --workspace . --proposer ...`\n"
      "- one change per round; each round is one record in `memory/`, read before the next plan\n"
      "- no call may move more than {:g} GB/s ({})\n\n"
      "## Isolation\n\nThe harness `{}` owns inputs, outputs and clock, and the kernel runs in its process: weaker "
      "than "
      "for an operator of Ridgeline, whose worker shares nothing with the candidate. A second process that never sees "
      "the "
      "kernel checks the outputs of a timed call that the seed picks, and no process may claim more time than it "
      "ran.\n\n",
      o.name, plan.spec.kernel.front(), o.language, call, plan.spec.reference, o.platform, project::kModuleHarness,
      plan.spec.peak, plan.peak_from, project::kModuleHarness);
}

// The type that the arithmetic is counted in: that of the first floating-point input.
std::string working_type_of(const record::ReferenceShape& shape) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"float64", "f64"}, {"float32", "f32"}, {"bfloat16", "bf16"}, {"float16", "f16"}};
  for (const record::OperandFacts& one : shape.inputs) {
    for (const auto& [torch, name] : kNames) {
      if (one.dtype == torch && !one.scalar) return name;
    }
  }
  return "f32";
}

// The tightest shape's sections; UNKNOWN where nothing of the platform is known.
Result<std::string> roofline_section(const Context& context, const WorkspaceRequest& o, const Plan& plan,
                                     const record::ReferenceFacts& facts) {
  const auto& [label, shape] = *facts.shapes.begin();
  if (o.platform == "this" && plan.spec.backend != "cpu") {
    return std::string("## Roofline\n\nTBD: `ridge roofline --flop N --bytes N --on PRODUCT --write README.md`\n\n");
  }
  const auto report = roofline_of_work(context, label, o.platform == "this" ? "" : o.platform, shape.flop, shape.bytes,
                                       working_type_of(shape), o.given);
  if (report) return roofline::to_markdown(*report);
  if (report.error().code != ErrorCode::kUnsupported && report.error().code != ErrorCode::kNotFound)
    return report.error();
  return fmt::format("## Roofline\n\nUNKNOWN: {}\n\n## Stop Conditions\n\nTBD: `ridge roofline --write README.md`\n\n",
                     report.error().message);
}

Status fill_workspace(const Context& context, const WorkspaceRequest& o, Plan& plan, const fs::path& folder) {
  RIDGE_TRY(reference, read_file(plan.reference));
  RIDGE_TRY(kernel, read_file(plan.kernel));
  RIDGE_CHECK_OK(write_file_durably(folder / plan.reference_file, reference));
  RIDGE_CHECK_OK(write_file_durably(folder / plan.spec.kernel.front(), kernel));
  RIDGE_CHECK_OK(write_module_harness(context, plan, folder));
  RIDGE_TRY(facts, execute::describe_reference(folder, project::kModuleHarness, [&] { return context.stopped(); }));
  plan.spec.least_snr_db = 1e9;
  for (const auto& [label, shape] : facts.shapes)
    plan.spec.least_snr_db = std::min(plan.spec.least_snr_db, shape.least_snr_db);
  RIDGE_CHECK_OK(write_module_harness(context, plan, folder));
  if (project::is_library(plan.spec))
    RIDGE_CHECK_OK(write_file_durably(folder / project::kSignature, project::signature_text(plan.spec, facts)));
  record::Workspace workspace{1,
                              fs::path(o.name).filename().string(),
                              plan.spec.kernel.front(),
                              o.platform,
                              o.language,
                              plan.spec.op,
                              {},
                              o.threads,
                              plan.spec.reference,
                              {}};
  RIDGE_TRY(hardware, hardware_limits(context, o, workspace.unknown));
  RIDGE_TRY(roofline, roofline_section(context, o, plan, facts));
  const std::string notes = "## Additional Notes\n\nTBD: what no file here says and a plan must know.\n";
  return finish_workspace(
      context, context_of(o, plan) + reference_section(plan, facts) + roofline + hardware + isa_targets(o) + notes,
      workspace, o.name);
}

}  // namespace

Status write_reference_workspace(const Context& context, const WorkspaceRequest& o) {
  RIDGE_TRY(plan, plan_of(context, o));
  const fs::path folder = o.name;
  RIDGE_CHECK_OK(make_directories(folder));
  const Status done = fill_workspace(context, o, plan, folder);
  std::error_code ignored;
  if (!done) fs::remove_all(folder, ignored);  // it was not there before
  return done;
}

}  // namespace ridge::service
