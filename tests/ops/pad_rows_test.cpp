// The kernel that copies rows which do not start on 16 bytes (src/ops/matmul/cuda_pad_rows.cu), run on the host against
// the definition: every byte of a row where it belongs, zeros up to the next 16, nothing else touched or read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "ops/cuda_on_host.h"

#define __forceinline__ inline
#define __grid_constant__

struct ulonglong2 {
  unsigned long long x, y;
};
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
namespace ridge::cuda {
using std::min;
}  // namespace ridge::cuda

#include "ops/matmul/cuda_pad_rows.cu"

namespace ridge::testing {
namespace {

struct Shape {
  std::size_t rows, row_bytes, gap, offset;  // bytes between rows; of the first row from 16
};

constexpr std::size_t kGuard = 64;

// A matrix that ends where its memory does, as a sanitizer knows, and room for its copy.
class Matrix {
 public:
  Matrix(const Shape& shape, std::mt19937& random)
      : shape_(shape), pitch_(shape.row_bytes + shape.gap), pitch_to_((shape.row_bytes + 127) / 128 * 128) {
    memory_.resize(shape.offset + span());  // malloc's starts on 16 bytes
    for (unsigned char& byte : memory_) byte = static_cast<unsigned char>(random());
    copy_.assign(shape.rows * pitch_to_ + kGuard, kUntouched);
  }
  [[nodiscard]] std::size_t span() const { return (shape_.rows - 1) * pitch_ + shape_.row_bytes; }
  [[nodiscard]] unsigned char* from() { return memory_.data() + shape_.offset; }
  cuda::RowsToPad rows() {
    const std::size_t row_chunks = (shape_.row_bytes + 15) / 16, chunks = shape_.rows * row_chunks;
    const auto narrow = [](std::size_t x) { return static_cast<cuda::u32>(x); };
    return {from(),
            to(),
            pitch_,
            span(),
            pitch_to_,
            narrow(shape_.row_bytes),
            narrow(row_chunks),
            narrow(chunks),
            narrow((chunks + 1023) / 1024)};
  }
  // Empty where the copy is right.
  std::string wrong() {
    std::vector<unsigned char> wanted(copy_.size(), kUntouched);
    unsigned char* const start = wanted.data() + (to() - copy_.data());
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      unsigned char* const line = start + row * pitch_to_;
      std::memset(line, 0, (shape_.row_bytes + 15) / 16 * 16);
      std::memcpy(line, from() + row * pitch_, shape_.row_bytes);
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (copy_[i] == wanted[i]) continue;
      return fmt::format("{} rows of {} bytes, {} apart, {} off: byte {} of the copy is {}, not {}", shape_.rows,
                         shape_.row_bytes, pitch_, shape_.offset, i, copy_[i], wanted[i]);
    }
    return {};
  }

 private:
  static constexpr unsigned char kUntouched = 0xA5;
  [[nodiscard]] unsigned char* to() {
    const auto start = reinterpret_cast<std::uintptr_t>(copy_.data());
    return copy_.data() + (16 - start % 16) % 16;
  }

  Shape shape_;
  std::size_t pitch_, pitch_to_;
  std::vector<unsigned char> memory_, copy_;
};

// No kernel of this file waits for another thread, so threads run one after the other.
void launch(const cuda::PaddedOperands& operands) {
  unsigned blocks = 0;
  for (const cuda::RowsToPad& one : operands.each) blocks += one.blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x) ridge_pad_rows(operands);
  }
}

TEST(PadRows, CopiesEveryRowAndNothingElse) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  std::vector<Shape> shapes = {{1, 1, 0, 0},      {1, 1, 0, 15},   {1, 16, 0, 1},    {1, 17, 0, 15},
                               {3, 2, 4, 2},      {4000, 2, 0, 2}, {4000, 1, 1, 3},  {2, 40000, 6, 8},
                               {129, 8190, 0, 0}, {65, 130, 6, 2}, {2100, 16, 2, 0}, {1025, 15, 0, 14},
                               {33, 100, 28, 0},  {3075, 2, 0, 2}};
  for (int i = 0; i < 300; ++i) shapes.push_back({1 + below(200), 1 + below(300), below(40), below(16)});
  for (const Shape& shape : shapes) {
    Matrix matrix(shape, random);
    cuda::PaddedOperands operands{};
    operands.each[below(4)] = matrix.rows();
    launch(operands);
    ASSERT_EQ(matrix.wrong(), "");
  }
}

TEST(PadRows, CopiesSeveralMatricesInOneLaunch) {
  std::mt19937 random(8);
  Matrix a({300, 999, 3, 1}, random), b({77, 4002, 0, 2}, random), scales({5, 1000, 12, 4}, random);
  cuda::PaddedOperands operands{{a.rows(), b.rows(), {}, scales.rows()}};
  launch(operands);
  EXPECT_EQ(a.wrong(), "");
  EXPECT_EQ(b.wrong(), "");
  EXPECT_EQ(scales.wrong(), "");
}

}  // namespace
}  // namespace ridge::testing
