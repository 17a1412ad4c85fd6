// describe: the machine and the software, and what this machine can and cannot do.
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "base/confinement.h"
#include "base/error.h"
#include "base/files.h"
#include "base/installation_key.h"
#include "base/process.h"
#include "device/cpu/cpu_info.h"
#include "device/cuda/backend.h"
#include "device/cuda/nvml.h"
#include "evaluate/host_process.h"
#include "evaluate/tasks.h"
#include "measure/machine.h"
#include "toolchain/device_build.h"

namespace ridge::evaluate {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string field_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t start = line.find_first_not_of("\t :=\"", name.size());
    if (start == std::string::npos) return {};
    line = line.substr(start);
    while (!line.empty() && (line.back() == '"' || line.back() == ' ')) line.pop_back();
    return line;
  }
  return {};
}

// Other hardware threads of the core of `cpu`, as the kernel lists them; empty when there are none.
std::string siblings_of(int cpu) {
  const std::string listed =
      first_line(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu).c_str());
  return listed == std::to_string(cpu) ? std::string() : listed;
}

// Processors' worth of time that the control group may use; empty without a quota.
std::string quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double most = 0, period = 0;
  if (!(file >> most >> period) || period <= 0) return {};  // "max 100000" holds no number
  return fmt::format("{:.2f}", most / period);
}

}  // namespace

record::Environment environment(const Job& job) {
  record::Environment result;
  const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
  utsname system{};
  ::uname(&system);
  auto& facts = result.facts;
  facts["cpu.model"] = cpu.name;
  facts["cpu.arch"] = cpu.arch;
  facts["cpu.features"] = fmt::format("{}", fmt::join(cpu.features, " "));
  facts["cpu.usable"] = std::to_string(measure::usable_cpus().size());
  facts["cpu.l1d_bytes"] = std::to_string(cpu.l1d_bytes);
  facts["cpu.l2_bytes"] = std::to_string(cpu.l2_bytes);
  facts["cpu.l3_bytes"] = std::to_string(cpu.l3_bytes);
  facts["cpu.governor"] = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (facts["cpu.governor"].empty()) facts["cpu.governor"] = "not visible";
  facts["memory.total"] = field_of("/proc/meminfo", "MemTotal");
  facts["system.kernel"] = fmt::format("{} {}", system.sysname, system.release);
  facts["system.distribution"] = field_of("/etc/os-release", "PRETTY_NAME");
  facts["system.hypervisor"] =
      cpu.has("hypervisor") || field_of("/proc/cpuinfo", "flags").find(" hypervisor ") != std::string::npos ? "yes"
                                                                                                            : "no";
  facts["measure.cold"] =
      measure::usable_cpus().size() > 1
          ? "operands are written on another processor before every call: in no private cache of the measured one"
          : fmt::format("operands are evicted from all caches by {}", measure::evict_method());
  facts["cpu.measured"] = fmt::format("{}", fmt::join(job.harness.placement.measured, ","));
  if (std::string shared = siblings_of(job.harness.placement.measured.front()); !shared.empty()) {
    facts["cpu.measured_siblings"] = std::move(shared);
  }
  if (std::string limit = quota(); !limit.empty()) facts["cpu.quota"] = std::move(limit);
  if (const auto compiler = toolchain::find_host_compiler()) facts["compiler"] = compiler->version;
  facts["compiler.confined"] = why_not_confined().empty() ? "yes" : why_not_confined();
  return result;
}

