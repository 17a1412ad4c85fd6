#include "ops/cuda/device.h"

#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "record/architecture.h"

namespace ridge::ops {
namespace {

namespace gpu = device::cuda;

constexpr std::int64_t kLargestReference = std::int64_t{64} << 20;  // bytes of all operands

DeviceInfo describe(int index) {
  const Result<gpu::GpuInfo> found = gpu::gpu_info(index);
  if (found) return device_info_of(*found);
  DeviceInfo info;
  info.backend = Backend::kCuda;
  info.missing = found.error().message;
  return info;
}

std::int64_t operand_bytes(const Problem& problem) {
  std::int64_t total = 0;
  for (const OperandSpec& operand : problem.operands) {
    total += static_cast<std::int64_t>(size_bytes(operand.dtype, operand.element_count()));
  }
  return total;
}

// A dense copy of an operand on the host.
struct HostCopy {
  std::unique_ptr<std::byte[]> bytes;
  TensorView view;
  std::size_t row_bytes = 0, rows = 0;
};

HostCopy host_copy(const TensorView& device) {
  HostCopy copy;
  copy.view = device;
  const auto last = static_cast<std::size_t>(device.rank - 1);
  std::int64_t step = 1;
  for (std::size_t d = last + 1; d-- > 0;) {
    copy.view.stride[d] = step;
    step *= device.shape[d];
  }
  const std::int64_t rows = device.shape[last] == 0 ? 0 : step / device.shape[last];
  copy.row_bytes = size_bytes(device.dtype, device.shape[last]);
  copy.rows = static_cast<std::size_t>(rows);
  copy.bytes = std::make_unique<std::byte[]>(copy.row_bytes * copy.rows + 1);
  copy.view.data = copy.bytes.get();
  return copy;
}

// Every matrix of the last two dimensions, on the device and in its dense copy on the host: copy(device, host, rows).
template <class Copy>
Status for_each_matrix(const TensorView& device, const HostCopy& host, const Copy& copy) {
  const std::size_t outer = device.rank > 2 ? static_cast<std::size_t>(device.rank - 2) : 0;
  const std::int64_t rows = device.rank > 1 ? device.shape[outer] : 1,
                     step = device.rank > 1 ? device.stride[outer] : 0;
  const std::size_t count = rows == 0 ? 0 : host.rows / static_cast<std::size_t>(rows);
  for (std::size_t matrix = 0; matrix < count; ++matrix) {
    std::int64_t offset = 0, left = static_cast<std::int64_t>(matrix);
    for (std::size_t d = outer; d-- > 0; left /= device.shape[d]) offset += left % device.shape[d] * device.stride[d];
    auto* const there = static_cast<std::byte*>(device.data) + size_bytes(device.dtype, offset);
    std::byte* const here = host.bytes.get() + matrix * static_cast<std::size_t>(rows) * host.row_bytes;
    RIDGE_CHECK_OK(copy(gpu::Rows{there, size_bytes(device.dtype, step)}, gpu::Rows{here, host.row_bytes},
                        static_cast<std::size_t>(rows)));
  }
  return ok_status();
}

Status run_reference(const Implementation& host, const Problem& problem, const Arguments& arguments,
                     const Stream& stream) {
  RIDGE_TRY(device, gpu::Device::open(stream.device));
  RIDGE_CHECK_OK(device->make_current());
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(capturing, gpu::is_capturing(handle));
  if (capturing) {
    return with_hint(
        make_error(ErrorCode::kConflict, "{}: the reference computes on the host, which no graph can record",
                   problem.problem_case.text()),
        "use another implementation");
  }
  std::vector<HostCopy> copies;
  std::vector<TensorView> views;
  for (const TensorView& operand : arguments.operands) {
    HostCopy& copy = copies.emplace_back(host_copy(operand));
    RIDGE_CHECK_OK(for_each_matrix(operand, copy, [&](gpu::Rows from, gpu::Rows to, std::size_t rows) {
      return gpu::copy_rows_to_host(to, from, copy.row_bytes, rows, handle);
    }));
    views.push_back(copy.view);
  }
  RIDGE_CHECK_OK(gpu::synchronize(handle));
  RIDGE_CHECK_OK(host.run(problem, {views, arguments.scalars}, Stream::cpu()));
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    RIDGE_CHECK_OK(for_each_matrix(arguments[i], copies[i], [&](gpu::Rows to, gpu::Rows from, std::size_t rows) {
      return gpu::copy_rows_to_device(to, from, copies[i].row_bytes, rows, handle);
    }));
  }
  return gpu::synchronize(handle);
}

}  // namespace

DeviceInfo device_info_of(const gpu::GpuInfo& found) {
  DeviceInfo info;
  info.backend = Backend::kCuda;
  info.name = found.name;
  info.arch = found.arch;
  info.driver = fmt::format("CUDA {}.{}", found.driver_version / 1000, found.driver_version % 1000 / 10);
  info.multiprocessors = found.multiprocessors;
  info.l2_bytes = static_cast<double>(found.l2_bytes);
  info.memory_bandwidth = 2e3 * found.memory_clock_khz * found.memory_bus_bits / 8;  // two transfers a clock
  info.clock = 1e3 * found.core_clock_khz;
  info.features = record::features_of(found.arch);
  return info;
}

const DeviceInfo& cuda_device_info(int index) {
  static std::mutex mutex;
  static auto* const known = new std::map<int, DeviceInfo>;
  const std::scoped_lock lock(mutex);
  const auto found = known->find(index);
  return found != known->end() ? found->second : (*known)[index] = describe(index);
}

std::optional<Implementation> cuda_reference(const Operator& op) {
  Implementation reference;
  reference.name = "cuda_reference";
  reference.summary = "the reference, computed on the host from copies of the operands: only for small problems";
  reference.backend = Backend::kCuda;
  reference.rank = 999;
  reference.is_reference = true;
  reference.supports = [](const Problem& problem, const DeviceInfo&) -> Refusal {
    const std::int64_t bytes = operand_bytes(problem);
    if (bytes <= kLargestReference) return std::nullopt;
    return fmt::format("operands of {} bytes; the reference takes at most {}", bytes, kLargestReference);
  };
  Implementation host = reference_on_host(op);
  reference.run = [host = std::move(host)](const Problem& problem, const Arguments& arguments, const Stream& stream) {
    return run_reference(host, problem, arguments, stream);
  };
  return reference;
}

}  // namespace ridge::ops
