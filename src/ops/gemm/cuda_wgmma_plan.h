// From a matrix product to a launch of cuda_wgmma.cu, as plain data: which build of the kernel, which grid, which
// tensor maps. Host code with nothing but the standard library, so it is tested without a GPU and used by whoever owns
// the driver.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge::cuda {

enum class GemmType { kBf16, kF16, kF32, kE4m3, kE5m2 };
inline std::int64_t bytes_of(GemmType type) {
  switch (type) {
    case GemmType::kF32: return 4;
    case GemmType::kBf16:
    case GemmType::kF16: return 2;
    default: return 1;
  }
}
inline const char* name_of(GemmType type) {
  constexpr const char* kNames[] = {"kBf16", "kF16", "kF32", "kE4m3", "kE5m2"};
  return kNames[static_cast<int>(type)];
}

// C[m, n] (+)= sum over k of A(m, k) * B(n, k). A is stored [m, k] row-major, or [k, m] when a_mn_major; B is stored
// [n, k], or [k, n] when b_mn_major; C is [m, n] row-major. In BLAS letters for C = op(A) op(B): NT is (no, no), NN is
// (no, yes), TN is (yes, yes), TT is (yes, no). Leading dimensions are in elements.
struct GemmCase {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_mn_major = false, b_mn_major = false;
  GemmType type_a = GemmType::kBf16, type_b = GemmType::kBf16, type_c = GemmType::kBf16;
  bool accumulate = false;
  bool block_scaled =
      false;  // 8-bit: fp32 scales per 1 x 128 of A, [ceil(k/128)][m], and per 128 x 128 of B, [n/128][k/128]
  std::int64_t lda = 0, ldb = 0, ldc = 0;             // 0: dense
  int base_alignment_ab = 16, base_alignment_c = 16;  // bytes, of the pointers

  std::int64_t row_a() const { return lda ? lda : (a_mn_major ? m : k); }
  std::int64_t row_b() const { return ldb ? ldb : (b_mn_major ? n : k); }
  std::int64_t row_c() const { return ldc ? ldc : n; }
};

// A build of the kernel. `near` and `far` are what one step of its main loop costs relative to the tensor core's own
// time, when A and B are small enough to live mostly in L2 and when they are not; measured
// (docs/operators/gemm-hopper.md says how).
struct WgmmaConfig {
  const char* name;
  int block_m, block_n, stages, cluster_m, cluster_n, consumers;
  bool pingpong;
  int slab_buffers;
  double near = 1.1, far = 1.1;
};

// Every configuration that ships; cuda_wgmma.configs.toml repeats the list for the compile check.
inline constexpr std::array kWgmmaConfigs = {
    WgmmaConfig{"pp_128x128", 128, 128, 6, 1, 1, 2, true, 1, 1.004, 1.032},
    WgmmaConfig{"pp_128x128_m2", 128, 128, 6, 2, 1, 2, true, 1, 1.028, 1.027},
    WgmmaConfig{"pp_128x128_n2", 128, 128, 6, 1, 2, 2, true, 1, 1.032, 1.029},
    WgmmaConfig{"pp_128x192", 128, 192, 5, 1, 1, 2, true, 1, 0.997, 1.026},
    WgmmaConfig{"pp_128x192_m2", 128, 192, 5, 2, 1, 2, true, 1, 1.005, 1.027},
    WgmmaConfig{"pp_128x176", 128, 176, 5, 1, 1, 2, true, 2, 1.003, 1.050},
    WgmmaConfig{"pp_128x160", 128, 160, 5, 1, 1, 2, true, 2, 1.010, 1.043},
    WgmmaConfig{"pp_256x96_m2", 256, 96, 4, 2, 1, 2, true, 1, 1.043, 1.033},
    WgmmaConfig{"pp_256x64", 256, 64, 5, 1, 1, 2, true, 1, 1.077, 1.280},
    WgmmaConfig{"pp_64x256", 64, 256, 5, 1, 1, 2, true, 1, 1.060, 1.145},
    WgmmaConfig{"pp_64x128", 64, 128, 8, 1, 1, 2, true, 2, 1.30, 1.50},
    WgmmaConfig{"pp_64x64", 64, 64, 12, 1, 1, 2, true, 1, 1.90, 2.20},
    WgmmaConfig{"coop_128x128", 128, 128, 6, 1, 1, 2, false, 1, 1.025, 1.060},
    WgmmaConfig{"coop_128x256_m2", 128, 256, 4, 2, 1, 2, false, 2, 1.015, 1.033},
    WgmmaConfig{"coop_256x192_n2", 256, 192, 3, 1, 2, 2, false, 2, 0.990, 1.030},
};

