// Tests the helpers of src/device/cuda/kernel one by one on this machine's GPU (the matrix-product checks exercise them
// together). kernel_layer_test ROOT; exit status 77 where there is no Hopper GPU.
#include <cmath>
#include <cstring>
#include <iostream>

#include "gpu.h"

using namespace ridge::gpu;
using ridge::DType;

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

// Of a row-major matrix, read and written in boxes of `box_cols` x `box_rows`.
TensorMap map_of(DType dtype, std::uint64_t cols, std::uint64_t rows, std::uint64_t row_bytes, std::uint32_t box_cols,
                 std::uint32_t box_rows, Address base) {
  ridge::device::cuda::TensorMapRequest request;
  request.dtype = dtype;
  request.sizes = {cols, rows};
  request.strides_bytes = {0, row_bytes};
  request.box = {box_cols, box_rows};
  TensorMap map;
  must(ridge::device::cuda::encode(request, reinterpret_cast<void*>(base), map));
  return map;
}

// As epilogue.cuh declares it.
struct OutputView {
  Address data;
  std::int64_t row_stride;
  std::uint32_t rows, cols;
};

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
    const Address p = visits.get();
    launch(kernels.get(kSource, "count_tiles"), 4, 128, 0, {&grid, &p});
    bool once = true;
    for (const unsigned count : visits.values<unsigned>(grid.rows * grid.cols)) once = once && count == 1;
    expect(once,
           "tile order of " + std::to_string(grid.rows) + "x" + std::to_string(grid.cols) + " visits each tile once");
  }
}

void ring_position_skips_like_it_steps(Kernels& kernels) {
  Buffer wrong(4);
  wrong.fill(0);
  const Address p = wrong.get();
  launch(kernels.get(kSource, "compare_positions"), 1, 64, 0, {&p});
  expect(wrong.values<unsigned>(1)[0] == 0, "a ring position advanced by n equals n single steps");
}

// A 50 x 70 matrix inside rows of 72: boxes inside, over each edge, and wholly outside.
void box_loads_swizzle_and_fill_zero(Kernels& kernels) {
  constexpr int kRows = 50, kCols = 70, kRow = 72;
  std::vector<std::uint16_t> values(kRows * kRow);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i + 1);
  Buffer matrix(values.size() * 2), out(64 * 32 * 2);
  matrix.put(values.data());
  const TensorMap map = map_of(DType::kBf16, kCols, kRows, kRow * 2, 64, 32, matrix.get());
  for (const auto& [x, y] : {std::pair{0, 0}, {64, 0}, {8, 32}, {56, 45}, {128, 128}, {-8, -4}}) {
    out.fill(0xFF);
    const Address out_p = out.get();
    const int box_x = x, box_y = y;
    launch(kernels.get(kSource, "load_and_unswizzle"), 1, 128, 4096 + 64, {&map, &box_x, &box_y, &out_p});
    const auto got = out.values<std::uint16_t>(64 * 32);
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
      const TensorMap map = map_of(DType::kF32, kCols, kRows, kCols * 4, 32, 16, engine.get());
      const OutputView output{direct.get(), kCols, kRows, kCols};
      const int tile_x = x, tile_y = y;
      launch(kernels.get(kSource, name), 1, 32, 3 * 2048, {&map, &output, &tile_x, &tile_y});
      const auto a = engine.values<float>(kRows * kCols), b = direct.values<float>(kRows * kCols);
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
  a_device.put(a_bits.data());
  b_device.put(b_bits.data());
  const TensorMap map_a = map_of(DType::kBf16, kSide, kSide, kSide * 2, 64, 64, a_device.get());
  const TensorMap map_b = map_of(DType::kBf16, kSide, kSide, kSide * 2, 64, 64, b_device.get());
  const Address d0 = shared.get(), d1 = registers.get(), d2 = chained.get();
  launch(kernels.get(kSource, "multiply_from_registers"), 1, 128, 16384 + 64, {&map_a, &map_b, &d0, &d1, &d2});
  const std::vector<float> expected = product(a);
  expect(shared.values<float>(a.size()) == expected, "a product with both operands in shared memory");
  expect(registers.values<float>(a.size()) == expected, "a product with A in registers, as ldmatrix lays it");
  expect(chained.values<float>(a.size()) == product(expected), "accumulators packed in pairs are the next A");
}

void boxes_of_four_dimensions_move_and_are_clipped(Kernels& kernels) {
  constexpr std::size_t kBatch = 2, kRows = 21, kHeads = 3, kColumns = 64;
  constexpr std::size_t kCount = kBatch * kRows * kHeads * kColumns;
  std::vector<std::uint16_t> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<std::uint16_t>(i + 1);
  Buffer from(kCount * 2), to(kCount * 2);
  from.put(values.data());
  const auto map_of = [](Address base) {
    ridge::device::cuda::TensorMapRequest request;
    request.rank = 4;
    request.sizes = {kColumns, kRows, kHeads, kBatch};
    request.strides_bytes = {0, kHeads * kColumns * 2, kColumns * 2, kRows * kHeads * kColumns * 2};
    request.box = {64, 16, 1, 1};
    TensorMap map;
    must(ridge::device::cuda::encode(request, reinterpret_cast<void*>(base), map));
    return map;
  };
  const TensorMap source = map_of(from.get()), target = map_of(to.get());
  for (const int row : {0, 3, 16}) {
    to.fill(0);
    const int head = 1, batch = 1;
    launch(kernels.get(kSource, "copy_box_4d"), 1, 32, 2048 + 64, {&source, &target, &row, &head, &batch});
    const auto got = to.values<std::uint16_t>(kCount);
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
  in.put(x.data());
  const Address in_p = in.get(), power_p = power.get(), logarithm_p = logarithm.get();
  const auto count = static_cast<unsigned>(x.size());
  launch(kernels.get(kSource, "powers_and_logarithms"), (count + 127) / 128, 128, 0,
         {&in_p, &power_p, &logarithm_p, &count});
  const auto powers = power.values<float>(x.size()), logarithms = logarithm.values<float>(x.size());
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
  hopper();
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
