// What the GPU programs of this folder and of tests/gpu share, on the device layer of the library: the first GPU,
// memory, kernels of the tree, launches, times. An error ends the program with its message, since nothing here can go
// on.
#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "device/cuda/module.h"
#include "device/cuda/nvml.h"
#include "device/cuda/stream.h"
#include "device/cuda/tensor_map.h"
#include "toolchain/device_build.h"

namespace ridge::gpu {

using Address = std::uintptr_t;  // of device memory
using device::cuda::Kernel;
using device::cuda::StreamHandle;
using device::cuda::TensorMap;

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(nullptr);
  std::_Exit(1);  // threads may still be compiling: no destructors
}

// Ends the program with the status for "this machine cannot run GPU work" (the convention of automake and ctest).
[[noreturn]] inline void missing(const std::string& message) {
  std::fprintf(stderr, "skipped: %s\n", message.c_str());
  std::exit(77);
}

template <class T>
T must(Result<T> result) {
  if (!result) fail(result.error().text());
  return std::move(*result);
}

// The first GPU with its primary context (shared with whatever else runs in the process, PyTorch for one).
struct Gpu {
  const device::cuda::Device* device;
  device::cuda::Stream queue;
  StreamHandle stream = queue.handle();

  const device::cuda::GpuInfo& info() const { return device->info(); }
  // As the driver says: bytes per second, Hz.
  double memory_bandwidth() const { return 2e3 * info().memory_clock_khz * info().memory_bus_bits / 8; }
  double clock() const { return 1e3 * info().core_clock_khz; }
  void synchronize() const { must(queue.synchronize()); }
};
inline const Gpu& gpu() {
  static const Gpu instance = [] {
    const auto opened = device::cuda::Device::open(0);
    if (!opened) missing(opened.error().text());
    must((*opened)->make_current());
    return Gpu{*opened, must(device::cuda::Stream::create(**opened))};
  }();
  return instance;
}
inline const Gpu& hopper() {
  if (gpu().info().compute_major != 9) {
    missing("these kernels need compute capability 9.0 (Hopper); this is " + gpu().info().name);
  }
  return gpu();
}

// Device memory; of zero bytes it still has an address.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) : memory_(must(device::cuda::Buffer::allocate(*gpu().device, bytes))) {}
  Address get() const { return reinterpret_cast<Address>(memory_.data()); }
  std::size_t bytes() const { return memory_.bytes(); }
  void fill(int byte) const {
    must(device::cuda::fill_bytes(memory_.data(), static_cast<std::uint8_t>(byte), bytes(), gpu().stream));
  }
  void copy_from(const Buffer& other) const {
    must(device::cuda::copy_on_device(memory_.data(), other.memory_.data(), bytes(), gpu().stream));
  }
  void put(const void* host) const {
    must(device::cuda::copy_to_device(memory_.data(), host, bytes(), gpu().stream));
    gpu().synchronize();
  }
  template <class T>
  std::vector<T> values(std::size_t count) const {
    std::vector<T> read(count);
    must(device::cuda::copy_to_host(read.data(), memory_.data(), count * sizeof(T), gpu().stream));
    gpu().synchronize();
    return read;
  }

 private:
  device::cuda::Buffer memory_;
};

// Kernels of sources in the tree, named from its root; each source is compiled when first asked for.
class Kernels {
 public:
  explicit Kernels(std::string root) : root_(std::move(root)) {}

  const Kernel& get(const std::string& file, const std::string& symbol) {
    auto module = modules_.find(file);
    if (module == modules_.end()) module = modules_.emplace(file, load(file)).first;
    auto kernel = kernels_.find(file + symbol);
    if (kernel == kernels_.end()) kernel = kernels_.emplace(file + symbol, must(module->second.kernel(symbol))).first;
    return kernel->second;
  }

 private:
  device::cuda::Module load(const std::string& file) const {
    toolchain::DeviceCode code;
    code.arch = gpu().info().arch;
    code.files.push_back({file, must(read_file(root_ + "/" + file))});
    for (const EmbeddedFile& layer : device::cuda::kernel_layer()) {
      code.files.push_back({file.substr(0, file.rfind('/') + 1) + std::string(layer.path), std::string(layer.text)});
    }
    toolchain::BuildOptions options;
    options.past_cache = true;
    const auto built = must(toolchain::build_device(code, toolchain::find_device_compiler, options));
    if (!built.ok()) fail(file + ": " + built.error + "\n" + built.evidence.log);
    return must(device::cuda::Module::load(*gpu().device, built.cubin));
  }

  std::string root_;
  std::map<std::string, device::cuda::Module> modules_;
  std::map<std::string, Kernel> kernels_;
};

// Calls work(i) for every i below count, on as many threads as there are processors.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      must(gpu().device->make_current());
      for (std::size_t mine; (mine = next++) < count;) work(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

inline void launch(const Kernel& kernel, unsigned grid, unsigned block, unsigned shared_bytes,
                   std::initializer_list<const void*> arguments) {
  std::vector<void*> pointers;
  for (const void* argument : arguments) pointers.push_back(const_cast<void*>(argument));
  must(kernel.launch({.grid = {grid}, .block = {block}, .cluster = {}, .shared_bytes = shared_bytes}, pointers,
                     gpu().stream));
}

class Event {
 public:
  void record(StreamHandle stream) const { must(event_.record(stream)); }
  double seconds_since(const Event& earlier) const { return must(event_.since(earlier.event_)); }

 private:
  device::cuda::Event event_ = must(device::cuda::Event::create());
};

// What the card is doing; 0 where the management library does not say.
struct Telemetry {
  unsigned clock_mhz = 0, power_w = 0, power_limit_w = 0, temperature_c = 0;
};
inline Telemetry read_telemetry() {
  const device::cuda::Telemetry read = device::cuda::read_telemetry(gpu().info().uuid);
  const auto whole = [](const std::optional<double>& value) { return static_cast<unsigned>(value.value_or(0)); };
  return {whole(read.sm_clock_mhz), whole(read.power_watts), whole(read.power_limit_watts),
          whole(read.temperature_celsius)};
}

}  // namespace ridge::gpu