// Builds for block scales: a second set of accumulators, so the tile is 128 wide and both warpgroups share it.
inline constexpr std::array kBlockScaleConfigs = {
    WgmmaConfig{"block_128x128", 128, 128, 6, 1, 1, 2, false, 1, 1.20, 1.22},
    WgmmaConfig{"block_128x128_m2", 128, 128, 6, 2, 1, 2, false, 1, 1.23, 1.24},
    WgmmaConfig{"block_256x128", 256, 128, 4, 1, 1, 2, false, 1, 1.10, 1.12},
    WgmmaConfig{"block_256x128_m2", 256, 128, 4, 2, 1, 2, false, 1, 1.13, 1.135},
    WgmmaConfig{"block_256x128_n2", 256, 128, 4, 1, 2, 2, false, 1, 1.125, 1.13},
};

// One cuTensorMapEncodeTiled call: a 2-D tensor whose first dimension is contiguous, 128-byte swizzle, zero fill.
struct TensorMapSpec {
  GemmType type;
  std::int64_t inner, outer;  // elements
  std::int64_t row_bytes;     // stride of the outer dimension
  int box_inner, box_outer;   // elements
};

// What a launch consists of. The buffers are A, B, C in this order; the parameters of `ridge_gemm` are the three maps,
// the output view (pointer, row stride, rows, cols), the tile grid (rows, cols, group, group_along), k_blocks, and two
// scale pointers and the stride of A's scales (m), which only 8-bit builds read.
struct WgmmaPlan {
  std::vector<std::string> defines;  // for the compiler, without -D
  bool direct_store;                 // map `c` is unused and may stay zero
  TensorMapSpec a, b, c;
  std::uint32_t tile_rows, tile_cols, group, group_along, k_blocks;
  std::uint32_t grid, block, cluster, shared_bytes;
};

inline std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// Why the copy engine cannot take a case, or nothing. M, N or K of zero never reach a kernel: the caller clears or
// leaves C.
inline std::optional<std::string> wgmma_refuses(const GemmCase& g) {
  auto check = [](const char* name, std::int64_t row, GemmType type) -> std::optional<std::string> {
    if ((row * bytes_of(type)) % 16 == 0) return std::nullopt;
    return std::string("gemm_wgmma: the row stride of ") + name + " is " + std::to_string(row) + " elements of " +
           std::to_string(bytes_of(type)) + " bytes, not a multiple of 16 bytes; pad the rows or allow gemm_simt";
  };
  if (auto why = check("A", g.row_a(), g.type_a)) return why;
  if (auto why = check("B", g.row_b(), g.type_b)) return why;
  if (g.base_alignment_ab % 16 != 0) return "gemm_wgmma: A and B must start on a multiple of 16 bytes";
  const bool eight_bit = bytes_of(g.type_a) == 1;
  if (eight_bit && (g.a_mn_major || g.b_mn_major))
    return "gemm_wgmma: 8-bit operands must have K contiguous; transpose first";
  if (g.block_scaled && !eight_bit) return "gemm_wgmma: block scales are for 8-bit operands";
  if (g.block_scaled && g.m % 4 != 0) {
    return "gemm_wgmma: M = " + std::to_string(g.m) +
           " is not a multiple of 4, so A's scales of a stage do not start on 16 bytes; pad A";
  }
  if (g.accumulate && g.type_c != GemmType::kF32) return "gemm_wgmma: accumulating needs an fp32 C";
  if (std::max({g.m, g.n, g.k}) > INT32_MAX - 512) return "gemm_wgmma: a side is over 2^31";
  return std::nullopt;
}

