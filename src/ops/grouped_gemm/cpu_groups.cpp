// Groups one after the other through the register tiles of gemm: those of the matrix unit (AMX), of bf16 dot products
// where the processor has them at full rate, or of fp32. Every group has all threads, so many tiny groups use one
// thread each in turn. Rows that are found by index are copied first, group by group. SwiGLU is made of a group's rows
// behind their product, its gradients from sums of so many rows at a time that they stay in a few megabytes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "base/error.h"
#include "device/cpu/thread_pool.h"
#include "ops/gating/simd/pieces.h"
#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/processor_product.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::grouped_gemm {
namespace {

// Memory for the rows of any one group that are found by index, behind each other.
class CopiedRows {
 public:
  CopiedRows(const TensorView& source, const GroupedOutput& out) : source_(source) {
    std::int64_t most = 0;
    for (std::int64_t g = 0; g < out.groups(); ++g) most = std::max(most, out.rows_of(g));
    memory_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(most * row_bytes()) + 1]);
  }
  // No data where there was no memory.
  [[nodiscard]] TensorView of(std::span<const std::int32_t> index) const {
    const auto bytes = static_cast<std::size_t>(row_bytes());
    std::byte* to = memory_.get();
    for (std::size_t row = 0; to != nullptr && row < index.size(); ++row, to += bytes) {
      if (index[row] < 0) {
        std::memset(to, 0, bytes);
      } else {
        std::memcpy(to, rows_of(source_, index[row], index[row] + 1).data, bytes);
      }
    }
    return TensorView::contiguous(memory_.get(), source_.dtype,
                                  {static_cast<std::int64_t>(index.size()), source_.shape[1]});
  }

 private:
  [[nodiscard]] std::int64_t row_bytes() const { return size_bytes(source_.dtype, source_.shape[1]); }

  TensorView source_;
  std::unique_ptr<std::byte[]> memory_;
};

using activation::kPiece;

// SwiGLU of rows and its gradients. `d`: the sums of rows `first` on, with gate_up.
class Swiglu {
 public:
  Swiglu(const Shape& s, std::span<const TensorView> operands) : shape_(s), operands_(operands) {}

  void run(std::int64_t first, std::int64_t last, const TensorView& d, int threads) const {
    const std::int64_t count = last - first, used = std::clamp<std::int64_t>(count, 1, std::max(threads, 1));
    device::cpu::thread_pool().run(static_cast<int>(used), [&](int thread) {
      for (std::int64_t i = count * thread / used; i < count * (thread + 1) / used; ++i) {
        forward(first + i);
        if (shape_.epilogue == kSwigluBackward) backward(first + i, RowOfMatrix(d, i));
      }
    });
  }
  // Rows that no sums are made for: what there is of them beside C.
  void clear(std::int64_t first, std::int64_t last) const {
    matmul::clear_rows(rows_of(operands_[shape_.y()], first, last));
    if (shape_.epilogue != kSwigluBackward || !shape_.probs) return;
    auto* const dprobs = static_cast<float*>(operands_[shape_.dprobs()].data);
    std::fill(dprobs + first, dprobs + last, 0.0F);
  }

