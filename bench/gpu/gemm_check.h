// Random operands for matrix products, and the comparison of a result with float64.
#pragma once
#include <cmath>

#include "gemm_runner.h"

namespace ridge::gpu {

inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + 255) / 256, 1, 132 * 16));
}

inline void fill_normal(Kernels& kernels, Address data, GemmType type, std::int64_t count, std::uint64_t seed,
                        float scale = 1.0f) {
  const int t = static_cast<int>(type);
  const long long n = count;
  const unsigned long long s = seed;
  launch(kernels.get(kHarness, "fill_normal"), blocks_for(count), 256, 0, {&data, &t, &n, &s, &scale});
}

// Sizes of the arrays beside the operands, in bytes; 0 where the case has none.
struct ExtraBytes {
  std::int64_t scale_a = 0, scale_b = 0, bias = 0, residual = 0;
};
inline ExtraBytes extra_bytes(const GemmCase& g) {
  const std::int64_t k128 = cuda::ceil_div(g.k, 128), k32 = cuda::ceil_div(g.k, 32), size = cuda::bytes_of(g.type_c);
  ExtraBytes bytes;
  switch (g.scaling) {
    case GemmScaling::kNone: break;
    case GemmScaling::kTensor: bytes = {4, 4}; break;
    case GemmScaling::kRow: bytes = {4 * g.m, 4 * g.n}; break;
    case GemmScaling::kBlock: bytes = {4 * k128 * g.m, 4 * k128 * cuda::ceil_div(g.n, 128)}; break;
    case GemmScaling::kVector: bytes = {4 * k128 * g.m, 4 * k128 * g.n}; break;
    case GemmScaling::kMx: bytes = {k32 * g.m, k32 * g.n}; break;
  }
  if (g.bias) bytes.bias = g.n * size;
  if (g.residual) bytes.residual = g.m * g.row_residual() * size;
  return bytes;
}

// Random scales, bias and residual for a case. Scales keep off zero and differ by factors, so that a mixed-up index
// shows.
struct ExtraBuffers {
  Buffer scale_a, scale_b, bias, residual;
  ExtraBuffers(Kernels& kernels, const GemmCase& g, std::uint64_t seed) {
    const ExtraBytes bytes = extra_bytes(g);
    auto scales = [&](std::int64_t size, std::uint64_t which) {
      Buffer buffer(static_cast<std::size_t>(size));
      const int mx = g.scaling == GemmScaling::kMx;
      const Address data = buffer.get();
      const long long count = mx ? size : size / 4;
      const unsigned long long s = which;
      if (count != 0) {
        launch(kernels.get(kHarness, "fill_scales"), blocks_for(count), 256, 0, {&data, &mx, &count, &s});
      }
      return buffer;
    };
    scale_a = scales(bytes.scale_a, seed);
    scale_b = scales(bytes.scale_b, seed + 1);
    bias = Buffer(static_cast<std::size_t>(bytes.bias));
    residual = Buffer(static_cast<std::size_t>(bytes.residual));
    const std::int64_t size = cuda::bytes_of(g.type_c);
    if (bytes.bias) fill_normal(kernels, bias.get(), g.type_c, bytes.bias / size, seed + 2, 3.0f);
    if (bytes.residual) fill_normal(kernels, residual.get(), g.type_c, bytes.residual / size, seed + 3, 3.0f);
  }
  Extras view() const {
    auto of = [](const Buffer& buffer) { return buffer.bytes() ? buffer.get() : 0; };
    return {of(scale_a), of(scale_b), of(bias), of(residual)};
  }
};

inline std::int64_t elements_a(const GemmCase& g) { return (g.a_mn_major ? g.k : g.m) * g.row_a(); }
inline std::int64_t elements_b(const GemmCase& g) { return (g.b_mn_major ? g.k : g.n) * g.row_b(); }
inline std::int64_t elements_c(const GemmCase& g) { return g.m * g.row_c(); }

struct CheckResult {
  std::uint64_t wrong = 0, first_wrong = 0, touched_outside = 0;
  double relative_error = 0, worst = 0;
  bool passed() const { return wrong == 0 && touched_outside == 0 && !std::isnan(relative_error) && worst <= 1.0; }
};

