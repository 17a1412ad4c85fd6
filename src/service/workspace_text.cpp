// The sections of a workspace's README that every kind has, and the files around it.
#include <fmt/ranges.h>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "execute/git.h"
#include "hardware/spec.h"
#include "knowledge/memory.h"
#include "record/json.h"
#include "service/worker_call.h"
#include "service/workspace_file.h"
#include "service/workspace_parts.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// What a plan for a kernel rests on. A fact that a product does not have is left out.
constexpr const char* kFactsOfReadme[] = {"vector_fp32",
                                          "matrix_tf32",
                                          "matrix_bf16",
                                          "matrix_fp16",
                                          "matrix_fp8",
                                          "memory_bandwidth",
                                          "memory_capacity",
                                          "l2_cache",
                                          "l1_cache",
                                          "last_level_cache",
                                          "shared_memory_per_unit",
                                          "shared_memory_per_block",
                                          "registers_per_unit",
                                          "max_registers_per_thread",
                                          "compute_units",
                                          "warp_size",
                                          "max_warps_per_unit",
                                          "max_threads_per_block",
                                          "max_blocks_per_unit"};

// What compilers and profilers leave behind; a pattern without a slash holds in every folder below.
constexpr const char* kIgnored =
    "*.ncu-rep\n*.nsys-rep\n*.sqlite\n*.rpd\nperf.data*\nmemory/.lock\n/campaigns/\n*.o\n*.so\n*.a\n*.ptx\n*.cubin\n"
    "*.fatbin\n*.hsaco\n*.co\na.out\n__pycache__/\n";

// Of this machine: what the worker sees of its processor or GPU.
Result<std::string> limits_here(const Context& context, const WorkspaceRequest& o) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  const record::Environment environment = response.environment.value_or(record::Environment{});
  const bool gpu = o.language == "cuda" || o.language == "hip";
  std::string text;
  for (const auto& [name, value] : environment.facts) {
    if (name.starts_with(gpu ? "gpu." : "cpu.")) text += fmt::format("- {}: {}\n", name, value);
  }
  return text + "- measured peaks: `ridge ceilings`\n";
}

}  // namespace

Result<std::string> hardware_limits(const Context& context, const WorkspaceRequest& o,
                                    std::vector<std::string>& unknown) {
  std::string text = "## Hardware Limits\n\n";
  if (o.platform == "this") {
    RIDGE_TRY(here, limits_here(context, o));
    return text + here + "\n";
  }
  RIDGE_TRY(database, hardware::Database::open(context.data_directory));
  RIDGE_TRY(spec, database.find(o.platform));
  text += fmt::format("{} ({}, {})\n\n", spec->product, spec->architecture, spec->target);
  for (const char* const name : kFactsOfReadme) {
    const hardware::Fact* fact = spec->find(name);
    if (fact == nullptr || fact->state == hardware::State::kNone) continue;
    text += fmt::format("- {}\n", fact->citation());
    if (fact->state == hardware::State::kUnknown) unknown.emplace_back(name);
  }
  text += "\n";
  if (!o.given.arithmetic.empty()) text += fmt::format("- arithmetic, as given: {}\n", o.given.arithmetic);
  if (!o.given.bandwidth.empty()) text += fmt::format("- memory, as given: {}\n", o.given.bandwidth);
  if (unknown.empty()) return text + "\n";
  text += fmt::format(
      "UNKNOWN, and asked of you: {}. A document or a measurement answers: `ridge spec probe` or `ridge ceilings` on "
      "the "
      "device, then `ridge roofline ... --measured RATE --bandwidth RATE --write README.md`. Nothing is guessed "
      "meanwhile.\n\n",
      fmt::join(unknown, ", "));
  context.note(fmt::format("{}: UNKNOWN, and recorded as such: {}", spec->name, fmt::join(unknown, ", ")));
  return text;
}

std::string isa_targets(const WorkspaceRequest& o) {
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

Status finish_workspace(const Context& context, const std::string& readme, const record::Workspace& workspace,
                        const std::string& name) {
  const fs::path folder = name;
  RIDGE_CHECK_OK(write_file_durably(folder / "README.md", readme));
  RIDGE_CHECK_OK(write_file_durably(folder / kWorkspaceFile, record::to_pretty(workspace) + "\n"));
  RIDGE_CHECK_OK(write_file_durably(folder / ".gitignore", kIgnored));
  for (const char* empty : {"memory", "plans", "profiles"})
    RIDGE_CHECK_OK(write_file_durably(folder / empty / ".keep", ""));
  const Result<knowledge::Memory> memory = knowledge::Memory::init(folder);
  if (!memory) return memory.error();
  const std::unique_ptr<execute::Git> git = execute::make_git(folder);
  RIDGE_CHECK_OK(git->init());
  RIDGE_TRY(commit, git->commit("Workspace of " + name, {"."}));
  context.note(fmt::format("{}: committed as {}", name, commit.substr(0, 12)));
  return ok_status();
}

}  // namespace ridge::service
