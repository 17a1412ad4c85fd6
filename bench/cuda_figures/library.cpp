// What the library costs the host on this machine's GPU: compiling a kernel when a case first needs it, taking it from
// the cache or a pack in a fresh process, and a warm call of each operator over a bare launch.
//
//   bench_cuda_library OUT
//
// Writes OUT/library.csv. Exit status 77 where there is no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/files.h"
#include "device/cuda/buffer.h"
#include "device/cuda/module.h"
#include "device/cuda/stream.h"
#include "dispatch/launch.h"
#include "evaluate/cuda/gpu.h"
#include "evaluate/cuda/memory.h"
#include "evaluate/host_fork.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels.h"
#include "ops/matmul/cuda_wgmma_model.h"
#include "ops/matmul/values.h"
#include "record/architecture.h"
#include "record/kernel_pack.h"
#include "stats/summary.h"
#include "toolchain/device_build.h"

namespace {

using namespace ridge;
using Clock = std::chrono::steady_clock;
namespace cuda_device = device::cuda;

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::fflush(nullptr);
  std::_Exit(1);
}
template <class T>
T must(Result<T> result, const std::string& what) {
  if (!result) stop(what + ": " + result.error().text());
  return std::move(*result);
}
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<std::string> lines;
void add(const std::string& figure, double value, const std::string& unit, const std::string& detail) {
  lines.push_back(fmt::format("{},{:.6g},{},\"{}\"\n", figure, value, unit, detail));
  fmt::print("{:28} {:10.4g} {:4} {}\n", figure, value, unit, detail);
  std::fflush(stdout);
}

// Of work in a fresh process, which alone touches the GPU.
template <class Work>
double in_a_process(const Work& work) {
  auto process = must(evaluate::ForkedProcess::start([&](int socket) {
                        const auto* const gpu = must(cuda_device::Device::open(0), "device");
                        if (!gpu->make_current()) return;
                        const double answer = work(*gpu);
                        evaluate::send_message(socket, &answer, sizeof answer);
                      }),
                      "fork");
  double answer = 0;
  if (process.receive(&answer, sizeof answer, 120) != evaluate::ForkedProcess::Received::kMessage) stop("no answer");
  return answer;
}

// The kernel for 4096 x 4096 x 4096 in bf16, as a call asks for it.
ops::KernelRequest wgmma_request(int multiprocessors) {
  cuda::GemmCase g;
  g.m = g.n = g.k = 4096;
  const ops::DescribedKernel& kernel = ops::described_kernel(cuda::kWgmmaSource);
  record::PlanFacts facts;
  ops::matmul::add_values(g, facts.values);
  facts.values["sm_count"] = multiprocessors;
  for (const char* name : {"a", "b", "c"}) facts.operands.push_back({name, DType::kBf16, {1, 1}, {1, 1}});
  const int chosen = cuda::rank_wgmma(g, kernel.fitting(facts), cuda::wgmma_configs(),
                                      cuda::DeviceFacts{.multiprocessors = multiprocessors})[0];
  const auto plan = must(kernel.resolve(chosen, facts), "plan");
  return {cuda::kWgmmaSource, must(kernel.build(chosen, facts), "defines").defines, plan.kernels[0].symbol,
          plan.kernels[0].shared_bytes, plan.kernels[0].cluster[0] > 8};
}

void write_pack(const std::filesystem::path& path, const std::filesystem::path& cache) {
  constexpr int kMultiprocessors = 132;
  const ops::KernelRequest request = wgmma_request(kMultiprocessors);
  const auto code = ops::device_code({request.source, request.defines}, record::kUsualTarget);
  toolchain::BuildOptions options;
  options.cache_directory = cache;
  const auto built = must(toolchain::build_device(code, toolchain::find_device_compiler, options), "build");
  record::KernelPack pack;
  pack.header.arch = code.arch;
  pack.header.compiler = built.evidence.compiler;
  pack.kernels = {{toolchain::source_key(code), request.source, request.defines}};
  if (!write_file_durably(path, record::pack_text(pack, {built.cubin}))) stop("write the pack");
}

void first_calls(const std::filesystem::path& folder) {
  const auto start_up = [&](const cuda_device::Device& gpu) {
    ops::set_kernel_cache(folder);
    const auto start = Clock::now();
    must(ops::device_kernel(gpu, wgmma_request(gpu.info().multiprocessors)), "kernel");
    return since(start);
  };
  add("jit", in_a_process(start_up), "s", "compile and load one wgmma kernel in a fresh process; limit 3 s");
  std::vector<double> cached;
  for (int i = 0; i < 7; ++i) cached.push_back(in_a_process(start_up));
  add("cached_start", 1e3 * stats::median(cached), "ms", "the same from the cache on disk, median of 7; limit 5 ms");
  // The same kernel from a pack, with a cache that holds nothing else.
  const std::filesystem::path packed = folder / "packed";
  write_pack(packed / "packs" / "one.pack", folder);
  std::vector<double> from_pack;
  for (int i = 0; i < 7; ++i) {
    from_pack.push_back(in_a_process([&](const cuda_device::Device& gpu) {
      ops::set_kernel_cache(packed);
      const auto start = Clock::now();
      must(ops::device_kernel(gpu, wgmma_request(gpu.info().multiprocessors)), "kernel");
      const double seconds = since(start);
      if (ops::kernel_statistics().from_pack != 1) stop("the pack was not used");
      return seconds;
    }));
  }
  add("pack_start", 1e3 * stats::median(from_pack), "ms", "the same from a pack, median of 7");
}

