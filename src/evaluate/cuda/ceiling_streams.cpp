// Ceilings of the memories: read, write, copy and triad, from memory and from the L2.
#include <algorithm>
#include <array>
#include <bit>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "evaluate/cuda/ceilings.h"

namespace ridge::evaluate::cuda {
namespace {

namespace gpu = device::cuda;

constexpr std::int64_t kElement = 16;  // bytes of one access
constexpr std::int64_t kLargestArray = std::int64_t{4} << 30;
constexpr std::int64_t kWarmTraffic = std::int64_t{512} << 20;  // bytes of one array in one launch
constexpr std::int64_t kColumns = 4096;                         // floats of a row, as the filling kernel sees an array

struct Stream {
  const char *name, *kernel;
  int arrays;  // that move
};
constexpr Stream kStreams[] = {{"read_bandwidth", "ridge_read", 1},
                               {"write_bandwidth", "ridge_write", 1},
                               {"copy_bandwidth", "ridge_copy", 2},
                               {"triad_bandwidth", "ridge_triad", 3}};

enum Policy : std::int64_t { kPlain, kStreaming, kL2 };  // as in ceilings.cu
constexpr const char* kPolicyWords[] = {"", ", evicted first", ", past the L1"};

struct Arrays {
  void *x = nullptr, *z = nullptr, *y = nullptr;
  std::int64_t bytes = 0;  // of each
  std::int64_t passes = 1;
  bool warm = false;
};

// Three arrays of a power of two bytes each.
Result<Arrays> make_arrays(CeilingBench& bench, std::int64_t bytes, std::int64_t passes, bool warm) {
  Arrays arrays;
  arrays.bytes = bytes;
  arrays.passes = passes;
  arrays.warm = warm;
  std::uint64_t seed = 20260101;
  for (void** array : {&arrays.x, &arrays.z, &arrays.y}) {
    RIDGE_TRY(view, bench.random(DType::kF32, bytes / 4 / kColumns, kColumns, seed++));
    *array = view.data;
  }
  return arrays;
}

// One way of moving the arrays once (warm: `passes` times).
struct Way {
  CeilingBench::Launches launches;
  std::string words;
};

Way kernel_way(const gpu::Kernel& kernel, const Arrays& arrays, std::uint32_t blocks, std::uint32_t threads, int unroll,
               std::int64_t policy) {
  const auto launch = [kernel, arrays, blocks, threads, policy](gpu::StreamHandle stream) {
    Arrays a = arrays;
    std::int64_t count = a.bytes / kElement, how = policy;
    void* const arguments[] = {&a.x, &a.z, &a.y, &count, &a.passes, &how};
    return kernel.launch({{blocks}, {threads}}, arguments, stream);
  };
  return {launch, fmt::format("{} blocks of {} threads, {} x 16 bytes in flight{}", blocks, threads, unroll,
                              kPolicyWords[policy])};
}

// All shapes of a kernel that are worth a try: a block per tile, or as many blocks as stay resident.
Result<std::vector<Way>> ways_of(const CeilingBench& bench, const Stream& stream, const Arrays& arrays) {
  std::vector<Way> ways;
  const std::int64_t units = bench.device().info().multiprocessors;
  for (const int unroll : kUnrolls) {
    RIDGE_TRY(kernel, bench.kernel(unroll, stream.kernel));
    for (const std::uint32_t threads : {256u, 512u}) {
      const std::int64_t tiles = arrays.bytes / kElement / (std::int64_t{threads} * unroll);
      std::int64_t last = 0;
      for (const std::int64_t blocks : {units * 2, units * 2048 / threads, tiles}) {
        const std::int64_t used = std::min(blocks, tiles);
        if (used == last) continue;
        last = used;
        for (const std::int64_t policy : {arrays.warm ? kL2 : kPlain, arrays.warm ? kL2 : kStreaming}) {
          ways.push_back(kernel_way(kernel, arrays, static_cast<std::uint32_t>(used), threads, unroll, policy));
          if (arrays.warm) break;
        }
      }
    }
  }
  if (arrays.warm) return ways;
  if (std::string_view(stream.kernel) == "ridge_copy")
    ways.push_back({[arrays](gpu::StreamHandle s) {
                      return gpu::copy_on_device(arrays.y, arrays.x, static_cast<std::size_t>(arrays.bytes), s);
                    },
                    "the driver's copy"});
  if (std::string_view(stream.kernel) == "ridge_write")
    ways.push_back({[arrays](gpu::StreamHandle s) {
                      return gpu::fill_bytes(arrays.y, 0x5a, static_cast<std::size_t>(arrays.bytes), s);
                    },
                    "the driver's fill"});
  return ways;
}

Result<record::Ceiling> best_of(CeilingBench& bench, const Stream& stream, const Arrays& arrays) {
  RIDGE_TRY(ways, ways_of(bench, stream, arrays));
  const Way* best = nullptr;
  double least = 0;
  for (const Way& way : ways) {
    RIDGE_TRY(seconds, bench.quick(way.launches));
    if (best == nullptr || seconds < least) best = &way, least = seconds;
  }
  CeilingBench::Subject subject;
  subject.name = std::string(stream.name) + (arrays.warm ? "_warm" : "");
  subject.unit = "B/s";
  subject.amount = static_cast<double>(stream.arrays * arrays.bytes * arrays.passes);
  subject.launches = best->launches;
  subject.method = fmt::format(
      "{} array{} of {} MiB{}, {}; best of {}", stream.arrays, stream.arrays == 1 ? "" : "s", arrays.bytes >> 20,
      arrays.warm ? fmt::format(" in the L2, {} passes", arrays.passes) : "", best->words, ways.size());
  return bench.measure(subject);
}

std::int64_t floor_power(std::int64_t value) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 1))));
}

}  // namespace

Status stream_ceilings(CeilingBench& bench, const NoteCeiling& note, std::vector<record::Ceiling>& ceilings) {
  RIDGE_TRY(memory, bench.device().memory());
  const std::int64_t l2 = bench.device().info().l2_bytes;
  const std::int64_t cold = std::min(kLargestArray, floor_power(static_cast<std::int64_t>(memory.free_bytes) / 6));
  const std::int64_t warm = std::clamp(floor_power(l2 / 8), std::int64_t{1} << 20, std::int64_t{32} << 20);
  if (cold < 8 * l2) {
    return with_hint(make_error(ErrorCode::kUnsupported,
                                "{} MiB of device memory are free: arrays of {} MiB are not far over the L2 of {} MiB",
                                memory.free_bytes >> 20, cold >> 20, l2 >> 20),
                     "end what else uses the GPU");
  }
  double at = 0;
  for (const bool in_l2 : {false, true}) {
    RIDGE_TRY(arrays, in_l2 ? make_arrays(bench, warm, kWarmTraffic / warm, true) : make_arrays(bench, cold, 1, false));
    for (const Stream& stream : kStreams) {
      note(stream.name, at++ / 8);
      RIDGE_TRY(ceiling, best_of(bench, stream, arrays));
      ceilings.push_back(std::move(ceiling));
    }
    bench.free_memory();
  }
  record::Ceiling best = *std::max_element(ceilings.end() - 4, ceilings.end(),
                                           [](const auto& a, const auto& b) { return a.value < b.value; });
  best.method = best.name + ": " + best.method;
  best.name = "l2_bandwidth";
  ceilings.push_back(std::move(best));
  return ok_status();
}

}  // namespace ridge::evaluate::cuda
