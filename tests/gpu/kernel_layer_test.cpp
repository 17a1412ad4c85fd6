// Tests the helpers of src/device/cuda/kernel one by one on this machine's GPU (the matrix-product checks exercise them
// together). kernel_layer_test ROOT; exit status 77 where there is no Hopper GPU.
#include <cmath>
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

std::uint16_t bf16_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>(bits >> 16);  // exact for the small whole numbers used here
}

// Small whole numbers: every sum is exact, so a wrong layout cannot hide in a tolerance.
void products_take_a_from_registers(Kernels& kernels) {
  constexpr int kSide = 64;
  std::vector<float> a(kSide * kSide), b(kSide * kSide);
  std::vector<std::uint16_t> a_bits, b_bits;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>((i * 7 + i / 64 * 3) % 3) - 1;
    b[i] = static_cast<float>((i * 5 + i / 64) % 4 == 0);
    a_bits.push_back(bf16_of(a[i]));
    b_bits.push_back(bf16_of(b[i]));
  }
  const auto product = [&](const std::vector<float>& left) {
    std::vector<float> d(kSide * kSide);
    for (int row = 0; row < kSide; ++row) {
      for (int k = 0; k < kSide; ++k) {
        for (int col = 0; col < kSide; ++col) {
          d[static_cast<std::size_t>(row * kSide + col)] +=
              left[static_cast<std::size_t>(row * kSide + k)] * b[static_cast<std::size_t>(k * kSide + col)];
        }
      }
    }
    return d;
  };
  Buffer a_device(a_bits.size() * 2), b_device(b_bits.size() * 2);
  Buffer shared(a.size() * 4), registers(a.size() * 4), chained(a.size() * 4);
  RIDGE_CU(cuMemcpyHtoD(a_device.get(), a_bits.data(), a_device.bytes()));
  RIDGE_CU(cuMemcpyHtoD(b_device.get(), b_bits.data(), b_device.bytes()));
  const CUtensorMap map_a = encode({GemmType::kBf16, kSide, kSide, kSide * 2, 64, 64}, a_device.get());
  const CUtensorMap map_b = encode({GemmType::kBf16, kSide, kSide, kSide * 2, 64, 64}, b_device.get());
  const CUdeviceptr d0 = shared.get(), d1 = registers.get(), d2 = chained.get();
  launch(kernels.get(kSource, {}, "multiply_from_registers"), 1, 128, 1, 16384 + 64, device().stream,
         {&map_a, &map_b, &d0, &d1, &d2});
  const std::vector<float> expected = product(a);
  expect(to_host<float>(shared, a.size()) == expected, "a product with both operands in shared memory");
  expect(to_host<float>(registers, a.size()) == expected, "a product with A in registers, as ldmatrix lays it");
  expect(to_host<float>(chained, a.size()) == product(expected), "accumulators packed in pairs are the next A");
}

void boxes_of_four_dimensions_move_and_are_clipped(Kernels& kernels) {
  constexpr std::size_t kBatch = 2, kRows = 21, kHeads = 3, kColumns = 64;
  constexpr std::size_t kCount = kBatch * kRows * kHeads * kColumns;
  std::vector<std::uint16_t> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<std::uint16_t>(i + 1);
  Buffer from(kCount * 2), to(kCount * 2);
  RIDGE_CU(cuMemcpyHtoD(from.get(), values.data(), from.bytes()));
  const auto map_of = [](CUdeviceptr base) {
    CUtensorMap map;
    const cuuint64_t sizes[4] = {kColumns, kRows, kHeads, kBatch};
    const cuuint64_t strides[3] = {kHeads * kColumns * 2, kColumns * 2, kRows * kHeads * kColumns * 2};
    const cuuint32_t box[4] = {64, 16, 1, 1}, steps[4] = {1, 1, 1, 1};
    RIDGE_CU(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, reinterpret_cast<void*>(base), sizes,
                                    strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    return map;
  };
  const CUtensorMap source = map_of(from.get()), target = map_of(to.get());
  for (const int row : {0, 3, 16}) {
    to.fill(0);
    const int head = 1, batch = 1;
    launch(kernels.get(kSource, {}, "copy_box_4d"), 1, 32, 1, 2048 + 64, device().stream,
           {&source, &target, &row, &head, &batch});
    const auto got = to_host<std::uint16_t>(to, kCount);
    bool right = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t r = i / (kHeads * kColumns) % kRows, h = i / kColumns % kHeads,
                        b = i / (kRows * kHeads * kColumns);
      const auto first = static_cast<std::size_t>(row);
      const bool inside = b == 1 && h == 1 && r >= first && r < first + 16;
      right = right && got[i] == (inside ? values[i] : 0);
    }
    expect(right, "16 rows from row " + std::to_string(row) + " of one head go where they came from, and no further");
  }
}

void powers_and_logarithms_are_close(Kernels& kernels) {
  std::vector<float> x;
  for (int i = -2400; i <= 200; ++i) x.push_back(static_cast<float>(i) / 20.0f);
  Buffer in(x.size() * 4), power(x.size() * 4), logarithm(x.size() * 4);
  RIDGE_CU(cuMemcpyHtoD(in.get(), x.data(), in.bytes()));
  const CUdeviceptr in_p = in.get(), power_p = power.get(), logarithm_p = logarithm.get();
  const auto count = static_cast<unsigned>(x.size());
  launch(kernels.get(kSource, {}, "powers_and_logarithms"), (count + 127) / 128, 128, 1, 0, device().stream,
         {&in_p, &power_p, &logarithm_p, &count});
  const auto powers = to_host<float>(power, x.size()), logarithms = to_host<float>(logarithm, x.size());
  bool close = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp2(static_cast<double>(x[i]));
    close = close && std::abs(powers[i] - exact) <= 4e-7 * exact && std::abs(logarithms[i] - x[i]) <= 4e-5;
  }
  expect(close, "2^x and log2 from the special-function unit");
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
  products_take_a_from_registers(kernels);
  boxes_of_four_dimensions_move_and_are_clipped(kernels);
  powers_and_logarithms_are_close(kernels);
  std::cout << "kernel_layer_test: " << checks << " checks, " << failures << " failed" << std::endl;
  return failures ? 1 : 0;
}
