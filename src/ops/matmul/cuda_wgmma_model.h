// What a matrix product would take in each configuration of cuda_wgmma.cu, from what the driver says of the device.
//
// A product waits for the matrix units or for memory. The first is whole waves of tiles, each as long as its K loop,
// whose step is bound by the matrix unit and by the 64 bytes a cycle that a multiprocessor takes from L2. The second is
// what misses L2, over the memory's bandwidth: clusters of a wave share rows of A and columns of B, but they drift
// apart, so that a part of the shared reads comes late and misses as well. All constants belong to the kernel or to
// Hopper; of a device there are the number of its multiprocessors, its L2, its memory's bandwidth and its clock. They
// were fitted to the times of every configuration on an H100 and an H200 (bench/results/*/sweep.csv), on both at once;
// tests/ops/wgmma_model_test.cpp holds the choice to those measurements.
#pragma once
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "ops/described_kernel.h"
#include "ops/matmul/case.h"
#include "record/tile_walk.h"

namespace ridge::cuda {

inline constexpr const char* kWgmmaSource = "ops/matmul/cuda_wgmma.cu";

// What the model asks of a configuration; `weight` is what a step's multiplication weighs over the matrix unit's own
// time.
struct WgmmaConfig {
  std::string name;
  int block_m = 0, block_n = 0, cluster_m = 1, cluster_n = 1, split_k = 1;
  bool pingpong = false;
  double weight = 1;
  bool fitted = true;  // the weight; a configuration that a campaign won has none at first
};

// Those of the kernel's description, in its order.
inline const std::vector<WgmmaConfig>& wgmma_configs() {
  static const std::vector<WgmmaConfig> all = [] {
    const record::KernelDescription& kernel = ops::described_kernel(kWgmmaSource).description();
    std::vector<WgmmaConfig> made;
    for (const record::KernelConfig& config : kernel.configs) {
      const auto values = kernel.complete(config.values);
      const auto value = [&](const char* name) { return static_cast<int>(values.at(name)); };
      made.push_back({config.name, value("RIDGE_BLOCK_M"), value("RIDGE_BLOCK_N"), value("RIDGE_CLUSTER_M"),
                      value("RIDGE_CLUSTER_N"), value("RIDGE_SPLIT_K"), value("RIDGE_PINGPONG") != 0,
                      config.model.value_or(1), config.model.has_value()});
    }
    return made;
  }();
  return all;
}

// Steps of the main loop, each 128 bytes of K.
inline std::int64_t k_blocks_of(const GemmCase& g) { return ceil_div(g.k * bytes_of(g.type_a), 128); }

// What the estimate asks of a device, as the driver says it; the defaults are those of an H100 SXM.
struct DeviceFacts {
  int multiprocessors = 132;
  double l2_bytes = 50 * 1048576.0;
  double memory_bandwidth = 3.352e12;  // bytes per second: the bus's width times its clock
  double clock = 1.98e9;               // of the multiprocessors, Hz, the highest
};

// What was fitted: all of it belongs to the kernel or to Hopper, nothing to one device.
struct ModelConstants {
  double step_sharpness = 1.698;    // of the maximum of multiplying and filling within a step
  double memory_sharpness = 8.479;  // of the maximum of the matrix units' time and memory's
  double drift_scale = 11.91, drift_power = 0.09119;
  double mn_major_step = 0.006019;   // for each operand that has M or N contiguous,
  double mn_major_memory = 0.02913;  // and of memory's bandwidth
  // With a single wave nothing is left to alternate with, and one warpgroup alone does not quite fill the tensor cores.
  double single_wave = 0.02328;
  // Cycles: of a launch; of the end of a tile of 256 x 128 that the next one hides, or does not; of the exchange
  // between blocks that split K.
  double start = 821.2, hidden_end = 140.5, plain_end = 4207, exchange = 5304;
};
inline constexpr ModelConstants kModelConstants{};

namespace model {

// What is left of the highest clock under products that draw all the power there is: 1.5 GHz on both devices.
inline constexpr double kClockUnderLoad = 0.7576;
// Of the bus's bandwidth a plain read reaches this part (measured 0.92 and 0.94).
inline constexpr double kMemoryReached = 0.93;
// Cycles that 128 bytes from L2 take to arrive.
inline constexpr double kCyclesPerLine = 2;
// Not fitted, because medians of a few rounds do not show it: blocks that share no loads drift apart more, and near the
// memory's limit their times vary from launch to launch (an H100, 8192,28672,8192 with pp_128x192: 5.4 to 8.5 ms).
inline constexpr double kLoneRisk = 0.015;
// Only the order of the estimates was fitted; this makes those of the chosen configurations seconds.
inline constexpr double kSeconds = 0.79;

// A maximum that already grows where the smaller comes near.
inline double soft_maximum(double x, double y, double sharpness) {
  return std::pow(std::pow(x, sharpness) + std::pow(y, sharpness), 1 / sharpness);
}

// A row of 128 bytes that does not start on a line is two.
inline double lines_of_row(std::int64_t row, GemmType type) { return (row * bytes_of(type)) % 128 == 0 ? 1 : 2; }

// How the tiles of a product fall on the device.
struct Waves {
  double count, steps;          // whole waves; steps of K of each tile
  double busy;                  // part of the clusters that have a tile, over all waves
  double rows, cols;            // of C that a wave covers
  double row_tiles, col_tiles;  // the same in tiles of a cluster
};
inline Waves waves_of(const GemmCase& g, const WgmmaConfig& c, int multiprocessors) {
  const std::int64_t high = c.block_m * c.cluster_m, wide = c.block_n * c.cluster_n;
  const std::int64_t rows = ceil_div(g.m, high), cols = ceil_div(g.n, wide), tiles = rows * cols;
  const int cluster = c.cluster_m * c.cluster_n * c.split_k;
  const std::int64_t clusters = std::max(1, multiprocessors / cluster);
  const record::TileWalk order = record::tile_walk(high, wide, rows, cols, clusters);
  const auto at_once = static_cast<double>(std::min(tiles, clusters));
  const auto group = static_cast<double>(order.group);
  Waves w{};
  w.count = static_cast<double>(ceil_div(tiles, clusters));
  w.steps = static_cast<double>(ceil_div(k_blocks_of(g), c.split_k));
  w.busy = static_cast<double>(tiles) / (w.count * static_cast<double>(clusters));
  if (order.along == 0) {
    w.row_tiles = std::min(group, static_cast<double>(rows));
    w.col_tiles = std::min(static_cast<double>(cols), at_once / w.row_tiles);
  } else {
    w.col_tiles = std::min(group, static_cast<double>(cols));
    w.row_tiles = std::min(static_cast<double>(rows), at_once / w.col_tiles);
  }
  w.rows = w.row_tiles * static_cast<double>(high);
  w.cols = w.col_tiles * static_cast<double>(wide);
  return w;
}

inline int mn_major_operands(const GemmCase& g) { return (g.a_mn_major ? 1 : 0) + (g.b_mn_major ? 1 : 0); }

// Multiprocessor cycles of a product that never waits for memory.
inline double cycles(const GemmCase& g, const WgmmaConfig& c, const Waves& w, const ModelConstants& fitted) {
  const double matrix_unit = 2.0 * c.block_m * c.block_n * 64 / 4096;
  const double multiply = matrix_unit * c.weight * (1 + fitted.mn_major_step * mn_major_operands(g)) *
                          (c.pingpong && w.count == 1 ? 1 + fitted.single_wave : 1);
  const double fill = kCyclesPerLine * (c.block_m * lines_of_row(g.row_a(), g.type_a) / c.cluster_n +
                                        c.block_n * lines_of_row(g.row_b(), g.type_b) / c.cluster_m);
  double end = (c.pingpong ? fitted.hidden_end : fitted.plain_end) * c.block_m * c.block_n / 32768;
  if (c.split_k > 1) end += fitted.exchange;
  return w.count * (w.steps * soft_maximum(multiply, fill, fitted.step_sharpness) + end) + fitted.start;
}

// Bytes that come from memory and go there.
inline double memory_bytes(const GemmCase& g, const WgmmaConfig& c, const Waves& w, double l2_bytes,
                           const ModelConstants& fitted) {
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n), k = static_cast<double>(g.k);
  const double output = m * n * static_cast<double>(bytes_of(g.type_c)) * (g.accumulate ? 2 : 1);
  const double least = (m + n) * k * static_cast<double>(bytes_of(g.type_a)) + output;
  const double step = 128 * (w.rows + w.cols);        // bytes that a wave needs new in each step of K
  const double window = l2_bytes / (step * w.steps);  // part of K that L2 holds of them
  const double late = std::exp(-std::pow(fitted.drift_scale * window, fitted.drift_power));
  const auto reads = [late](double sharing) { return 1 + (std::max(1.0, sharing) - 1) * late; };
  const double read =
      w.count * w.busy * w.steps * c.split_k * 128 * (w.rows * reads(w.col_tiles) + w.cols * reads(w.row_tiles));
  return std::max(least, read + output);
}

}  // namespace model

