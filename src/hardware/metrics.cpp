#include "hardware/metrics.h"

#include <algorithm>

namespace ridge::hardware {
namespace {

using enum Dimension;
constexpr bool kOptional = false;
constexpr double kKiB = 1024, kMiB = 1024 * 1024, kGB = 1e9, kT = 1e12;

constexpr Metric kMetrics[] = {
    {"compute_units", kUnits, 1, 512, "multiprocessors, compute units, or processor cores enabled in the product"},
    {"dies", kUnits, 1, 16, "compute dies", kOptional},
    {"units_per_die", kUnits, 1, 256, "compute units enabled on each die", kOptional},
    {"vector_cores", kCores, 64, 65536, "fp32 lanes of the product"},
    {"matrix_cores", kCores, 8, 8192, "matrix units of the product"},
    {"vector_cores_per_unit", kCores, 16, 512, "fp32 lanes of one compute unit"},
    {"matrix_cores_per_unit", kCores, 1, 16, "matrix units of one compute unit"},
    {"fma_units_per_unit", kFmaUnits, 1, 8, "vector fused multiply-add units of one processor core", kOptional},
    {"vector_width", kBits, 128, 2048, "width of a vector unit's data path", kOptional},
    {"vector_registers", kRegisters, 8, 64, "architectural vector registers", kOptional},
    {"boost_clock", kFrequency, 0.8e9, 6e9, "highest clock; vector peaks assume it"},
    {"matrix_clock", kFrequency, 0.8e9, 6e9, "the clock that the stated matrix peaks assume"},
    {"vector_fp32_per_clock", kFlopPerClock, 8, 1024, "fp32 vector FLOP per clock of one unit"},
    {"vector_fp64_per_clock", kFlopPerClock, 2, 1024, "fp64 vector FLOP per clock of one unit", kOptional},
    {"matrix_bf16_per_clock", kFlopPerClock, 64, 65536, "dense bf16 matrix FLOP per clock of one unit"},
    {"matrix_fp8_per_clock", kFlopPerClock, 64, 131072, "dense fp8 matrix FLOP per clock of one unit"},
    {"matrix_int8_per_clock", kOpPerClock, 64, 131072, "dense int8 matrix OP per clock of one unit", kOptional},
    {"vector_fp64", kFlops, 0.1 * kT, 500 * kT, "peak, fp64 vector"},
    {"vector_fp32", kFlops, 1 * kT, 1000 * kT, "peak, fp32 vector"},
    {"vector_fp16", kFlops, 1 * kT, 2000 * kT, "peak, fp16 vector"},
    {"matrix_fp64", kFlops, 0.1 * kT, 1000 * kT, "peak, fp64 matrix"},
    {"matrix_fp32", kFlops, 1 * kT, 2000 * kT, "peak, fp32 matrix", kOptional},
    {"matrix_tf32", kFlops, 10 * kT, 5000 * kT, "peak, tf32 matrix, dense, fp32 sums"},
    {"matrix_tf32_sparse", kFlops, 10 * kT, 10000 * kT, "peak, tf32 matrix, 2:4 sparse"},
    {"matrix_fp16", kFlops, 50 * kT, 10000 * kT, "peak, fp16 matrix, dense, fp32 sums"},
    {"matrix_fp16_sparse", kFlops, 50 * kT, 20000 * kT, "peak, fp16 matrix, 2:4 sparse"},
    {"matrix_bf16", kFlops, 50 * kT, 10000 * kT, "peak, bf16 matrix, dense, fp32 sums"},
    {"matrix_bf16_sparse", kFlops, 50 * kT, 20000 * kT, "peak, bf16 matrix, 2:4 sparse"},
    {"matrix_fp8", kFlops, 100 * kT, 20000 * kT, "peak, fp8 matrix, dense, fp32 sums"},
    {"matrix_fp8_sparse", kFlops, 100 * kT, 40000 * kT, "peak, fp8 matrix, 2:4 sparse"},
    {"matrix_int8", kOps, 100 * kT, 20000 * kT, "peak, int8 matrix, dense, int32 sums"},
    {"matrix_int8_sparse", kOps, 100 * kT, 40000 * kT, "peak, int8 matrix, 2:4 sparse"},
    {"matrix_fp6", kFlops, 500 * kT, 50000 * kT, "peak, 6-bit float matrix, dense, fp32 sums", kOptional},
    {"matrix_fp4", kFlops, 500 * kT, 50000 * kT, "peak, 4-bit float matrix, dense, fp32 sums"},
    {"matrix_fp4_sparse", kFlops, 500 * kT, 100000 * kT, "peak, 4-bit float matrix, 2:4 sparse", kOptional},
    {"memory_capacity", kBytes, 8 * kGB, 2000 * kGB, "device memory"},
    {"memory_bandwidth", kBandwidth, 0.1 * kT, 30 * kT, "peak bandwidth of device memory"},
    {"memory_bus_width", kBits, 64, 16384, "data pins of device memory"},
    {"memory_data_rate", kDataRate, 1e9, 40e9, "bit/s of one data pin"},
    {"memory_channels", kChannels, 1, 128, "memory channels", kOptional},
    {"l2_cache", kBytes, 0.5 * kMiB, 512 * kMiB, "L2: of the whole GPU, or of one processor core"},
    {"l2_bandwidth", kBandwidth, 0.5 * kT, 100 * kT, "peak read bandwidth of the L2"},
    {"shared_memory_bandwidth", kBandwidth, 1 * kT, 200 * kT, "peak bandwidth of the shared memories", kOptional},
    {"last_level_cache", kBytes, 8 * kMiB, 2048 * kMiB, "cache between L2 and memory, whole product"},
    {"l1_cache", kBytes, 16 * kKiB, 512 * kKiB, "L1 data cache of one unit; with shared memory where they share"},
    {"warp_size", kThreads, 16, 64, "threads that issue together"},
    {"max_warps_per_unit", kWarps, 8, 128, "resident warps of one unit"},
    {"max_threads_per_unit", kThreads, 256, 4096, "resident threads of one unit"},
    {"max_threads_per_block", kThreads, 256, 2048, "threads of one block"},
    {"max_blocks_per_unit", kBlocks, 4, 64, "resident blocks of one unit"},
    {"max_blocks_per_unit_one_warp", kBlocks, 4, 64, "resident blocks of one unit, blocks of one warp", kOptional},
    {"registers_per_unit", kRegisters, 16384, 262144, "32-bit registers of one unit"},
    {"register_file_per_unit", kBytes, 64 * kKiB, 1024 * kKiB, "the same in bytes"},
    {"max_registers_per_thread", kRegisters, 64, 1024, "registers that one thread can address"},
    {"register_granularity", kRegisters, 32, 2048, "step in which a warp's registers are allocated"},
    {"schedulers_per_unit", kSchedulers, 1, 8, "partitions of a unit, each with its own registers"},
    {"shared_memory_per_unit", kBytes, 16 * kKiB, 512 * kKiB, "shared memory (LDS) of one unit"},
    {"shared_memory_per_block", kBytes, 16 * kKiB, 512 * kKiB, "shared memory that one block can have"},
    {"shared_memory_reserved", kBytes, 128, 8 * kKiB, "taken by the system from every block"},
    {"shared_memory_granularity", kBytes, 64, 4 * kKiB, "step in which shared memory is allocated"},
    {"tensor_memory_per_unit", kBytes, 64 * kKiB, 1024 * kKiB, "memory of the matrix units of one unit", kOptional},
    {"board_power", kPower, 50, 3000, "power limit of the product as shipped"},
    {"link_bandwidth", kBandwidth, 0.05 * kT, 10 * kT, "to other GPUs, both directions together"},
    {"host_link_bandwidth", kBandwidth, 0.01 * kT, 2 * kT, "to the host, both directions together"},
};

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

const Metric* find_metric(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kMetrics), std::end(kMetrics), [&](const Metric& m) { return m.name == name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

}  // namespace ridge::hardware
