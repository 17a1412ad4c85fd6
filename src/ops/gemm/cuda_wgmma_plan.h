// From a matrix product to a launch of cuda_wgmma.cu, as plain data: which build of the kernel, which grid, which
// tensor maps. Host code with nothing but the standard library, so it is tested without a GPU and used by any code that
// owns the driver.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cuda_gemm_case.h"

namespace ridge::cuda {

// A build of the kernel.
struct WgmmaConfig {
  const char* name;
  int block_m, block_n, stages, cluster_m, cluster_n, consumers;
  bool pingpong;
  int slab_buffers;
  int split_k = 1;        // blocks of a cluster that share a tile, each with a part of K
  int instruction_n = 0;  // promotion: columns of one instruction; 0: the matrix unit adds up all of K
  int parts = 1;          // promotion: sets of instruction accumulators
};

// Every configuration that ships; cuda_wgmma.configs.toml repeats the list for the compile check, and
// cuda_wgmma_model.h has a weight for each.
inline constexpr std::array kWgmmaConfigs = {
    WgmmaConfig{"pp_128x128", 128, 128, 6, 1, 1, 2, true, 1},
    WgmmaConfig{"pp_128x128_m2", 128, 128, 6, 2, 1, 2, true, 1},
    WgmmaConfig{"pp_128x128_n2", 128, 128, 6, 1, 2, 2, true, 1},
    WgmmaConfig{"pp_128x192", 128, 192, 5, 1, 1, 2, true, 1},
    WgmmaConfig{"pp_128x192_m2", 128, 192, 5, 2, 1, 2, true, 1},
    WgmmaConfig{"pp_128x176", 128, 176, 5, 1, 1, 2, true, 2},
    WgmmaConfig{"pp_128x160", 128, 160, 5, 1, 1, 2, true, 2},
    WgmmaConfig{"pp_256x96_m2", 256, 96, 4, 2, 1, 2, true, 1},
    WgmmaConfig{"pp_256x64", 256, 64, 5, 1, 1, 2, true, 1},
    WgmmaConfig{"pp_64x256", 64, 256, 5, 1, 1, 2, true, 1},
    WgmmaConfig{"pp_64x128", 64, 128, 8, 1, 1, 2, true, 2},
    WgmmaConfig{"pp_64x64", 64, 64, 12, 1, 1, 2, true, 1},
    WgmmaConfig{"coop_128x128", 128, 128, 6, 1, 1, 2, false, 1},
    WgmmaConfig{"coop_128x256_m2", 128, 256, 4, 2, 1, 2, false, 2},
    WgmmaConfig{"coop_256x192_n2", 256, 192, 3, 1, 2, 2, false, 2},
    WgmmaConfig{"coop_128x224", 128, 224, 4, 1, 1, 2, false, 1},
    WgmmaConfig{"coop_128x224_m2", 128, 224, 4, 2, 1, 2, false, 1},
    WgmmaConfig{"split2_128x192", 128, 192, 5, 1, 1, 2, false, 1, 2},
    WgmmaConfig{"split2_128x128", 128, 128, 6, 1, 1, 2, false, 1, 2},
    WgmmaConfig{"split2_128x64", 128, 64, 8, 1, 1, 2, false, 1, 2},
};

// Builds for promotion: a second set of accumulators, so tiles are smaller and both warpgroups share them.
inline constexpr std::array kPromotedConfigs = {
    WgmmaConfig{"promote_128x128", 128, 128, 6, 1, 1, 2, false, 1, 1, 128},
    WgmmaConfig{"promote_256x128", 256, 128, 4, 1, 1, 2, false, 1, 1, 128},
    WgmmaConfig{"promote_128x256", 128, 256, 4, 1, 1, 2, false, 1, 1, 128},
    WgmmaConfig{"promote_128x192_halves", 128, 192, 5, 1, 1, 2, false, 1, 1, 96, 2},
    WgmmaConfig{"promote_128x160", 128, 160, 5, 1, 1, 2, false, 1, 1, 160},
};

// One cuTensorMapEncodeTiled call: a 2-D tensor whose first dimension is contiguous, 128-byte swizzle, zero fill.
struct TensorMapSpec {
  GemmType type;
  std::int64_t inner, outer;  // elements
  std::int64_t row_bytes;     // stride of the outer dimension
  int box_inner, box_outer;   // elements
  // What a miss brings into L2 at once. Rows that do not start on lines of 128 bytes straddle two, and pairs of lines
  // would bring four: on an H100 5000,5000,5000 gained 5 to 18 % by 128.
  int l2_promotion_bytes() const { return row_bytes % 128 == 0 ? 256 : 128; }
};

// What a launch consists of. The parameters of `ridge_gemm`, in order: the maps of A, B and C; the output view
// (pointer, row stride, rows, cols); the tile grid (rows, cols, group, group_along); k_blocks; the scales (two
// pointers, stride_a, stride_b; all zero without scales); and the epilogue (pointers of bias and residual, the
// residual's row stride; where residual_is_c is set, C's own).
struct WgmmaPlan {
  std::vector<std::string> defines;  // for the compiler, without -D
  bool direct_store;                 // map `c` is unused and may stay zero
  bool residual_is_c;
  TensorMapSpec a, b, c;
  std::uint32_t tile_rows, tile_cols, group, group_along, k_blocks;
  std::uint32_t grid, block, cluster, shared_bytes;
  std::int64_t scale_stride_a, scale_stride_b;
};

// Why the copy engine or the matrix unit cannot take a case, or nothing. M, N or K of zero never reach a kernel: the
// caller clears or leaves C.
inline std::optional<std::string> wgmma_refuses(const GemmCase& g) {
  if (auto why = gemm_refuses(g)) return why;
  auto check = [](const char* name, std::int64_t row, GemmType type) -> std::optional<std::string> {
    if ((row * bytes_of(type)) % 16 == 0) return std::nullopt;
    return std::string("gemm_wgmma: the row stride of ") + name + " is " + std::to_string(row) + " elements of " +
           std::to_string(bytes_of(type)) + " bytes, not a multiple of 16 bytes; pad the rows or allow gemm_simt";
  };
  if (auto why = check("A", g.row_a(), g.type_a)) return why;
  if (auto why = check("B", g.row_b(), g.type_b)) return why;
  if (g.base_alignment_ab % 16 != 0) return "gemm_wgmma: A and B must start on a multiple of 16 bytes";
  if (g.type_a == GemmType::kF32) return "gemm_wgmma: the matrix unit has no fp32; allow tf32 or gemm_simt";
  if (bytes_of(g.type_a) != 2 && (g.a_mn_major || g.b_mn_major)) {
    return "gemm_wgmma: operands of " + std::to_string(bytes_of(g.type_a)) +
           " bytes must have K contiguous; transpose first or allow gemm_simt";
  }
  if (g.scaling == GemmScaling::kMx) return "gemm_wgmma: MX scales are applied by gemm_simt only";
  if (g.scaling == GemmScaling::kBlock || g.scaling == GemmScaling::kVector) {
    const bool both = g.scaling == GemmScaling::kVector;
    if (g.m % 4 != 0 || (both && g.n % 4 != 0)) {
      return "gemm_wgmma: M = " + std::to_string(g.m) + (both ? " or N = " + std::to_string(g.n) : "") +
             " is not a multiple of 4, so the scales of a stage do not start on 16 bytes; pad it or allow gemm_simt";
    }
  }
  const bool reads_c = g.residual_is_c();
  const std::int64_t row_extra = reads_c ? g.row_c() : g.row_residual(), pair = 2 * bytes_of(g.type_c);
  if ((g.residual || reads_c) && row_extra % 2 != 0) {
    return std::string("gemm_wgmma: the row stride of ") + (reads_c ? "C" : "the residual") + " is " +
           std::to_string(row_extra) + ", an odd number of elements; pad the rows or allow gemm_simt";
  }
  if ((g.bias || g.residual) && g.base_alignment_extra % pair != 0)
    return "gemm_wgmma: bias and residual must start on a multiple of " + std::to_string(pair) + " bytes";
  if (reads_c && g.base_alignment_c % pair != 0)
    return "gemm_wgmma: a C that is added to must start on a multiple of " + std::to_string(pair) + " bytes";
  if (std::max({g.m, g.n, g.k}) > INT32_MAX - 512) return "gemm_wgmma: a side is over 2^31";
  return std::nullopt;
}

// Whether the output must bypass the copy engine: it addresses rows in steps of 16 bytes and writes chunks of 16 bytes.
inline bool needs_direct_store(const GemmCase& g) {
  const std::int64_t size = bytes_of(g.type_c);
  return g.base_alignment_c % 16 != 0 || (g.row_c() * size) % 16 != 0 || (g.n * size) % 16 != 0;
}

// Steps of the main loop, each 128 bytes of K.
inline std::int64_t k_blocks_of(const GemmCase& g) { return ceil_div(g.k * bytes_of(g.type_a), 128); }

inline std::uint32_t shared_bytes_of(const WgmmaConfig& c, const GemmCase& g) {
  const bool scales_a = g.scaling == GemmScaling::kBlock || g.scaling == GemmScaling::kVector;
  const int scales = (scales_a ? c.block_m : 0) + (g.scaling == GemmScaling::kVector ? c.block_n : 0);
  const int vectors = (g.scaling == GemmScaling::kRow ? 1 : 0) + (g.bias ? 1 : 0);
  return static_cast<std::uint32_t>(c.stages * (c.block_m + c.block_n) * 128 + c.consumers * 4 * c.slab_buffers * 2048 +
                                    c.stages * 16 + c.stages * scales * 4 + c.consumers * vectors * c.block_n * 4);
}

inline bool config_fits(const WgmmaConfig& c, const GemmCase& g) {
  if (g.promotes() != (c.instruction_n != 0)) return false;
  if (shared_bytes_of(c, g) > 232448) return false;
  if (g.b_mn_major && c.block_n % 64 != 0) return false;
  if (k_blocks_of(g) < c.split_k) return false;
  // Stores and epilogues need registers for their addresses: beside too many accumulators per thread they spill.
  const int rows = c.pingpong ? c.block_m : c.block_m / c.consumers, accumulators = rows / 64 * c.block_n / 2;
  if (g.scaling == GemmScaling::kVector && c.split_k > 1) return false;
  const bool direct = needs_direct_store(g);
  if (direct && accumulators > 128) return false;
  const bool reads_matrix = g.residual || g.residual_is_c();
  const bool other = g.bias || g.activation != GemmActivation::kIdentity;
  if (reads_matrix && (rows > 64 || accumulators > (c.instruction_n ? 64 : 128))) return false;
  if (reads_matrix && other && c.pingpong && accumulators > 64) return false;
  if (other && accumulators > (c.instruction_n ? 96 : 160)) return false;
  if (direct && (reads_matrix || other) && accumulators > 64) return false;
  // The last slab of a row of output may overlap the one before it, but not when it is added.
  const bool adds = g.accumulate && !g.residual_is_c();
  return c.block_n % (128 / bytes_of(g.type_c)) == 0 || !adds;
}

// The order in which clusters take tiles. A wave of clusters covers `group` tiles on one side and clusters / group on
// the other. L2 traffic per K step is the sum of the two sides in elements, least when the rectangle is square.
struct TileOrder {
  std::uint32_t group = 1, along = 0;
};
inline TileOrder tile_order(const WgmmaConfig& c, std::uint32_t rows, std::uint32_t cols, std::int64_t clusters,
                            int group_rows = 0) {
  const int high = c.block_m * c.cluster_m, wide = c.block_n * c.cluster_n;
  TileOrder order;
  double best = 1e300;
  for (std::uint32_t along = 0; along < 2; ++along) {
    const std::uint32_t sides = along == 0 ? rows : cols;
    for (std::uint32_t group = 1; group <= std::min<std::uint32_t>(sides, 32); ++group) {
      if (group_rows && along == 0 && group != static_cast<std::uint32_t>(group_rows)) continue;
      const double across = static_cast<double>(clusters) / group;
      double cost = along == 0 ? group * high + across * wide : group * wide + across * high;
      if (sides % group != 0 && sides > group) cost *= 1.02;
      if (cost < best) {
        best = cost;
        order = {group, along};
      }
    }
    if (group_rows) break;
  }
  return order;
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
  define("STORE", g.accumulate && !g.residual_is_c() ? "kAdd" : "kOverwrite");
  plan.direct_store = needs_direct_store(g);
  define("DIRECT_STORE", plan.direct_store ? 1 : 0);
  define("SCALING", name_of(g.scaling));
  define("BIAS", g.bias ? 1 : 0);
  define("ACTIVATION", name_of(g.activation));
  define("RESIDUAL", g.residual || g.residual_is_c() ? 1 : 0);
  define("SPLIT_K", c.split_k);
  define("PROMOTE", c.instruction_n != 0 ? 1 : 0);
  if (c.instruction_n != 0) {
    define("INSTRUCTION_N", c.instruction_n);
    define("PARTS", c.parts);
  }
  plan.residual_is_c = g.residual_is_c();

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
  plan.k_blocks = static_cast<std::uint32_t>(k_blocks_of(g));
  plan.cluster = static_cast<std::uint32_t>(c.cluster_m * c.cluster_n * c.split_k);
  plan.block = static_cast<std::uint32_t>((c.consumers + 1) * 128);
  plan.shared_bytes = shared_bytes_of(c, g);
  plan.scale_stride_a = g.m;
  plan.scale_stride_b = g.scaling == GemmScaling::kBlock ? ceil_div(g.k, 128) : g.n;
  const std::int64_t tiles = static_cast<std::int64_t>(plan.tile_rows) * plan.tile_cols;
  const std::int64_t clusters = multiprocessors / plan.cluster;
  // Blocks that share a tile do not walk on to another: their stages receive each other's pieces at its end.
  const std::int64_t at_once = c.split_k > 1 ? tiles : std::min<std::int64_t>(tiles, clusters);
  plan.grid = static_cast<std::uint32_t>(at_once) * plan.cluster;

  const TileOrder order = tile_order(c, plan.tile_rows, plan.tile_cols, clusters, group_rows);
  plan.group = order.group;
  plan.group_along = order.along;
  return plan;
}

// Those that ship, counted through both lists.
inline constexpr int kConfigCount = static_cast<int>(kWgmmaConfigs.size() + kPromotedConfigs.size());
inline const WgmmaConfig& config_at(int index) {
  const auto at = static_cast<std::size_t>(index);
  return at < kWgmmaConfigs.size() ? kWgmmaConfigs[at] : kPromotedConfigs[at - kWgmmaConfigs.size()];
}

}  // namespace ridge::cuda