// Whether the output must bypass the copy engine: it addresses rows in steps of 16 bytes and writes chunks of 16 bytes.
inline bool needs_direct_store(const GemmCase& g) {
  const std::int64_t size = bytes_of(g.type_c);
  return g.base_alignment_c % 16 != 0 || (g.row_c() * size) % 16 != 0 || (g.n * size) % 16 != 0;
}

inline bool config_fits(const WgmmaConfig& c, const GemmCase& g) {
  if (g.b_mn_major && c.block_n % 64 != 0) return false;
  // The direct store needs registers for its addresses: beside more than 128 accumulators per thread it spills.
  const int rows = c.pingpong ? c.block_m : c.block_m / c.consumers;
  if (needs_direct_store(g) && rows / 64 * c.block_n / 2 > 128) return false;
  // The last slab of a row of output may overlap the one before it, but not when it is added.
  return c.block_n % (128 / bytes_of(g.type_c)) == 0 || !g.accumulate;
}

inline std::uint32_t shared_bytes_of(const WgmmaConfig& c, bool block_scaled = false) {
  return static_cast<std::uint32_t>(c.stages * (c.block_m + c.block_n) * 128 + c.consumers * 4 * c.slab_buffers * 2048 +
                                    c.stages * 16 + (block_scaled ? c.stages * c.block_m * 4 : 0));
}

inline WgmmaPlan plan_wgmma(const GemmCase& g, const WgmmaConfig& c, int multiprocessors, int group_rows = 0) {
  WgmmaPlan plan{};
  auto define = [&](const char* name, auto value) {
    if constexpr (std::is_convertible_v<decltype(value), std::string>) {
      plan.defines.push_back(std::string("RIDGE_") + name + "=" + value);
    } else {
      plan.defines.push_back(std::string("RIDGE_") + name + "=" + std::to_string(value));
    }
  };
  define("BLOCK_M", c.block_m);
  define("BLOCK_N", c.block_n);
  define("STAGES", c.stages);
  define("CLUSTER_M", c.cluster_m);
  define("CLUSTER_N", c.cluster_n);
  define("CONSUMERS", c.consumers);
  define("PINGPONG", c.pingpong ? 1 : 0);
  define("SLAB_BUFFERS", c.slab_buffers);
  define("TYPE_A", name_of(g.type_a));
  define("TYPE_B", name_of(g.type_b));
  define("TYPE_C", name_of(g.type_c));
  define("MAJOR_A", g.a_mn_major ? "kMn" : "kK");
  define("MAJOR_B", g.b_mn_major ? "kMn" : "kK");
  define("STORE", g.accumulate ? "kAdd" : "kOverwrite");
  plan.direct_store = needs_direct_store(g);
  define("DIRECT_STORE", plan.direct_store ? 1 : 0);
  define("BLOCK_SCALE", g.block_scaled ? 1 : 0);

  const int block_k = static_cast<int>(128 / bytes_of(g.type_a));
  // Mirrors load_operand: which part of a shared tile one block brings.
  auto operand = [&](GemmType type, bool mn_major, std::int64_t mn, std::int64_t row, int tile, int parts) {
    TensorMapSpec map{type, g.k, mn, row * bytes_of(type), block_k, tile / parts};
    if (mn_major) {
      map.inner = mn;
      map.outer = g.k;
      map.box_inner = 64;
      map.box_outer = (tile / 64) % parts == 0 ? block_k : block_k / parts;
    }
    return map;
  };
  plan.a = operand(g.type_a, g.a_mn_major, g.m, g.row_a(), c.block_m, c.cluster_n);
  plan.b = operand(g.type_b, g.b_mn_major, g.n, g.row_b(), c.block_n, c.cluster_m);
  plan.c = {g.type_c, g.n, g.m, g.row_c() * bytes_of(g.type_c), static_cast<int>(128 / bytes_of(g.type_c)), 16};

  plan.tile_rows = static_cast<std::uint32_t>(ceil_div(g.m, c.block_m * c.cluster_m));
  plan.tile_cols = static_cast<std::uint32_t>(ceil_div(g.n, c.block_n * c.cluster_n));
  plan.k_blocks = static_cast<std::uint32_t>(ceil_div(g.k, block_k));
  plan.cluster = static_cast<std::uint32_t>(c.cluster_m * c.cluster_n);
  plan.block = static_cast<std::uint32_t>((c.consumers + 1) * 128);
  plan.shared_bytes = shared_bytes_of(c, g.block_scaled);
  const std::int64_t tiles = static_cast<std::int64_t>(plan.tile_rows) * plan.tile_cols;
  const std::int64_t clusters = multiprocessors / plan.cluster;
  plan.grid = static_cast<std::uint32_t>(std::min<std::int64_t>(tiles, clusters)) * plan.cluster;

  // A wave of clusters covers `group` tiles on one side and clusters / group on the other. L2 traffic per K step is the
  // sum of the two sides in elements, least when the rectangle is square.
  const int high = c.block_m * c.cluster_m, wide = c.block_n * c.cluster_n;
  double best = 1e300;
  for (std::uint32_t along = 0; along < 2; ++along) {
    const std::uint32_t sides = along == 0 ? plan.tile_rows : plan.tile_cols;
    for (std::uint32_t group = 1; group <= std::min<std::uint32_t>(sides, 32); ++group) {
      if (group_rows && along == 0 && group != static_cast<std::uint32_t>(group_rows)) continue;
      const double across = static_cast<double>(clusters) / group;
      double cost = along == 0 ? group * high + across * wide : group * wide + across * high;
      if (sides % group != 0 && sides > group) cost *= 1.02;
      if (cost < best) {
        best = cost;
        plan.group = group;
        plan.group_along = along;
      }
    }
    if (group_rows) break;
  }
  if (plan.group == 0) plan.group = 1;
  return plan;
}