// Estimated seconds of one call of a configuration under sustained load.
inline double estimate_seconds(const GemmCase& g, const WgmmaConfig& c, const DeviceFacts& device,
                               const ModelConstants& fitted = kModelConstants) {
  const model::Waves w = model::waves_of(g, c, device.multiprocessors);
  const double matrix = model::cycles(g, c, w, fitted) / (device.clock * model::kClockUnderLoad);
  const double bandwidth =
      device.memory_bandwidth * model::kMemoryReached * (1 - fitted.mn_major_memory * model::mn_major_operands(g));
  const double memory = model::memory_bytes(g, c, w, device.l2_bytes, fitted) / bandwidth;
  const bool lone = c.cluster_m * c.cluster_n == 1;
  const double risk = lone ? 1 + model::kLoneRisk * memory / matrix : 1;
  return model::kSeconds * risk * model::soft_maximum(matrix, memory, fitted.memory_sharpness);
}

// `fitting`, indices of `configs`, by estimated time; but the first is one whose weight was fitted, so that an estimate
// that nothing was held against is never believed where nothing was measured.
inline std::vector<int> rank_wgmma(const GemmCase& g, std::span<const int> fitting,
                                   std::span<const WgmmaConfig> configs, const DeviceFacts& device,
                                   const ModelConstants& fitted = kModelConstants) {
  std::vector<std::pair<double, int>> estimated;
  for (const int i : fitting)
    estimated.emplace_back(estimate_seconds(g, configs[static_cast<std::size_t>(i)], device, fitted), i);
  std::sort(estimated.begin(), estimated.end());
  const auto first = std::ranges::find_if(
      estimated, [&](const auto& one) { return configs[static_cast<std::size_t>(one.second)].fitted; });
  if (first != estimated.end()) std::rotate(estimated.begin(), first, first + 1);
  std::vector<int> ranked;
  for (const auto& [seconds, index] : estimated) ranked.push_back(index);
  return ranked;
}

}  // namespace ridge::cuda
