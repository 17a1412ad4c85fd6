// The driver, the run-time compiler and the management library, loaded when the program runs: the binary starts on a
// machine that has none of them and says what is missing. Errors end the program with the call's name, since nothing
// here can go on.
#pragma once
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ridge::gpu {

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(nullptr);
  std::_Exit(1);  // threads may still be compiling: no destructors
}

// Exit status for "this machine cannot run GPU work", distinct from a failed check (the convention of automake and
// ctest).
inline constexpr int kExitMissing = 77;
[[noreturn]] inline void missing(const std::string& message) {
  std::fprintf(stderr, "skipped: %s\n", message.c_str());
  std::exit(kExitMissing);
}

class Library {
 public:
  // Tries the names in turn; nothing is loaded if none is found.
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      handle_ = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
      if (handle_) return;
    }
  }
  explicit operator bool() const { return handle_ != nullptr; }
  template <class Function>
  Function* find(const char* symbol) const {
    auto* pointer = reinterpret_cast<Function*>(dlsym(handle_, symbol));
    if (!pointer) fail(std::string("the library has no symbol ") + symbol);
    return pointer;
  }

 private:
  void* handle_ = nullptr;
};

struct Driver {
  Library library{"libcuda.so.1", "libcuda.so"};
#define RIDGE_DRIVER(name, symbol) \
  decltype(&::name) name = library ? library.find<std::remove_pointer_t<decltype(&::name)>>(symbol) : nullptr
  RIDGE_DRIVER(cuInit, "cuInit");
  RIDGE_DRIVER(cuGetErrorString, "cuGetErrorString");
  RIDGE_DRIVER(cuDriverGetVersion, "cuDriverGetVersion");
  RIDGE_DRIVER(cuDeviceGet, "cuDeviceGet");
  RIDGE_DRIVER(cuDeviceGetCount, "cuDeviceGetCount");
  RIDGE_DRIVER(cuDeviceGetName, "cuDeviceGetName");
  RIDGE_DRIVER(cuDeviceGetAttribute, "cuDeviceGetAttribute");
  RIDGE_DRIVER(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  RIDGE_DRIVER(cuCtxSetCurrent, "cuCtxSetCurrent");
  RIDGE_DRIVER(cuCtxSynchronize, "cuCtxSynchronize");
  RIDGE_DRIVER(cuMemAlloc, "cuMemAlloc_v2");
  RIDGE_DRIVER(cuMemFree, "cuMemFree_v2");
  RIDGE_DRIVER(cuMemcpyHtoD, "cuMemcpyHtoD_v2");
  RIDGE_DRIVER(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
  RIDGE_DRIVER(cuMemsetD8Async, "cuMemsetD8Async");
  RIDGE_DRIVER(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  RIDGE_DRIVER(cuStreamCreate, "cuStreamCreate");
  RIDGE_DRIVER(cuStreamSynchronize, "cuStreamSynchronize");
  RIDGE_DRIVER(cuEventCreate, "cuEventCreate");
  RIDGE_DRIVER(cuEventRecord, "cuEventRecord");
  RIDGE_DRIVER(cuEventElapsedTime, "cuEventElapsedTime");
  RIDGE_DRIVER(cuModuleLoadData, "cuModuleLoadData");
  RIDGE_DRIVER(cuModuleGetFunction, "cuModuleGetFunction");
  RIDGE_DRIVER(cuFuncSetAttribute, "cuFuncSetAttribute");
  RIDGE_DRIVER(cuFuncGetAttribute, "cuFuncGetAttribute");
  RIDGE_DRIVER(cuLaunchKernelEx, "cuLaunchKernelEx");
  RIDGE_DRIVER(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled");
#undef RIDGE_DRIVER

  void check(CUresult status, const char* call) const {
    if (status == CUDA_SUCCESS) return;
    const char* text = nullptr;
    cuGetErrorString(status, &text);
    fail(std::string(call) + ": " + (text ? text : "unknown error") + " (" + std::to_string(status) + ")");
  }
};

inline Driver& driver() {
  static Driver instance;
  return instance;
}
#define RIDGE_CU(call) ::ridge::gpu::driver().check(::ridge::gpu::driver().call, #call)

struct Device {
  CUdevice handle{};
  std::string name;
  int multiprocessors = 0, major = 0, minor = 0, driver_version = 0;
  double l2_bytes = 0, memory_bandwidth = 0, clock = 0;  // bytes, bytes per second, Hz: as the driver says
  CUstream stream{};
  std::string architecture() const { return "sm_" + std::to_string(major * 10 + minor) + (major >= 9 ? "a" : ""); }
};

// The first GPU with its primary context (shared with whatever else runs in the process, PyTorch for one).
inline Device& device() {
  static Device instance = [] {
    if (!driver().library) missing("no CUDA driver (libcuda.so.1) on this machine");
    Device d;
    int count = 0;
    if (driver().cuInit(0) != CUDA_SUCCESS || driver().cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
      missing("the CUDA driver is here but it sees no GPU");
    }
    RIDGE_CU(cuDeviceGet(&d.handle, 0));
    char name[256] = {};
    RIDGE_CU(cuDeviceGetName(name, sizeof name, d.handle));
    d.name = name;
    RIDGE_CU(cuDeviceGetAttribute(&d.multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d.handle));
    RIDGE_CU(cuDeviceGetAttribute(&d.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d.handle));
    RIDGE_CU(cuDeviceGetAttribute(&d.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d.handle));
    RIDGE_CU(cuDriverGetVersion(&d.driver_version));
    const auto ask = [&](CUdevice_attribute which) {
      int value = 0;
      RIDGE_CU(cuDeviceGetAttribute(&value, which, d.handle));
      return static_cast<double>(value);
    };
    d.l2_bytes = ask(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    d.memory_bandwidth =
        2e3 * ask(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * ask(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
    d.clock = 1e3 * ask(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    CUcontext context;
    RIDGE_CU(cuDevicePrimaryCtxRetain(&context, d.handle));
    RIDGE_CU(cuCtxSetCurrent(context));
    RIDGE_CU(cuStreamCreate(&d.stream, CU_STREAM_NON_BLOCKING));
    return d;
  }();
  return instance;
}

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    device();
    RIDGE_CU(cuMemAlloc(&pointer_, bytes ? bytes : 16));
  }
  Buffer(Buffer&& other) noexcept
      : pointer_(std::exchange(other.pointer_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (pointer_) driver().cuMemFree(pointer_);
  }
  CUdeviceptr get() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  void fill(int byte) const {
    RIDGE_CU(cuMemsetD8Async(pointer_, static_cast<unsigned char>(byte), bytes_, device().stream));
  }

 private:
  CUdeviceptr pointer_ = 0;
  std::size_t bytes_ = 0;
};

template <class T>
std::vector<T> to_host(const Buffer& buffer, std::size_t count) {
  RIDGE_CU(cuStreamSynchronize(device().stream));
  std::vector<T> values(count);
  RIDGE_CU(cuMemcpyDtoH(values.data(), buffer.get(), count * sizeof(T)));
  return values;
}

// ---- Run-time compilation
// -------------------------------------------------------------------------------------------------

struct Compiler {
  Library library{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
#define RIDGE_NVRTC(name) \
  decltype(&::name) name = library ? library.find<std::remove_pointer_t<decltype(&::name)>>(#name) : nullptr
  RIDGE_NVRTC(nvrtcCreateProgram);
  RIDGE_NVRTC(nvrtcDestroyProgram);
  RIDGE_NVRTC(nvrtcCompileProgram);
  RIDGE_NVRTC(nvrtcGetCUBINSize);
  RIDGE_NVRTC(nvrtcGetCUBIN);
  RIDGE_NVRTC(nvrtcGetProgramLogSize);
  RIDGE_NVRTC(nvrtcGetProgramLog);
  RIDGE_NVRTC(nvrtcVersion);
#undef RIDGE_NVRTC
};
inline Compiler& compiler() {
  static Compiler instance;
  if (!instance.library) missing("no NVRTC (libnvrtc.so) on the library path");
  return instance;
}

// Source file plus -D definitions to machine code. Includes are relative to the file or to the kernel layer beside it.
inline std::vector<char> compile(const std::string& root, const std::string& file,
                                 const std::vector<std::string>& defines, bool may_fail = false) {
  auto& rtc = compiler();
  const std::string path = root + "/" + file;
  std::FILE* stream = std::fopen(path.c_str(), "rb");
  if (!stream) fail("cannot read the kernel source " + path);
  std::string source;
  char chunk[65536];
  for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, stream)) > 0;) source.append(chunk, n);
  std::fclose(stream);
  std::vector<std::string> options = {"--std=c++20", "--gpu-architecture=" + device().architecture(), "-lineinfo",
                                      "-I" + path.substr(0, path.rfind('/')), "-I" + root + "/src/device/cuda/kernel"};
  for (const auto& define : defines) options.push_back("-D" + define);
  std::vector<const char*> raw;
  for (const auto& option : options) raw.push_back(option.c_str());
  nvrtcProgram program;
  rtc.nvrtcCreateProgram(&program, source.c_str(), path.c_str(), 0, nullptr, nullptr);
  const nvrtcResult status = rtc.nvrtcCompileProgram(program, static_cast<int>(raw.size()), raw.data());
  if (status != NVRTC_SUCCESS) {
    std::size_t size = 0;
    rtc.nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    rtc.nvrtcGetProgramLog(program, log.data());
    std::string all;
    for (const auto& option : options) all += " " + option;
    if (may_fail) return {};
    fail("compiling " + path + all + " failed:\n" + log);
  }
  std::size_t size = 0;
  rtc.nvrtcGetCUBINSize(program, &size);
  std::vector<char> image(size);
  rtc.nvrtcGetCUBIN(program, image.data());
  rtc.nvrtcDestroyProgram(&program);
  return image;
}

// Kernels by source, definitions and symbol, compiled once per process.
class Kernels {
 public:
  explicit Kernels(std::string root) : root_(std::move(root)) {}

  // Compiles a list in parallel, so that a benchmark does not pay for one build after the other.
  void prepare(const std::vector<std::pair<std::string, std::vector<std::string>>>& wanted, bool may_fail = false) {
    std::vector<std::pair<std::string, std::vector<std::string>>> todo;
    for (const auto& item : wanted) {
      const std::string key = key_of(item.first, item.second);
      if (!images_.count(key)) {
        images_[key];
        todo.push_back(item);
      }
    }
    device();
    compiler();
    std::mutex lock;
    std::size_t next = 0;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
      threads.emplace_back([&] {
        for (;;) {
          std::size_t mine;
          {
            std::lock_guard guard(lock);
            if (next == todo.size()) return;
            mine = next++;
          }
          auto image = compile(root_, todo[mine].first, todo[mine].second, may_fail);
          std::lock_guard guard(lock);
          images_[key_of(todo[mine].first, todo[mine].second)] = std::move(image);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }

  CUfunction get(const std::string& file, const std::vector<std::string>& defines, const std::string& symbol) {
    const std::string key = key_of(file, defines);
    auto found = functions_.find(key + symbol);
    if (found != functions_.end()) return found->second;
    if (!images_.count(key)) prepare({{file, defines}});
    if (!modules_.count(key)) RIDGE_CU(cuModuleLoadData(&modules_[key], images_[key].data()));
    CUfunction function;
    RIDGE_CU(cuModuleGetFunction(&function, modules_[key], symbol.c_str()));
    return functions_[key + symbol] = function;
  }
  bool built(const std::string& file, const std::vector<std::string>& defines) const {
    const auto found = images_.find(key_of(file, defines));
    return found != images_.end() && !found->second.empty();
  }

 private:
  static std::string key_of(const std::string& file, const std::vector<std::string>& defines) {
    std::string key = file;
    for (const auto& define : defines) key += "|" + define;
    return key;
  }
  std::string root_;
  std::map<std::string, std::vector<char>> images_;
  std::map<std::string, CUmodule> modules_;
  std::map<std::string, CUfunction> functions_;
};

// `overlap_previous`: the kernel may start while the one before it still runs, and waits for it itself.
inline void launch(CUfunction function, unsigned grid, unsigned block, unsigned cluster, unsigned shared_bytes,
                   CUstream stream, std::initializer_list<const void*> arguments, unsigned grid_y = 1,
                   bool overlap_previous = false) {
  std::vector<void*> pointers;
  for (const void* argument : arguments) pointers.push_back(const_cast<void*>(argument));
  std::vector<CUlaunchAttribute> attributes;
  if (cluster > 1) {
    CUlaunchAttribute& shape = attributes.emplace_back();
    shape.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    shape.value.clusterDim.x = cluster;
    shape.value.clusterDim.y = shape.value.clusterDim.z = 1;
  }
  if (overlap_previous) {
    CUlaunchAttribute& dependent = attributes.emplace_back();
    dependent.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    dependent.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = grid;
  config.gridDimY = grid_y;
  config.gridDimZ = 1;
  config.blockDimX = block;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = shared_bytes;
  config.hStream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  RIDGE_CU(cuLaunchKernelEx(&config, function, pointers.data(), nullptr));
}

class Event {
 public:
  Event() { RIDGE_CU(cuEventCreate(&event_, CU_EVENT_DEFAULT)); }
  void record(CUstream stream) const { RIDGE_CU(cuEventRecord(event_, stream)); }
  double seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    RIDGE_CU(cuEventElapsedTime(&milliseconds, earlier.event_, event_));
    return milliseconds * 1e-3;
  }

 private:
  CUevent event_{};
};

// ---- What the card is doing
// ----------------------------------------------------------------------------------------------

struct Telemetry {
  unsigned clock_mhz = 0, power_mw = 0, temperature_c = 0;
};
inline Library& management_library() {
  static Library library{"libnvidia-ml.so.1"};
  return library;
}
inline void* management_handle() {
  static void* handle = [] {
    void* h = nullptr;
    management_library().find<int()>("nvmlInit_v2")();
    management_library().find<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2")(0, &h);
    return h;
  }();
  return handle;
}
inline unsigned read_power_limit_mw() {
  unsigned limit = 0;
  if (!management_library()) return limit;
  management_library().find<int(void*, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit")(management_handle(), &limit);
  return limit;
}
inline Telemetry read_telemetry() {
  const Library& library = management_library();
  Telemetry t;
  if (!library) return t;
  void* handle = management_handle();
  library.find<int(void*, int, unsigned*)>("nvmlDeviceGetClockInfo")(handle, 1, &t.clock_mhz);
  library.find<int(void*, unsigned*)>("nvmlDeviceGetPowerUsage")(handle, &t.power_mw);
  library.find<int(void*, int, unsigned*)>("nvmlDeviceGetTemperature")(handle, 0, &t.temperature_c);
  return t;
}

}  // namespace ridge::gpu
