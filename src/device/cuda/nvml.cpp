#include "device/cuda/nvml.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/error.h"
#include "device/cpu/shared_library.h"

namespace ridge::device::cuda {
namespace {

// The interface of libnvidia-ml, as far as it is used (https://docs.nvidia.com/deploy/nvml-api). Its header does not
// come with the toolkit's compiler, its ABI is stable, and every function returns 0 on success.
using Handle = void*;
using Code = int;
constexpr Code kSuccess = 0;
constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0, kUncorrected = 1, kVolatile = 0;

struct Utilization {
  unsigned gpu, memory;
};
struct ProcessInfo {  // nvmlProcessInfo_v2_t
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kUnknownMemory = ~0ull;

struct Reason {
  std::uint64_t bit;
  const char* name;
};
constexpr std::array<Reason, 9> kReasons = {{{0x1, "idle"},
                                             {0x2, "application clocks"},
                                             {0x4, "power cap"},
                                             {0x8, "hardware slowdown"},
                                             {0x10, "sync boost"},
                                             {0x20, "thermal (software)"},
                                             {0x40, "thermal (hardware)"},
                                             {0x80, "power brake (hardware)"},
                                             {0x100, "display clocks"}}};
constexpr std::array<std::string_view, 4> kHarmless = {"idle", "application clocks", "sync boost", "display clocks"};

struct Library {
  cpu::SharedLibrary library{"libnvidia-ml.so.1", "libnvidia-ml.so"};
  std::string trouble;  // empty: usable
  const char* (*error_string)(Code) = library.function<const char*(Code)>("nvmlErrorString");
  Code (*init)() = library.function<Code()>("nvmlInit_v2");
  Code (*driver_version)(char*, unsigned) = library.function<Code(char*, unsigned)>("nvmlSystemGetDriverVersion");
  Code (*by_uuid)(const char*, Handle*) = library.function<Code(const char*, Handle*)>("nvmlDeviceGetHandleByUUID");
  Code (*clock)(Handle, int, unsigned*) = library.function<Code(Handle, int, unsigned*)>("nvmlDeviceGetClockInfo");
  Code (*max_clock)(Handle, int,
                    unsigned*) = library.function<Code(Handle, int, unsigned*)>("nvmlDeviceGetMaxClockInfo");
  Code (*power)(Handle, unsigned*) = library.function<Code(Handle, unsigned*)>("nvmlDeviceGetPowerUsage");
  Code (*power_limit)(Handle, unsigned*) = library.function<Code(Handle, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
  Code (*temperature)(Handle, int,
                      unsigned*) = library.function<Code(Handle, int, unsigned*)>("nvmlDeviceGetTemperature");
  Code (*utilization)(Handle,
                      Utilization*) = library.function<Code(Handle, Utilization*)>("nvmlDeviceGetUtilizationRates");
  Code (*reasons)(Handle, unsigned long long*) =
      library.function<Code(Handle, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  Code (*ecc)(Handle, int, int, unsigned long long*) =
      library.function<Code(Handle, int, int, unsigned long long*)>("nvmlDeviceGetTotalEccErrors");
  Code (*remapped)(Handle, unsigned*, unsigned*, unsigned*, unsigned*) =
      library.function<Code(Handle, unsigned*, unsigned*, unsigned*, unsigned*)>("nvmlDeviceGetRemappedRows");
  Code (*processes)(Handle, unsigned*, ProcessInfo*) =
      library.function<Code(Handle, unsigned*, ProcessInfo*)>("nvmlDeviceGetComputeRunningProcesses_v3");

  Library() {
    if (!library.loaded()) {
      trouble = library.error();
    } else if (init == nullptr || by_uuid == nullptr || error_string == nullptr) {
      trouble = library.path() + " lacks functions of NVML 5 and newer";
    } else if (const Code code = init(); code != kSuccess) {
      trouble = fmt::format("{}: {}", library.path(), error_string(code));
    }
  }
};

const Library& nvml() {
  static const Library* const instance = new Library;  // never shut down: readings may come at any time
  return *instance;
}

Handle handle_of(const std::string& uuid) {
  static std::mutex mutex;
  static std::map<std::string, Handle> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(uuid);
  if (found != known.end()) return found->second;
  Handle handle = nullptr;
  if (nvml().by_uuid(uuid.c_str(), &handle) != kSuccess) return nullptr;
  return known[uuid] = handle;
}

// Takes readings one by one and notes which were refused.
class Reader {
 public:
  template <class F, class... Args>
  bool take(const char* name, F* function, Args... args) {
    const Code code = function == nullptr ? -1 : function(args...);
    if (code == kSuccess) return true;
    missing_ += fmt::format("{}{} ({})", missing_.empty() ? "" : ", ", name,
                            function == nullptr ? "not in this library" : nvml().error_string(code));
    return false;
  }
  [[nodiscard]] std::string missing() const { return missing_; }

 private:
  std::string missing_;
};

void read_clocks(Reader& reader, Handle handle, Telemetry& t) {
  unsigned value = 0;
  if (reader.take("SM clock", nvml().clock, handle, kClockSm, &value)) t.sm_clock_mhz = value;
  if (reader.take("memory clock", nvml().clock, handle, kClockMemory, &value)) t.memory_clock_mhz = value;
  if (reader.take("largest SM clock", nvml().max_clock, handle, kClockSm, &value)) t.max_sm_clock_mhz = value;
  if (reader.take("largest memory clock", nvml().max_clock, handle, kClockMemory, &value)) {
    t.max_memory_clock_mhz = value;
  }
  unsigned long long mask = 0;
  if (reader.take("throttle reasons", nvml().reasons, handle, &mask)) t.throttle_reasons = throttle_reason_names(mask);
}

void read_state(Reader& reader, Handle handle, Telemetry& t) {
  unsigned value = 0;
  if (reader.take("power", nvml().power, handle, &value)) t.power_watts = value * 1e-3;
  if (reader.take("power limit", nvml().power_limit, handle, &value)) t.power_limit_watts = value * 1e-3;
  if (reader.take("temperature", nvml().temperature, handle, kTemperatureGpu, &value)) t.temperature_celsius = value;
  Utilization busy{};
  if (reader.take("utilization", nvml().utilization, handle, &busy)) t.busy_fraction = busy.gpu * 1e-2;
  unsigned long long errors = 0;
  if (reader.take("ECC errors", nvml().ecc, handle, kUncorrected, kVolatile, &errors)) t.ecc_uncorrected = errors;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (reader.take("remapped rows", nvml().remapped, handle, &corrected, &uncorrected, &pending, &failed)) {
    t.remapped_rows_failed = failed;
  }
}

void read_processes(Reader& reader, Handle handle, Telemetry& t) {
  std::array<ProcessInfo, 64> list{};
  auto count = static_cast<unsigned>(list.size());
  if (!reader.take("processes", nvml().processes, handle, &count, list.data())) return;
  std::vector<GpuProcess> found;
  for (unsigned i = 0; i < count; ++i) {
    GpuProcess process{static_cast<std::int64_t>(list[i].pid), std::nullopt};
    if (list[i].used_bytes != kUnknownMemory) process.used_bytes = list[i].used_bytes;
    found.push_back(process);
  }
  t.processes = std::move(found);
}

}  // namespace

std::vector<std::string> throttle_reason_names(std::uint64_t mask) {
  std::vector<std::string> names;
  for (const Reason& reason : kReasons) {
    if ((mask & reason.bit) != 0) names.emplace_back(reason.name);
    mask &= ~reason.bit;
  }
  if (mask != 0) names.push_back(fmt::format("unknown reason {:#x}", mask));
  return names;
}

std::vector<GpuProcess> Telemetry::foreign_processes() const {
  std::vector<GpuProcess> foreign;
  if (!processes) return foreign;
  std::ranges::copy_if(*processes, std::back_inserter(foreign),
                       [](const GpuProcess& process) { return process.pid != ::getpid(); });
  return foreign;
}

bool Telemetry::throttled() const {
  return throttle_reasons && std::ranges::any_of(*throttle_reasons, [](const std::string& reason) {
           return std::ranges::find(kHarmless, reason) == kHarmless.end();
         });
}

Status nvml_status() {
  if (nvml().trouble.empty()) return ok_status();
  return with_hint(make_error(ErrorCode::kUnsupported, "no NVIDIA management library: {}", nvml().trouble),
                   "it comes with the driver; clocks, power and other processes stay unknown without it");
}

Telemetry read_telemetry(const std::string& uuid) {
  Telemetry t;
  if (const Status usable = nvml_status(); !usable) {
    t.missing = usable.error().message;
    return t;
  }
  Handle handle = handle_of(uuid);
  if (handle == nullptr) {
    t.missing = fmt::format("the management library does not know {}", uuid);
    return t;
  }
  Reader reader;
  read_clocks(reader, handle, t);
  read_state(reader, handle, t);
  read_processes(reader, handle, t);
  t.missing = reader.missing();
  return t;
}

std::string nvml_driver_version() {
  if (!nvml().trouble.empty() || nvml().driver_version == nullptr) return {};
  std::array<char, 96> text{};
  return nvml().driver_version(text.data(), static_cast<unsigned>(text.size())) == kSuccess ? text.data() : "";
}

}  // namespace ridge::device::cuda
