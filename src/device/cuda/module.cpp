#include "device/cuda/module.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace ridge::device::cuda {
namespace {

constexpr std::uint32_t kMaxGrid[] = {2147483647, 65535, 65535};
constexpr std::uint32_t kMaxBlock[] = {1024, 1024, 64};
constexpr std::uint32_t kLargestCluster = 16;  // 8 everywhere, 16 where the hardware and the kernel agree

std::string text(const Dim3& d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }
std::array<std::uint32_t, 3> sides(const Dim3& d) { return {d.x, d.y, d.z}; }

int attribute(CUfunction function, CUfunction_attribute which) {
  int value = 0;
  return driver().cuFuncGetAttribute(&value, which, function) == CUDA_SUCCESS ? value : 0;
}

std::vector<std::size_t> parameters_of(CUfunction function) {
  std::vector<std::size_t> sizes;
  if (driver().cuFuncGetParamInfo == nullptr) return sizes;
  std::size_t offset = 0, bytes = 0;
  while (driver().cuFuncGetParamInfo(function, sizes.size(), &offset, &bytes) == CUDA_SUCCESS) sizes.push_back(bytes);
  return sizes;
}

}  // namespace

Status check_shape(const LaunchShape& shape, const GpuInfo& gpu) {
  const auto grid = sides(shape.grid), block = sides(shape.block), cluster = sides(shape.cluster);
  for (std::size_t i = 0; i < 3; ++i) {
    if (grid[i] == 0 || grid[i] > kMaxGrid[i]) {
      return invalid("grid {}: side {} is {}; it must be 1 to {}", text(shape.grid), i, grid[i], kMaxGrid[i]);
    }
    if (block[i] == 0 || block[i] > kMaxBlock[i]) {
      return invalid("block {}: side {} is {}; it must be 1 to {}", text(shape.block), i, block[i], kMaxBlock[i]);
    }
    if (cluster[i] == 0 || grid[i] % cluster[i] != 0) {
      return with_hint(invalid("grid {} is not divisible by the cluster {}", text(shape.grid), text(shape.cluster)),
                       "round the grid up with round_up(..., cluster)");
    }
  }
  if (shape.block.count() > static_cast<std::uint64_t>(gpu.max_threads_per_block)) {
    return invalid("block {} has {} threads; {} takes {}", text(shape.block), shape.block.count(), gpu.name,
                   gpu.max_threads_per_block);
  }
  if (shape.cluster.count() > kLargestCluster) {
    return invalid("cluster {} has {} blocks; the most is {}", text(shape.cluster), shape.cluster.count(),
                   kLargestCluster);
  }
  if (shape.cluster.count() > 1 && gpu.compute_major < 9) {
    return invalid("cluster {}: {} ({}) has no clusters", text(shape.cluster), gpu.name, gpu.arch);
  }
  if (shape.shared_bytes > static_cast<std::uint64_t>(gpu.max_shared_bytes)) {
    return invalid("{} bytes of dynamic shared memory; a block of {} has {}", shape.shared_bytes, gpu.name,
                   gpu.max_shared_bytes);
  }
  return ok_status();
}

