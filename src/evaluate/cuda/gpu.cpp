#include "evaluate/cuda/gpu.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/embedded.h"
#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/stream.h"
#include "evaluate/cuda/build_apart.h"
#include "evaluate/host_fork.h"

namespace ridge::evaluate::cuda {

namespace {

using device::cuda::GpuInfo;

constexpr double kAskLimit = 60.0;

template <std::size_t kSize>
void put(char (&to)[kSize], const std::string& text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

// GpuInfo without the strings' memory.
struct GpuAnswer {
  bool found = false;
  char error[1024] = {}, name[128] = {}, arch[16] = {}, uuid[64] = {}, pci_bus[32] = {};
  int numbers[11] = {};
  std::int64_t sizes[3] = {};
};

GpuAnswer describe(int index) {
  GpuAnswer answer;
  const Result<GpuInfo> info = device::cuda::gpu_info(index);
  if (!info) {
    put(answer.error, info.error().text());
    return answer;
  }
  answer.found = true;
  put(answer.name, info->name);
  put(answer.arch, info->arch);
  put(answer.uuid, info->uuid);
  put(answer.pci_bus, info->pci_bus);
  const int numbers[11] = {info->index,
                           info->compute_major,
                           info->compute_minor,
                           info->driver_version,
                           info->multiprocessors,
                           info->max_threads_per_block,
                           info->max_threads_per_multiprocessor,
                           info->core_clock_khz,
                           info->memory_clock_khz,
                           info->memory_bus_bits,
                           0};
  std::copy(std::begin(numbers), std::end(numbers), answer.numbers);
  answer.sizes[0] = info->memory_bytes;
  answer.sizes[1] = info->l2_bytes;
  answer.sizes[2] = info->max_shared_bytes;
  return answer;
}

GpuInfo info_of(const GpuAnswer& answer) {
  GpuInfo info;
  info.name = answer.name;
  info.arch = answer.arch;
  info.uuid = answer.uuid;
  info.pci_bus = answer.pci_bus;
  info.index = answer.numbers[0];
  info.compute_major = answer.numbers[1];
  info.compute_minor = answer.numbers[2];
  info.driver_version = answer.numbers[3];
  info.multiprocessors = answer.numbers[4];
  info.max_threads_per_block = answer.numbers[5];
  info.max_threads_per_multiprocessor = answer.numbers[6];
  info.core_clock_khz = answer.numbers[7];
  info.memory_clock_khz = answer.numbers[8];
  info.memory_bus_bits = answer.numbers[9];
  info.memory_bytes = answer.sizes[0];
  info.l2_bytes = answer.sizes[1];
  info.max_shared_bytes = answer.sizes[2];
  return info;
}

// The answer of one question to a process of its own.
template <class Answer, class Work>
Result<Answer> ask_once(const Work& work) {
  RIDGE_TRY(process, ForkedProcess::start([&work](int socket) {
              const Answer answer = work();
              send_message(socket, &answer, sizeof answer);
            }));
  Answer answer;
  switch (process.receive(&answer, sizeof answer, kAskLimit)) {
    case ForkedProcess::Received::kMessage: return answer;
    case ForkedProcess::Received::kEnded:
      return make_error(ErrorCode::kToolFailed, "the process that asked the GPU ended: {}", process.how_it_ended());
    case ForkedProcess::Received::kNothing: break;
  }
  return make_error(ErrorCode::kToolFailed, "the GPU did not answer within {:.0f} s", kAskLimit);
}

struct WorkAnswer {
  char trouble[1024] = {};
};

// What ridge_alive computes.
std::uint32_t expected_word(std::uint32_t block, std::uint32_t thread) {
  std::uint32_t x = block + thread * 2654435761u;
  for (int i = 0; i < 64; ++i) x = x * 1664525u + 1013904223u;
  return x;
}

Status try_device(int index, const CheckImages& images) {
  constexpr std::uint32_t kThreads = 256;
  RIDGE_TRY(device, device::cuda::Device::open(index));
  RIDGE_CHECK_OK(device->make_current());
  RIDGE_TRY(stream, device::cuda::Stream::create(*device));
  RIDGE_TRY(module, CheckModule::load(*device, images.harness));
  const auto blocks = static_cast<std::uint32_t>(device->info().multiprocessors);
  std::vector<std::uint32_t> words(std::size_t{blocks} * kThreads);
  RIDGE_TRY(memory, device::cuda::Buffer::allocate(*device, words.size() * sizeof(std::uint32_t)));
  RIDGE_CHECK_OK(
      module->run({"ridge_alive", blocks, 1, kThreads, {ops::CheckLaunch::pointer(memory.data())}}, stream.handle()));
  RIDGE_CHECK_OK(device::cuda::copy_to_host(words.data(), memory.data(), memory.bytes(), stream.handle()));
  RIDGE_CHECK_OK(stream.synchronize());
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    if (words[i] == expected_word(i / kThreads, i % kThreads)) continue;
    return make_error(ErrorCode::kToolFailed, "block {} computed 0x{:08x}, expected 0x{:08x}", i / kThreads, words[i],
                      expected_word(i / kThreads, i % kThreads));
  }
  return ok_status();
}

}  // namespace

Result<GpuInfo> ask_gpu(int index) {
  RIDGE_TRY(answer, ask_once<GpuAnswer>([index] { return describe(index); }));
  if (!answer.found) return make_error(ErrorCode::kUnsupported, "{}", answer.error);
  return info_of(answer);
}

std::optional<std::string> device_trouble(int index, const CheckImages& images) {
  const Result<WorkAnswer> answer = ask_once<WorkAnswer>([&] {
    WorkAnswer found;
    if (const Status tried = try_device(index, images); !tried) put(found.trouble, tried.error().text());
    return found;
  });
  if (!answer) return answer.error().text();
  if (answer->trouble[0] != 0) return std::string(answer->trouble);
  return std::nullopt;
}

Result<std::shared_ptr<const CheckImages>> check_images(const ops::Operator& op, const std::string& arch,
                                                        const toolchain::BuildOptions& options) {
  if (op.device_check == nullptr) {
    return with_hint(make_error(ErrorCode::kUnsupported, "{} has no checks that run on a GPU", op.name),
                     "give the operator a device_check (src/ops/device_check.h)");
  }
  DeviceJob harness, checks;
  harness.code.files = {{"harness.cu", harness_source()}};
  checks.code.files = {{op.name + "_check.cu", op.device_check->source}};
  RIDGE_TRY(built, build_apart({harness, checks}, arch, options));
  for (const toolchain::DeviceBuild& one : built) {
    if (!one.ok()) return make_error(ErrorCode::kInternal, "a check kernel does not compile: {}", one.error);
  }
  auto images = std::make_shared<CheckImages>();
  images->harness = std::move(built[0].cubin);
  images->checks = std::move(built[1].cubin);
  return std::shared_ptr<const CheckImages>(std::move(images));
}

std::optional<std::string> device_call(std::string_view cubin) {
  using std::string_view_literals::operator""sv;
  // Names in the symbol table, with the bytes that end them.
  for (const std::string_view symbol : {"\0vprintf\0"sv, "\0malloc\0"sv, "\0free\0"sv, "\0cudaLaunchDeviceV2\0"sv,
                                        "\0cudaGetParameterBufferV2\0"sv, "\0__nv_aligned_device_malloc\0"sv}) {
    if (cubin.find(symbol) != std::string_view::npos) return std::string(symbol.substr(1, symbol.size() - 2));
  }
  return std::nullopt;
}

}  // namespace ridge::evaluate::cuda
