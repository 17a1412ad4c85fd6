#include "ops/cuda/kernels.h"

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <mutex>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "device/cuda/library.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernel_packs.h"
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
  std::vector<std::filesystem::path> pack_places = places_in("RIDGE_KERNEL_PACKS");
  std::shared_ptr<const KernelPacks> packs;  // opened by the first kernel
  std::map<std::string, Slot> slots;
  KernelStatistics statistics;
  std::function<void(std::string)> warn;
};
Store& store() {
  static Store* const instance = new Store;
  return *instance;
}

enum class Origin { kCompiled, kCache, kPack };

void count(Origin origin, std::chrono::steady_clock::time_point start) {
  Store& s = store();
  const std::scoped_lock lock(s.mutex);
  if (origin == Origin::kCompiled) ++s.statistics.compiled;
  if (origin == Origin::kCache) ++s.statistics.from_cache;
  if (origin == Origin::kPack) ++s.statistics.from_pack;
  s.statistics.loaded += 1;
  s.statistics.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::filesystem::path> cache_directory() {
  Store& s = store();
  const std::scoped_lock lock(s.mutex);
  if (s.cache.empty()) {
    // Without a choice: private to this process and gone with it. A shared folder that any user may write to would let
    // others put code into this process.
    RIDGE_TRY(fresh, TempDir::create("ridge-kernels"));
    static const TempDir own = std::move(fresh);
    s.cache = own.path();
  }
  return s.cache;
}

std::shared_ptr<const KernelPacks> kernel_packs() {
  Store& s = store();
  std::function<void(std::string)> warn;
  std::shared_ptr<const KernelPacks> packs;
  {
    const std::scoped_lock lock(s.mutex);
    if (s.packs != nullptr) return s.packs;
    packs = s.packs = std::make_shared<const KernelPacks>(KernelPacks::open(s.pack_places));
    warn = s.warn;
  }
  for (const std::string& why : packs->unreadable()) {
    if (warn) warn("pack of kernels left out: " + why);
  }
  return packs;
}

struct Cubin {
  std::string code;
  Origin origin = Origin::kCompiled;
};

Result<Cubin> cubin_of(const gpu::Device& device, const KernelRequest& request) {
  const toolchain::DeviceCode code = device_code({request.source, request.defines}, device.info().arch);
  const std::shared_ptr<const KernelPacks> packs = kernel_packs();
  if (!packs->empty()) {
    RIDGE_TRY(packed, packs->find(toolchain::source_key(code)));
    if (packed) return Cubin{std::move(*packed), Origin::kPack};
  }
  toolchain::BuildOptions options;
  RIDGE_TRY(cache, cache_directory());
  options.cache_directory = std::move(cache);
  RIDGE_TRY(built, toolchain::build_device(code, toolchain::find_device_compiler, options));
  if (!built.ok()) {
    return make_error(ErrorCode::kInternal, "{} of {} does not compile with {}: {}\n{}", request.symbol, request.source,
                      built.evidence.compiler, built.error, built.evidence.log);
  }
  if (const auto slow = toolchain::serialised(built)) {
    return make_error(ErrorCode::kInternal, "{} of {} with {}: {}\n{}", request.symbol, request.source,
                      built.evidence.compiler, *slow, built.evidence.log);
  }
  return Cubin{std::move(built.cubin), built.evidence.cached ? Origin::kCache : Origin::kCompiled};
}

Result<Loaded> build_and_load(const gpu::Device& device, const KernelRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  RIDGE_TRY(cubin, cubin_of(device, request));
  RIDGE_TRY(module, gpu::Module::load(device, cubin.code));
  RIDGE_TRY(kernel, module.kernel(request.symbol));
  if (request.shared_bytes > 0 || request.large_clusters) {
    RIDGE_CHECK_OK(kernel.allow(request.shared_bytes, request.large_clusters));
  }
  count(cubin.origin, start);
  return Loaded{std::move(module), std::move(kernel)};
}

std::string key_of(const gpu::Device& device, const KernelRequest& request) {
  std::string key = fmt::format("{}|{}|{}|{}|{}", device.info().index, request.source, request.symbol,
                                request.shared_bytes, request.large_clusters);
  for (const std::string& define : request.defines) key += "|" + define;
  return key;
}

}  // namespace

toolchain::DeviceCode device_code(const KernelBuild& build, const std::string& arch) {
  toolchain::DeviceCode code;
  code.defines = build.defines;
  code.arch = arch;
  // The source first, then everything it may include.
  for (const EmbeddedFile& file : device_sources()) {
    if (file.path == build.source) code.files.push_back({std::string(file.path), std::string(file.text)});
  }
  for (const EmbeddedFile& file : device_sources()) {
    if (file.path.ends_with(".cuh")) code.files.push_back({std::string(file.path), std::string(file.text)});
  }
  for (const EmbeddedFile& file : gpu::kernel_layer()) {
    code.files.push_back({"device/cuda/kernel/" + std::string(file.path), std::string(file.text)});
  }
  return code;
}

void set_kernel_cache(std::filesystem::path directory) {
  const std::scoped_lock lock(store().mutex);
  store().pack_places.insert(store().pack_places.begin(), directory / "packs");
  store().packs.reset();
  store().cache = std::move(directory);
}

void on_kernel_warning(std::function<void(std::string)> receiver) {
  const std::scoped_lock lock(store().mutex);
  store().warn = std::move(receiver);
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