// Median over batches of the host's time for one call, while the device keeps up.
template <class Call>
double host_seconds(const cuda_device::Stream& stream, const Call& call) {
  constexpr int kBatch = 200, kBatches = 40;
  std::vector<double> each;
  for (int b = 0; b < kBatches; ++b) {
    if (!stream.synchronize()) stop("synchronize");
    const auto start = Clock::now();
    for (int i = 0; i < kBatch; ++i) {
      if (const Status status = call(); !status) stop(status.error().text());
    }
    each.push_back(since(start) / kBatch);
  }
  return stats::median(each);
}

// Of three arguments, as the smallest kernels have.
double bare_launch(const cuda_device::Device& gpu, const std::filesystem::path& cache) {
  const auto stream = must(cuda_device::Stream::create(gpu), "stream");
  toolchain::DeviceCode code;
  code.files = {{"nothing.cu", "extern \"C\" __global__ void nothing(void*, long long, unsigned) {}\n"}};
  code.arch = gpu.info().arch;
  toolchain::BuildOptions options;
  options.cache_directory = cache;
  const auto built = must(toolchain::build_device(code, toolchain::find_device_compiler, options), "a kernel");
  if (!built.ok()) stop(built.error);
  const auto module = must(cuda_device::Module::load(gpu, built.cubin), "a module");
  const auto kernel = must(module.kernel("nothing"), "a kernel");
  void* data = nullptr;
  std::int64_t count = 256;
  std::uint32_t rule = 0;
  const std::array<void*, 3> arguments = {&data, &count, &rule};
  cuda_device::LaunchShape shape;
  shape.block.x = 256;
  return host_seconds(stream, [&] { return kernel.launch(shape, arguments, stream.handle()); });
}

double warm_call(const cuda_device::Device& gpu, const std::string& text) {
  const auto wanted = must(record::parse_case(text), text);
  const ops::Operator* const op = must(ops::find_operator(wanted.op), text);
  const ops::Problem problem = must(op->bind(wanted), text);
  const auto stream = must(cuda_device::Stream::create(gpu), "stream");
  ops::Call call;
  std::vector<cuda_device::Buffer> buffers;
  for (const std::int64_t value : problem.values) call.values.push_back(value);
  for (TensorView view : evaluate::cuda::operand_views(problem, evaluate::RowPadding::kNone)) {
    buffers.push_back(must(cuda_device::Buffer::allocate(gpu, size_bytes(view.dtype, view.element_count())), text));
    view.data = buffers.back().data();
    if (!cuda_device::fill_bytes(view.data, 0, buffers.back().bytes(), stream.handle())) stop("fill");
    call.operands.push_back(view);
  }
  return host_seconds(stream, [&] { return dispatch::launch(*op, call, stream.view()); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_cuda_library OUT\n");
    return 64;
  }
  if (const auto info = evaluate::cuda::ask_gpu(0); !info) {
    fmt::print(stderr, "skipped: {}\n", info.error().text());
    return 77;
  }
  const TempDir cache = must(TempDir::create("ridge-library-bench"), "cache");
  first_calls(cache.path());
  const auto with_cache = [&](auto work) {
    return in_a_process([&](const cuda_device::Device& gpu) {
      ops::set_kernel_cache(cache.path());
      return work(gpu);
    });
  };
  const auto bare = [&](const cuda_device::Device& gpu) { return bare_launch(gpu, cache.path()); };
  add("bare_launch", 1e6 * with_cache(bare), "us", "host time of one kernel launch");
  for (const char* text :
       {"gemm m=128 n=128 k=64 dtype=bf16 layout=nt", "gemm_fp8 m=128 n=128 k=128 scaling=block",
        "quantize rows=128 cols=128 scaling=1x128 copies=both", "dequantize rows=128 cols=128 scaling=1x128"}) {
    // Both in one process: from one to the next the same launch differs by half a microsecond.
    const double more = with_cache([&](const cuda_device::Device& gpu) { return warm_call(gpu, text) - bare(gpu); });
    add("warm_call " + std::string(text).substr(0, std::string(text).find(' ')), 1e6 * more, "us",
        fmt::format("over the bare launch in the same process, {}; limit 3 us", text));
  }
  std::string text = "figure,value,unit,detail\n";
  for (const std::string& line : lines) text += line;
  if (const Status saved = write_file_durably(std::filesystem::path(argv[1]) / "library.csv", text); !saved) {
    stop(saved.error().text());
  }
  return 0;
}