// Estimated time in multiprocessor cycles: whole waves of tiles, each as long as its K loop plus what the epilogue does
// not hide. What it sees above all is how much of the last wave is wasted, which is what decides awkward shapes.
inline double estimate_cycles(const GemmCase& g, const WgmmaConfig& c, int multiprocessors) {
  constexpr double kNearBytes = 128e6;
  const std::int64_t rows = ceil_div(g.m, c.block_m * c.cluster_m), cols = ceil_div(g.n, c.block_n * c.cluster_n);
  const std::int64_t clusters = multiprocessors / (c.cluster_m * c.cluster_n);
  const std::int64_t waves = ceil_div(rows * cols, clusters);
  const std::int64_t block_k = 128 / bytes_of(g.type_a);
  const double step =
      2.0 * c.block_m * c.block_n * 64 / 4096;  // one 128-byte step of K: the same time for either width
  const double bytes = static_cast<double>((g.m + g.n) * g.k * bytes_of(g.type_a));
  double factor = bytes < kNearBytes ? c.near : c.far;
  // With a single wave nothing is left to alternate with, and one warpgroup alone does not quite fill the tensor cores.
  if (waves == 1 && c.pingpong) factor *= 1.04;
  const double epilogue = (c.pingpong ? 600.0 : 1500.0) * c.block_m * c.block_n / 32768;
  return static_cast<double>(waves) * (static_cast<double>(ceil_div(g.k, block_k)) * step * factor + epilogue);
}

inline const WgmmaConfig* choose_wgmma(const GemmCase& g, int multiprocessors) {
  const WgmmaConfig* best = nullptr;
  double least = 1e300;
  auto consider = [&](const WgmmaConfig& c) {
    if (!config_fits(c, g)) return;
    const double cycles = estimate_cycles(g, c, multiprocessors);
    if (cycles < least * 0.999) {
      least = cycles;
      best = &c;
    }
  };
  if (g.block_scaled) {
    for (const auto& c : kBlockScaleConfigs) consider(c);
  } else {
    for (const auto& c : kWgmmaConfigs) consider(c);
  }
  return best;
}

}  // namespace ridge::cuda