 private:
  [[nodiscard]] RowOfMatrix gate_up(std::int64_t row) const {
    return {operands_[shape_.epilogue == kSwiglu ? shape_.c() : shape_.gate_up()], row};
  }
  [[nodiscard]] activation::Factors factors(std::int64_t row) const {
    return {shape_.probs ? static_cast<const float*>(operands_[shape_.probs_at()].data)[row] : 1, 0, 0};
  }
  template <class Piece>
  void pieces(const Piece& piece) const {
    for (std::int64_t first = 0; first < shape_.inner(); first += kPiece) {
      piece(first, std::min(kPiece, shape_.inner() - first));
    }
  }
  void forward(std::int64_t row) const {
    const RowOfMatrix both = gate_up(row), y(operands_[shape_.y()], row);
    alignas(64) float a[kPiece], b[kPiece], to[kPiece];
    pieces([&](std::int64_t first, std::int64_t count) {
      float* const target = y.target(first, to);
      activation::best_pieces().forward(ActivationFunction::kSilu, factors(row), both.read(first, count, a),
                                        both.read(shape_.inner() + first, count, b), target, count);
      y.write(first, count, target);
    });
  }
  void backward(std::int64_t row, const RowOfMatrix& d) const {
    const RowOfMatrix both = gate_up(row), c(operands_[shape_.c()], row);
    alignas(64) float a[kPiece], b[kPiece], of_y[kPiece], to_gate[kPiece], to_up[kPiece];
    Lanes lanes;
    pieces([&](std::int64_t first, std::int64_t count) {
      const std::int64_t up = shape_.inner() + first;
      const activation::Gradients piece{d.read(first, count, of_y), both.read(first, count, a), both.read(up, count, b),
                                        c.target(first, to_gate), c.target(up, to_up)};
      activation::best_pieces().backward(ActivationFunction::kSilu, factors(row), piece, lanes, count);
      c.write(first, count, piece.dx);
      c.write(up, count, piece.dup);
    });
    if (shape_.probs) static_cast<float*>(operands_[shape_.dprobs()].data)[row] = total_of(lanes);
  }

  const Shape& shape_;
  std::span<const TensorView> operands_;
};

// Sums of some rows of a group at a time, and the gradients of SwiGLU from them. False: there was no memory.
bool differentiate(const Shape& s, const GroupProduct& p, std::int64_t first, const Swiglu& swiglu, int threads) {
  constexpr std::int64_t kNumbers = 4 << 20;
  const std::int64_t rows = std::min(p.m, std::max<std::int64_t>(kNumbers / std::max<std::int64_t>(s.n, 1), 256));
  const std::unique_ptr<float[]> memory(new (std::nothrow) float[static_cast<std::size_t>(rows * s.n) + 1]);
  if (memory == nullptr) return false;
  for (std::int64_t at = 0; at < p.m; at += rows) {
    const std::int64_t end = std::min(at + rows, p.m);
    const TensorView d = TensorView::contiguous(memory.get(), DType::kF32, {end - at, s.n});
    const TensorView a = rows_of(p.a, at, end);
    if (!matmul::multiply(matmul::arguments_of(a, false, p.b, p.trans_b, d, false), threads)) return false;
    swiglu.run(first + at, first + end, d, threads);
  }
  return true;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  const Shape s = shape_of(problem);
  const std::vector<std::int64_t> offsets = offsets_of(operands);
  RIDGE_CHECK_OK(check_numbers(problem, operands, offsets));
  const GroupedOutput out = output_of(s, operands, offsets);
  std::optional<CopiedRows> copied;
  if (s.gather != kNone) copied.emplace(operands[s.gather == kOfA ? kA : kB], out);
  const Swiglu swiglu(s, operands);
  if (s.epilogue != kSums) {
    swiglu.clear(0, offsets.front());
    swiglu.clear(offsets.back(), s.rows);
    if (s.n == 0) swiglu.clear(offsets.front(), offsets.back());
  }
  return matmul::multiply_groups(out, problem.problem_case.text(), [&](std::int64_t group) {
    GroupProduct p = product_of(s, operands, offsets, group);
    if (copied) {
      TensorView& gathered = s.gather == kOfA ? p.a : p.b;
      gathered = copied->of(p.index);
      if (gathered.data == nullptr) return false;
    }
    const std::int64_t first = offsets[static_cast<std::size_t>(group)];
    if (s.epilogue == kSwigluBackward) return differentiate(s, p, first, swiglu, stream.threads);
    if (!matmul::multiply(matmul::arguments_of(p.a, p.trans_a, p.b, p.trans_b, p.c, s.accumulate), stream.threads)) {
      return false;
    }
    if (s.epilogue == kSwiglu) swiglu.run(first, first + p.m, {}, stream.threads);
    return true;
  });
}

}  // namespace

Implementation cpu_groups() {
  Implementation own;
  own.name = "cpu_groups";
  own.summary = "group by group through gemm's own kernels for this processor";
  own.rank = 0;
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::grouped_gemm