namespace {

record::Capability capability(std::string name, bool available, std::string detail, std::string remedy) {
  record::Capability one;
  one.name = std::move(name);
  one.available = available;
  one.detail = std::move(detail);
  one.remedy = std::move(remedy);
  return one;
}

// What a candidate's process is shut in by, as `ridge doctor` says it.
struct SandboxPart {
  std::uint32_t bit;
  const char *name, *detail, *remedy;
};
constexpr const char* kNoUserNamespaces =
    "allow user name spaces: sysctl user.max_user_namespaces above 0, and "
    "kernel.apparmor_restrict_unprivileged_userns=0 "
    "where there is AppArmor; or run as root";
constexpr SandboxPart kSandboxParts[] = {
    {kSystemCallFilter, "system call filter", "candidates can compute, and nothing else",
     "needs Linux with seccomp filters; do not run untrusted candidates without"},
    {kSealed, "sealed after loading", "no file can be opened and no memory made executable", "needs seccomp filters"},
    {kLimits, "resource limits", "address space, files, core dumps and locked memory are bounded", ""},
    {kNoNewPrivileges, "no new privileges", "no capability, and no way to gain one", ""},
    {kOtherUser, "another user", "candidates do not run as the user who started the measurement",
     "only root can start a process as another user; the user name space keeps it from your processes and files"},
    {kUserNamespace, "user name space", "no rights over processes and files of ours", kNoUserNamespaces},
    {kPidNamespace, "process name space", "sees no other process; what it starts ends with it", kNoUserNamespaces},
    {kMountNamespace, "mount name space", "sees no file but the system's libraries, read-only",
     "a container needs the right to mount (CAP_SYS_ADMIN, or user name spaces with mounts allowed)"},
    {kNetNamespace, "network name space", "no network, not even this machine's own", kNoUserNamespaces},
    {kIpcNamespace, "IPC name space", "no shared memory, semaphores or queues of ours", kNoUserNamespaces}};

// Starts a sandbox for a kernel that does nothing and asks what is in force.
std::uint32_t try_sandbox(const Job& job, std::string& trouble) {
  auto directory = TempDir::create("ridge-doctor");
  if (!directory) return trouble = directory.error().text(), 0;
  const auto compiler = toolchain::find_host_compiler();
  if (!compiler) return trouble = compiler.error().text(), 0;
  record::Candidate nothing;
  nothing.sources = {
      {"nothing.cpp", "#include \"ridge/candidate.h\"\nint ridge_kernel(const ridge_call*) { return 0; }\n"}};
  toolchain::BuildOptions options;
  options.cache_directory = directory->path();
  const auto built = toolchain::build(nothing, *compiler, options);
  if (!built || !built->ok()) return trouble = built ? built->error : built.error().text(), 0;
  HostOptions host;
  host.program = job.harness.host_program;
  host.region_bytes = 4096;
  const auto started = HostProcess::start_candidate(built->artifact, host);
  if (!started) return trouble = started.error().detail, 0;
  return started->sandbox();
}

// The GPUs, what compiles for them, and what watches them; each with the way to get it.
void describe_gpus(record::WorkerResponse& response) {
  auto& list = response.capabilities;
  const auto gpus = device::cuda::list_gpus();
  std::string names;
  for (const device::cuda::GpuInfo& gpu : gpus ? *gpus : std::vector<device::cuda::GpuInfo>{}) {
    names += fmt::format("{}{} ({}, {} multiprocessors, {:.0f} GiB, driver for CUDA {}.{})", names.empty() ? "" : "; ",
                         gpu.name, gpu.arch, gpu.multiprocessors, static_cast<double>(gpu.memory_bytes) / 0x1p30,
                         gpu.driver_version / 1000, gpu.driver_version % 1000 / 10);
  }
  if (gpus) response.environment->facts["gpu"] = names;
  list.push_back(capability("CUDA GPU", gpus.ok(), gpus ? names : gpus.error().message, gpus ? "" : gpus.error().hint));
  const auto compiler = toolchain::find_device_compiler();
  if (compiler) response.environment->facts["compiler.device"] = (*compiler)->version();
  list.push_back(capability("CUDA compiler", compiler.ok(),
                            compiler ? (*compiler)->version() : compiler.error().message,
                            compiler ? "" : compiler.error().hint));
  const Status watched = device::cuda::nvml_status();
  list.push_back(
      capability("GPU telemetry", watched.ok(),
                 watched ? "clocks, power, throttling and other processes are read" : watched.error().message,
                 watched ? "" : watched.error().hint));
}

}  // namespace

Status describe(const Job& job, record::WorkerResponse& response) {
  response.environment = environment(job);
  add_gpu_facts(*response.environment);
  auto& list = response.capabilities;
  const auto compiler = toolchain::find_host_compiler();
  list.push_back(capability("C++ compiler", compiler.ok(), compiler ? compiler->version : compiler.error().message,
                            "apt-get install g++ (scripts/setup does it)"));
  list.push_back(capability("compiler evidence", !find_program("objdump").empty(),
                            "objdump reads the machine code of candidates", "apt-get install binutils"));
  list.push_back(
      capability("git", !find_program("git").empty(), "accepted rounds become commits", "apt-get install git"));
  const std::string& refused = why_not_confined();
  list.push_back(capability(
      "confined compiler", refused.empty(),
      refused.empty()
          ? "the compiler sees the toolchain and the declared sources; proposers and a project's commands see no "
            "campaign, cache or key"
          : fmt::format("{}; what it read is checked against the declared sources by its own account", refused),
      kNoUserNamespaces));
  const Result<std::string> key = installation_key();
  list.push_back(
      capability("authenticated cache", key.ok(),
                 key ? fmt::format("built objects are tagged with the key in {}", default_state_directory().string())
                     : "nothing is cached: " + key.error().message,
                 key ? "" : key.error().hint));
  std::string trouble;
  const std::uint32_t bits = try_sandbox(job, trouble);
  list.push_back(capability("candidate process", bits != 0,
                            trouble.empty() ? "a candidate builds, loads and answers" : trouble,
                            "ridge-host belongs beside ridge-worker"));
  for (const SandboxPart& part : kSandboxParts) {
    list.push_back(capability(part.name, (bits & part.bit) != 0, part.detail, part.remedy));
  }
  const auto sanitizer = compiler ? toolchain::sanitizer_runtime(*compiler) : compiler.error();
  list.push_back(
      capability("sanitizer lane", sanitizer.ok(),
                 sanitizer ? "candidates are also run under AddressSanitizer and UBSan" : sanitizer.error().message,
                 "apt-get install g++ (with its libasan); checks say \"not run\" without it"));
  list.push_back(capability("cold caches", measure::evict_method() != std::string_view("none"),
                            fmt::format("operands are evicted by {} before every timed call", measure::evict_method()),
                            ""));
  const std::size_t cpus = measure::usable_cpus().size();
  list.push_back(capability("a processor of its own", cpus > 1, fmt::format("{} usable processor(s)", cpus),
                            "with one processor the harness and the candidate take turns; timings are noisier"));
  describe_gpus(response);
  for (const ops::Operator* op : ops::operators()) {
    for (const ops::Implementation& implementation : op->implementations) {
      if (implementation.backend != Backend::kCpu) continue;
      std::optional<std::string> reason = "no case";
      for (const record::Case& wanted : op->cases(ops::CaseSet::kTarget, Backend::kCpu)) {
        const auto problem = op->bind(wanted);
        if (problem) reason = implementation.supports(*problem, ops::device_info(Stream::cpu()));
        break;
      }
      list.push_back(
          capability(op->name + " " + implementation.name, !reason, reason ? *reason : implementation.summary, ""));
    }
  }
  return ok_status();
}

}  // namespace ridge::evaluate