Status Kernel::allow(std::uint32_t dynamic_shared_bytes, bool large_clusters) const {
  const Driver& d = driver();
  // Never less than before: another plan of the same kernel may still be launched with more.
  const int wanted = static_cast<int>(dynamic_shared_bytes);
  if (attribute(handle_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) < wanted) {
    RIDGE_CHECK_OK(check(d.cuFuncSetAttribute(handle_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, wanted),
                         fmt::format("{}: {} bytes of dynamic shared memory beside {} static", symbol_,
                                     dynamic_shared_bytes, attributes_.static_shared_bytes)));
  }
  if (!large_clusters) return ok_status();
  return check(d.cuFuncSetAttribute(handle_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
               fmt::format("{}: clusters above 8 blocks", symbol_));
}

namespace {

// A launch as the driver takes it, which points at its own attributes.
struct Configured {
  std::array<CUlaunchAttribute, 2> attributes{};
  CUlaunchConfig config{};

  Configured(const LaunchShape& shape, StreamHandle stream) {
    unsigned count = 0;
    if (shape.cluster.count() > 1) {
      CUlaunchAttribute& cluster = attributes[count++];
      cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster.value.clusterDim.x = shape.cluster.x;
      cluster.value.clusterDim.y = shape.cluster.y;
      cluster.value.clusterDim.z = shape.cluster.z;
    }
    if (shape.overlap_previous) {
      CUlaunchAttribute& overlap = attributes[count++];
      overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      overlap.value.programmaticStreamSerializationAllowed = 1;
    }
    config.gridDimX = shape.grid.x;
    config.gridDimY = shape.grid.y;
    config.gridDimZ = shape.grid.z;
    config.blockDimX = shape.block.x;
    config.blockDimY = shape.block.y;
    config.blockDimZ = shape.block.z;
    config.sharedMemBytes = shape.shared_bytes;
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = count;
  }
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;
};

}  // namespace

Result<int> Kernel::most_clusters(const LaunchShape& shape) const {
  const Configured launch(shape, nullptr);
  int count = 0;
  RIDGE_CHECK_OK(check(driver().cuOccupancyMaxActiveClusters(&count, handle_, &launch.config),
                       fmt::format("{}: clusters of {} blocks", symbol_, shape.cluster.count())));
  return count;
}

Status Kernel::launch(const LaunchShape& shape, std::span<void* const> arguments, StreamHandle stream) const {
  if (shape.grid.count() == 0) return ok_status();
  const Configured launch(shape, stream);
  const CUresult code =
      driver().cuLaunchKernelEx(&launch.config, handle_, const_cast<void**>(arguments.data()), nullptr);
  if (code == CUDA_SUCCESS) [[likely]] {
    return ok_status();
  }
  Error error = driver_error(code, "cuLaunchKernelEx");
  error.message += fmt::format("; kernel {}, grid {}, block {}, cluster {}, {} bytes of dynamic shared memory", symbol_,
                               text(shape.grid), text(shape.block), text(shape.cluster), shape.shared_bytes);
  return error;
}

Result<Module> Module::load(const Device& device, std::string_view image) {
  RIDGE_CHECK_OK(device.make_current());
  CUmodule handle{};
  // A cubin knows its own length; PTX ends with a zero byte, which std::string_view does not promise.
  const std::string copy(image);
  RIDGE_CHECK_OK(check(driver().cuModuleLoadData(&handle, copy.c_str()),
                       fmt::format("loading {} bytes of machine code on {} ({})", image.size(), device.info().name,
                                   device.info().arch)));
  return Module(handle);
}

Module::Module(Module&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Module::~Module() {
  if (handle_ != nullptr) driver().cuModuleUnload(handle_);
}

Result<Kernel> Module::kernel(const std::string& symbol) const {
  CUfunction function{};
  const CUresult code = driver().cuModuleGetFunction(&function, handle_, symbol.c_str());
  if (code == CUDA_ERROR_NOT_FOUND) {
    return with_hint(make_error(ErrorCode::kNotFound, "the module has no kernel \"{}\"", symbol),
                     "declare it extern \"C\" __global__, so that its name is not changed");
  }
  RIDGE_CHECK_OK(check(code, "cuModuleGetFunction"));
  Kernel kernel;
  kernel.handle_ = function;
  kernel.symbol_ = symbol;
  kernel.attributes_ = {
      attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS), attribute(function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
      attribute(function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), attribute(function, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
      attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
  kernel.parameter_bytes_ = parameters_of(function);
  return kernel;
}

Result<Module::Global> Module::global(const std::string& symbol) const {
  CUdeviceptr pointer = 0;
  Global global;
  RIDGE_CHECK_OK(check(driver().cuModuleGetGlobal(&pointer, &global.bytes, handle_, symbol.c_str()),
                       fmt::format("cuModuleGetGlobal of \"{}\"", symbol)));
  global.data = reinterpret_cast<void*>(pointer);
  return global;
}

}  // namespace ridge::device::cuda
