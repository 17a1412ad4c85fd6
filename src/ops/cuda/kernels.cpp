#include "ops/cuda/kernels.h"

#include <chrono>
#include <future>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/files.h"
#include "device/cuda/library.h"
#include "ops/cuda/device.h"
#include "toolchain/device_build.h"

namespace ridge::ops {
namespace {

namespace gpu = device::cuda;

struct Loaded {
  gpu::Module module;
  gpu::Kernel kernel;
};
using Slot = std::shared_future<std::shared_ptr<Result<Loaded>>>;

// Modules are never unloaded: kernels in flight, and graphs that hold them, may outlive any scope.
struct Store {
  std::mutex mutex;
  std::filesystem::path cache;
  std::map<std::string, Slot> slots;
  KernelStatistics statistics;
};
Store& store() {
  static Store* const instance = new Store;
  return *instance;
}

toolchain::DeviceCode code_of(const KernelRequest& request, const std::string& arch) {
  toolchain::DeviceCode code;
  code.defines = request.defines;
  code.arch = arch;
  // The source first, then everything it may include.
  for (const EmbeddedFile& file : device_sources()) {
    if (file.path == request.source) code.files.push_back({std::string(file.path), std::string(file.text)});
  }
  for (const EmbeddedFile& file : device_sources()) {
    if (file.path.ends_with(".cuh")) code.files.push_back({std::string(file.path), std::string(file.text)});
  }
  for (const EmbeddedFile& file : gpu::kernel_layer()) {
    code.files.push_back({"device/cuda/kernel/" + std::string(file.path), std::string(file.text)});
  }
  return code;
}

void count(bool cached, std::chrono::steady_clock::time_point start) {
  Store& s = store();
  const std::scoped_lock lock(s.mutex);
  (cached ? s.statistics.from_cache : s.statistics.compiled) += 1;
  s.statistics.loaded += 1;
  s.statistics.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::filesystem::path> cache_directory() {
  Store& s = store();
  const std::scoped_lock lock(s.mutex);
  if (s.cache.empty()) {
    // Where nobody chose: private to this process and gone with it. A shared folder anybody may write to would let
    // others put code into this process.
    RIDGE_TRY(fresh, TempDir::create("ridge-kernels"));
    static const TempDir own = std::move(fresh);
    s.cache = own.path();
  }
  return s.cache;
}

Result<Loaded> build_and_load(const gpu::Device& device, const KernelRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  toolchain::BuildOptions options;
  RIDGE_TRY(cache, cache_directory());
  options.cache_directory = std::move(cache);
  RIDGE_TRY(built,
            toolchain::build_device(code_of(request, device.info().arch), toolchain::find_device_compiler, options));
  if (!built.ok()) {
    return make_error(ErrorCode::kInternal, "{} of {} does not compile with {}: {}\n{}", request.symbol, request.source,
                      built.evidence.compiler, built.error, built.evidence.log);
  }
  RIDGE_TRY(module, gpu::Module::load(device, built.cubin));
  RIDGE_TRY(kernel, module.kernel(request.symbol));
  if (request.shared_bytes > 0 || request.large_clusters) {
    RIDGE_CHECK_OK(kernel.allow(request.shared_bytes, request.large_clusters));
  }
  count(built.evidence.cached, start);
  return Loaded{std::move(module), std::move(kernel)};
}

std::string key_of(const gpu::Device& device, const KernelRequest& request) {
  std::string key = fmt::format("{}|{}|{}|{}|{}", device.info().index, request.source, request.symbol,
                                request.shared_bytes, request.large_clusters);
  for (const std::string& define : request.defines) key += "|" + define;
  return key;
}

}  // namespace

void set_kernel_cache(std::filesystem::path directory) {
  const std::scoped_lock lock(store().mutex);
  store().cache = std::move(directory);
}

Result<gpu::Kernel> device_kernel(const gpu::Device& device, const KernelRequest& request) {
  const std::string key = key_of(device, request);
  std::promise<std::shared_ptr<Result<Loaded>>> mine;
  Slot slot;
  bool first = false;
  {
    const std::scoped_lock lock(store().mutex);
    const auto found = store().slots.find(key);
    first = found == store().slots.end();
    slot = first ? store().slots[key] = mine.get_future().share() : found->second;
  }
  if (first) {
    auto made = std::make_shared<Result<Loaded>>(build_and_load(device, request));
    if (!*made) {  // a full disk or a missing compiler may be mended: the next call tries again
      const std::scoped_lock lock(store().mutex);
      store().slots.erase(key);
    }
    mine.set_value(std::move(made));
  }
  const std::shared_ptr<Result<Loaded>>& ready = slot.get();
  if (!*ready) return ready->error();
  return (*ready)->kernel;
}

KernelStatistics kernel_statistics() {
  const std::scoped_lock lock(store().mutex);
  return store().statistics;
}

}  // namespace ridge::ops
