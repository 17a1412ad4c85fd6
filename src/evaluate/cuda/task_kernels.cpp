// kernels: from cases to the builds that their calls need, compiled into a pack, or a pack checked. Needs a compiler
// for the former and no GPU.
#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "evaluate/gpu.h"
#include "evaluate/tasks.h"
#include "measure/machine.h"
#include "ops/cuda/kernels.h"
#include "record/architecture.h"
#include "record/kernel_pack.h"
#include "record/kernel_target.h"
#include "toolchain/device_build.h"

namespace ridge::evaluate {
namespace {

// Of a whole Hopper, where there is no GPU to ask.
constexpr int kMultiprocessors = 132;

// For a named architecture, else for the GPU here, else for a Hopper.
Result<ops::DeviceInfo> target(const record::WorkerRequest& request) {
  const bool named = request.backend != record::WorkerRequest().backend;
  auto here = gpu_device_info();
  if (here && (!named || here->arch == request.backend)) return std::move(*here);
  RIDGE_TRY(wanted, record::find_kernel_target(named ? request.backend : record::kUsualTarget));
  ops::DeviceInfo info;
  info.backend = Backend::kCuda;
  info.name = wanted.gpus;
  info.arch = wanted.arch;
  info.features = record::features_of(info.arch);
  info.multiprocessors = kMultiprocessors;
  return info;
}

Result<std::vector<ops::Problem>> problems_of(const record::Case& wanted) {
  RIDGE_TRY(op, ops::find_operator(wanted.op));
  const std::vector<record::Case> cases =
      wanted.params.empty() ? op->cases(ops::CaseSet::kBench, Backend::kCuda) : std::vector{wanted};
  std::vector<ops::Problem> problems;
  for (const record::Case& one : cases) {
    RIDGE_TRY(problem, op->bind(one));
    problems.push_back(std::move(problem));
  }
  return problems;
}

// By their names, so that each is compiled once.
using Builds = std::map<std::string, ops::KernelBuild>;

void add_builds(const ops::Problem& problem, const ops::DeviceInfo& device, std::int64_t configurations,
                Builds& builds) {
  const ops::Operator& op = **ops::find_operator(problem.problem_case.op);
  for (const ops::Implementation& one : op.implementations) {
    if (!one.kernels || ops::why_not(one, problem, device)) continue;
    std::vector<int> wanted = one.promising ? one.promising(problem, device) : std::vector{-1};
    wanted.resize(std::min(wanted.size(), static_cast<std::size_t>(configurations)));
    for (const int configuration : wanted) {
      ops::Problem placed = problem;
      placed.configuration = configuration;
      for (ops::KernelBuild& build : one.kernels(placed, device)) {
        std::string name = build.source;
        for (const std::string& define : build.defines) name += " " + define;
        builds.emplace(std::move(name), std::move(build));
      }
    }
  }
}

// What the kernels of ours say about the first case.
std::string refusals(const Job& job, const ops::DeviceInfo& device) {
  std::string all;
  const auto problems = problems_of(job.request.cases.front());
  if (!problems || problems->empty()) return "no case";
  const ops::Operator& op = **ops::find_operator(problems->front().problem_case.op);
  for (const ops::Implementation& one : op.implementations) {
    const ops::Refusal why = one.kernels ? ops::why_not(one, problems->front(), device) : std::nullopt;
    if (why) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", one.name, *why);
  }
  return all.empty() ? "they have none" : all;
}

struct Compiled {
  std::vector<std::string> code;  // by build
  std::optional<Error> failure;
};

// On every processor there is, because a build takes half a second.
Compiled compile(const Job& job, const std::vector<ops::KernelBuild>& builds, const std::string& arch,
                 const toolchain::DeviceCompiler& compiler) {
  toolchain::BuildOptions options;
  options.cache_directory = job.request.cache_directory;
  options.timeout = job.request.protocol.build_timeout;
  Compiled compiled;
  compiled.code.resize(builds.size());
  std::vector<std::optional<Error>> failures(builds.size());
  std::atomic<std::size_t> done = 0;
  const auto teller = std::this_thread::get_id();
  in_parallel(builds.size(), measure::usable_cpus().size(), [&](std::size_t i) {
    auto built = toolchain::build_device(ops::device_code(builds[i], arch), compiler, options);
    if (!built) {
      failures[i] = built.error();
    } else if (!built->ok()) {
      failures[i] = make_error(ErrorCode::kInternal, "{} does not compile: {}", builds[i].source, built->error);
    } else if (const auto slow = toolchain::serialised(*built)) {
      failures[i] = make_error(ErrorCode::kInternal, "{}: {}", builds[i].source, *slow);
    } else {
      compiled.code[i] = std::move(built->cubin);
    }
    ++done;
    if (std::this_thread::get_id() != teller) return;
    job.progress("compiling", fmt::format("{} of {} kernels", done.load(), builds.size()),
                 static_cast<double>(done.load()) / static_cast<double>(builds.size()));
  });
  for (std::optional<Error>& failure : failures) {
    if (failure && !compiled.failure) compiled.failure = std::move(failure);
  }
  return compiled;
}

Status build_pack(const Job& job, record::WorkerResponse& response) {
  RIDGE_TRY(device, target(job.request));
  Builds wanted;
  for (const record::Case& one : job.request.cases) {
    RIDGE_TRY(problems, problems_of(one));
    for (const ops::Problem& problem : problems) {
      add_builds(problem, device, std::max<std::int64_t>(job.request.configurations, 1), wanted);
    }
  }
  if (wanted.empty()) {
    return with_hint(invalid("these cases need no kernel of ours on {}: {}", device.arch, refusals(job, device)),
                     "ridge ops explain OP CASE --on cuda says what would run them");
  }
  RIDGE_TRY(compiler, toolchain::find_device_compiler());
  std::vector<ops::KernelBuild> builds;
  record::KernelPack pack;
  pack.header.arch = device.arch;
  pack.header.compiler = compiler->version();
  for (auto& [name, build] : wanted) {
    record::PackedKernel kernel;
    kernel.key = toolchain::source_key(ops::device_code(build, device.arch));
    kernel.source = build.source;
    kernel.defines = build.defines;
    pack.kernels.push_back(std::move(kernel));
    builds.push_back(std::move(build));
  }
  const Compiled compiled = compile(job, builds, device.arch, *compiler);
  if (compiled.failure) return *compiled.failure;
  const std::filesystem::path path = job.request.pack;
  RIDGE_CHECK_OK(write_file_durably(path, record::pack_text(std::move(pack), compiled.code)));
  RIDGE_TRY(head, record::read_pack_head(path));
  RIDGE_TRY(written, record::parse_pack(head, path.string()));
  response.pack = std::move(written);
  return ok_status();
}

// Whether every kernel has its digest, and is what this library would compile.
Status verify_pack(const Job& job, record::WorkerResponse& response) {
  const std::filesystem::path path = job.request.pack;
  RIDGE_TRY(head, record::read_pack_head(path));
  RIDGE_TRY(pack, record::parse_pack(head, path.string()));
  for (const record::PackedKernel& kernel : pack.kernels) {
    if (auto code = record::read_packed(path, head.size(), kernel); !code) {
      response.pack_problems.push_back(code.error().message);
    }
    if (kernel.key == toolchain::source_key(ops::device_code({kernel.source, kernel.defines}, pack.header.arch))) {
      continue;
    }
    response.pack_problems.push_back(
        fmt::format("{} ({}): made from other sources than this library's; nothing asks for it", kernel.source,
                    kernel.key.substr(0, 12)));
  }
  response.pack = std::move(pack);
  return ok_status();
}

}  // namespace

Status kernels(const Job& job, record::WorkerResponse& response) {
  if (job.request.pack.empty()) return invalid("the request names no pack");
  return job.request.cases.empty() ? verify_pack(job, response) : build_pack(job, response);
}

}  // namespace ridge::evaluate