// Compares about `rows_wanted` evenly spaced rows of C with float64. The bound: half an ulp of the output type, plus
// what fp32 accumulation may lose: the tensor core truncates when it aligns the sixteen products of a step with the
// running sum, so each step may cost one unit in the last place of the largest partial sum, which the sum of magnitudes
// bounds. `exact_sums`: the product was not made by the matrix unit but by fp32 multiply-adds.
inline CheckResult compare_with_reference(Kernels& kernels, const GemmCase& g, Address a, Address b, Address c,
                                          Address c_before, std::int64_t rows_wanted, const Extras& extras = {},
                                          bool exact_sums = false) {
  CheckResult result;
  if (g.m == 0 || g.n == 0) return result;
  const long long rows = std::min<std::int64_t>(g.m, rows_wanted);
  const long long step = std::max<std::int64_t>(1, (g.m - 1) / std::max<long long>(1, rows - 1));
  const long long total = rows * g.n;
  Buffer ref(total * 8), magnitude(total * 4), comparison(64);
  comparison.fill(0);
  double accumulate, peak_weight = 0;
  if (exact_sums) {
    accumulate = static_cast<double>(g.k + 4) / 16777216;
  } else if (g.eight_bit()) {
    // The adder keeps about 14 bits, so aligning to the largest addend costs up to 2^-13 of it in each step of 32.
    // Promotion starts afresh every 128 of K, so only four steps add up.
    const double steps = g.promotes() ? 8 : static_cast<double>(g.k) / 32 + 4;
    accumulate = (1 + std::sqrt(steps) * 0.25) / 8192;
    // Where one product towers over the others, each of them may be cut by a unit of its last place, not only by one of
    // the sum's: at most a unit for each of the 33 addends of a step, and steps add up like independent errors.
    peak_weight = 33 * std::sqrt(steps) / 8192 / accumulate;
  } else {
    accumulate = (static_cast<double>(g.k) / 16 + 4) / 8388608;
  }
  struct Problem {  // as harness.cu has it
    Address a, b, c_before, scale_a, scale_b, bias, residual;
    double peak_weight;
    long long m, n, k, lda, ldb, ldc, ld_residual, row_step, rows;
    int type_a, type_b, type_c, a_mn_major, b_mn_major, scaling, activation;
  };
  const Problem problem{a,
                        b,
                        c_before,
                        extras.scale_a,
                        extras.scale_b,
                        extras.bias,
                        extras.residual,
                        peak_weight,
                        g.m,
                        g.n,
                        g.k,
                        g.row_a(),
                        g.row_b(),
                        g.row_c(),
                        g.row_residual(),
                        step,
                        rows,
                        static_cast<int>(g.type_a),
                        static_cast<int>(g.type_b),
                        static_cast<int>(g.type_c),
                        g.a_mn_major,
                        g.b_mn_major,
                        static_cast<int>(g.scaling),
                        static_cast<int>(g.activation)};
  Address ref_p = ref.get(), mag_p = magnitude.get(), cmp_p = comparison.get();
  launch(kernels.get(kHarness, "reference"), static_cast<unsigned>((total + 127) / 128), 128, 0,
         {&problem, &ref_p, &mag_p});
  const double half_ulp = g.type_c == GemmType::kBf16  ? 1.0 / 256
                          : g.type_c == GemmType::kF16 ? 1.0 / 2048
                                                       : 1.0 / 16777216;
  if (g.type_a == GemmType::kTf32) accumulate += 2.0 / 1024;  // each operand loses up to an ulp of its 10 bits
  // The activations' slope is at most 1.13 and their own error a few ulps.
  if (g.activation != GemmActivation::kIdentity) accumulate = 1.13 * accumulate + 2e-6;
  const double tiny = g.type_c == GemmType::kF16 ? 6e-8 : 1e-37;
  const int tc = static_cast<int>(g.type_c);
  const long long n = g.n, ldc = g.row_c();
  launch(kernels.get(kHarness, "compare"), blocks_for(total), 256, 0,
         {&c, &tc, &n, &ldc, &step, &rows, &ref_p, &mag_p, &half_ulp, &accumulate, &tiny, &cmp_p});
  struct Raw {
    unsigned long long wrong, first;
    double error, ref, worst;
  };
  const Raw raw = comparison.values<Raw>(1)[0];
  result.wrong = raw.wrong;
  result.first_wrong = raw.first;
  result.relative_error = raw.ref > 0 ? std::sqrt(raw.error / raw.ref) : std::sqrt(raw.error);
  result.worst = raw.worst;
  return result;
}

}  // namespace ridge::gpu
