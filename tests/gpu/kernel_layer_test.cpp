// Tests the helpers of src/device/cuda/kernel one by one on this machine's GPU (the matrix-product checks exercise them
// together). kernel_layer_test ROOT; exit status 77 where there is no Hopper GPU.
#include <cstring>
#include <iostream>

#include "../../bench/gpu/gemm_runner.h"

using namespace ridge::gpu;

namespace {

constexpr const char* kSource = "tests/gpu/kernel_layer.cu";
int checks = 0, failures = 0;

void expect(bool passed, const std::string& claim) {
  ++checks;
  if (!passed) {
    ++failures;
    std::cout << "FAILED " << claim << std::endl;
  }
}

void tile_order_visits_every_tile_once(Kernels& kernels) {
  struct Grid {
    unsigned rows, cols, group, along;
  };
  for (const Grid& grid : {Grid{1, 1, 1, 0},
                           {7, 13, 3, 0},
                           {13, 7, 4, 1},
                           {64, 32, 8, 0},
                           {5, 9, 32, 1},
                           {1, 300, 1, 0},
                           {300, 1, 11, 1}}) {
    Buffer visits(grid.rows * grid.cols * 4);
    visits.fill(0);
    const CUdeviceptr p = visits.get();
    launch(kernels.get(kSource, {}, "count_tiles"), 4, 128, 1, 0, device().stream, {&grid, &p});
    bool once = true;
    for (const unsigned count : to_host<unsigned>(visits, grid.rows * grid.cols)) once = once && count == 1;
    expect(once,
           "tile order of " + std::to_string(grid.rows) + "x" + std::to_string(grid.cols) + " visits each tile once");
  }
}

void ring_position_skips_like_it_steps(Kernels& kernels) {
  Buffer wrong(4);
  wrong.fill(0);
  const CUdeviceptr p = wrong.get();
  launch(kernels.get(kSource, {}, "compare_positions"), 1, 64, 1, 0, device().stream, {&p});
  expect(to_host<unsigned>(wrong, 1)[0] == 0, "a ring position advanced by n equals n single steps");
}

// A 50 x 70 matrix inside rows of 72: boxes inside, over each edge, and wholly outside.
void box_loads_swizzle_and_fill_zero(Kernels& kernels) {
  constexpr int kRows = 50, kCols = 70, kRow = 72;
  std::vector<std::uint16_t> values(kRows * kRow);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i + 1);
  Buffer matrix(values.size() * 2), out(64 * 32 * 2);
  RIDGE_CU(cuMemcpyHtoD(matrix.get(), values.data(), matrix.bytes()));
  const CUtensorMap map = encode({GemmType::kBf16, kCols, kRows, kRow * 2, 64, 32}, matrix.get());
  for (const auto& [x, y] : {std::pair{0, 0}, {64, 0}, {8, 32}, {56, 45}, {128, 128}, {-8, -4}}) {
    out.fill(0xFF);
    const CUdeviceptr out_p = out.get();
    const int box_x = x, box_y = y;
    launch(kernels.get(kSource, {}, "load_and_unswizzle"), 1, 128, 1, 4096 + 64, device().stream,
           {&map, &box_x, &box_y, &out_p});
    const auto got = to_host<std::uint16_t>(out, 64 * 32);
    int wrong = 0;
    for (int row = 0; row < 32; ++row) {
      for (int col = 0; col < 64; ++col) {
        const int r = y + row, c = x + col;
        const bool inside = r >= 0 && r < kRows && c >= 0 && c < kCols;
        wrong += got[static_cast<std::size_t>(row * 64 + col)] !=
                 (inside ? values[static_cast<std::size_t>(r * kRow + c)] : 0);
      }
    }
    expect(wrong == 0,
           "a box at " + std::to_string(x) + "," + std::to_string(y) + " lands swizzled, zero outside the matrix");
  }
}

// The copy engine's store and the direct one must agree element by element, and neither may touch anything else.
void tile_stores_agree(Kernels& kernels) {
  constexpr int kRows = 40, kCols = 300;
  for (const char* name : {"store_f32_b2_n128", "store_f32_b3_n160", "store_f32_b2_n176", "add_f32_b1_n96"}) {
    for (const auto& [x, y] : {std::pair{0, 0}, {128, 16}, {256, 32}, {292, 3}, {304, 0}, {0, 48}}) {
      Buffer engine(kRows * kCols * 4), direct(kRows * kCols * 4), counter(8);
      engine.fill(0);
      direct.fill(0);
      const CUtensorMap map = encode({GemmType::kF32, kCols, kRows, kCols * 4, 32, 16}, engine.get());
      const OutputView output{direct.get(), kCols, kRows, kCols};
      const int tile_x = x, tile_y = y;
      launch(kernels.get(kSource, {}, name), 1, 32, 1, 3 * 2048, device().stream, {&map, &output, &tile_x, &tile_y});
      const auto a = to_host<float>(engine, kRows * kCols), b = to_host<float>(direct, kRows * kCols);
      bool same = a == b, right = true;
      const int width = std::atoi(std::strchr(name, 'n') + 1);
      for (int row = 0; row < kRows; ++row) {
        for (int col = 0; col < kCols; ++col) {
          const bool inside = row >= y && row < y + 16 && col >= x && col < x + width;
          right = right && b[static_cast<std::size_t>(row * kCols + col)] ==
                               (inside ? static_cast<float>((row - y) * 1000 + col - x) : 0.0f);
        }
      }
      expect(same && right, std::string(name) + " at " + std::to_string(x) + "," + std::to_string(y) +
                                (same ? "" : ": engine and direct stores differ") + (right ? "" : ": wrong values"));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: kernel_layer_test ROOT\n";
    return 2;
  }
  device();
  compiler();
  if (device().major != 9) missing("these helpers need compute capability 9.0 (Hopper); this is " + device().name);
  Kernels kernels(argv[1]);
  tile_order_visits_every_tile_once(kernels);
  ring_position_skips_like_it_steps(kernels);
  box_loads_swizzle_and_fill_zero(kernels);
  tile_stores_agree(kernels);
  std::cout << "kernel_layer_test: " << checks << " checks, " << failures << " failed" << std::endl;
  return failures ? 1 : 0;
}
