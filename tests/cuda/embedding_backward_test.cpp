// embedding_backward on a GPU: the bits of a processor, whatever becomes of the order in which tokens are sorted, and
// ids that are no row.
#include "ridge/ops/embedding_backward.h"
#include "cuda/gpu_operands.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;

struct Batch {
  std::int64_t tokens, vocabulary, cols;
  std::vector<float> dy;
  std::vector<std::int64_t> ids;

  // `crowded`: of the tokens so many in a thousand name row 3.
  Batch(std::int64_t count, std::int64_t rows, std::int64_t columns, unsigned crowded)
      : tokens(count), vocabulary(rows), cols(columns) {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal(0, 1);
    for (std::int64_t i = 0; i < count * columns; ++i) dy.push_back(normal(generator));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto any = static_cast<std::int64_t>(generator() % static_cast<unsigned>(rows));
      ids.push_back(generator() % 1000 < crowded ? 3 : any);
    }
  }
  EmbeddingBackwardArgs args(void* of_dy, void* of_ids, void* of_dw, bool accumulate) const {
    EmbeddingBackwardArgs call;
    call.dy = TensorView::contiguous(of_dy, DType::kF32, {tokens, cols});
    call.ids = TensorView::contiguous(of_ids, DType::kI64, {tokens});
    call.dw = TensorView::contiguous(of_dw, DType::kF32, {vocabulary, cols});
    call.padding_idx = 7;
    call.accumulate = accumulate;
    return call;
  }
  [[nodiscard]] std::vector<float> old() const {
    return std::vector<float>(static_cast<std::size_t>(vocabulary * cols), 0.75F);
  }
  std::vector<float> on_processor(bool accumulate) {
    std::vector<float> dw = old();
    const Status status = embedding_backward(args(dy.data(), ids.data(), dw.data(), accumulate), Stream::cpu(2));
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
    return dw;
  }
  std::vector<float> on_gpu(bool accumulate) {
    const auto stream = gpu::Stream::create(the_device());
    EXPECT_TRUE(stream);
    std::vector<gpu::Buffer> memory;
    std::vector<float> dw = old();
    const auto upload = [&](const auto& values) -> void* {
      const std::size_t bytes = values.size() * sizeof(values[0]);
      auto buffer = gpu::Buffer::allocate(the_device(), bytes);
      EXPECT_TRUE(buffer);
      memory.push_back(std::move(*buffer));
      EXPECT_TRUE(gpu::copy_to_device(memory.back().data(), values.data(), bytes, stream->handle()));
      return memory.back().data();
    };
    void *const of_dy = upload(dy), *const of_ids = upload(ids), *const of_dw = upload(dw);
    const Status status = embedding_backward(args(of_dy, of_ids, of_dw, accumulate), stream->view());
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
    EXPECT_TRUE(gpu::copy_to_host(dw.data(), of_dw, dw.size() * sizeof(float), stream->handle()));
    EXPECT_TRUE(stream->synchronize());
    return dw;
  }
};

// Rows of one token, of up to 32, of some hundreds, and of thousands; in chunks, and by elements.
TEST(CudaEmbeddingBackward, HasTheBitsOfAProcessor) {
  for (const std::int64_t cols : {64, 67, 3000}) {
    for (const unsigned crowded : {0U, 20U, 300U}) {
      for (const std::int64_t vocabulary : {9, 400, 20000}) {
        Batch batch(cols == 3000 ? 1500 : 9000, vocabulary, cols, crowded);
        for (const bool accumulate : {false, true}) {
          const std::vector<float> right = batch.on_processor(accumulate);
          for (int run = 0; run < 3; ++run) {
            ASSERT_EQ(batch.on_gpu(accumulate), right) << cols << ", " << vocabulary << ", " << crowded;
          }
        }
      }
    }
  }
}

TEST(CudaEmbeddingBackward, AnIdThatIsNoRowCountsForNothing) {
  Batch batch(3000, 50, 96, 200), plain(3000, 50, 96, 200);
  for (std::size_t t = 0; t < 3000; t += 7) {
    batch.ids[t] = t % 2 == 0 ? 50 + static_cast<std::int64_t>(t) : -1 - (std::int64_t{1} << 40);
    plain.ids[t] = 7;  // padding
  }
  EXPECT_EQ(batch.on_gpu(false), plain.on_processor(false));
}

}  // namespace
}  // namespace ridge::testing
