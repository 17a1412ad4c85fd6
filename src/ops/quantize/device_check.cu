// Checks of quantised copies on the GPU, sharing no code with any quantiser: every code and every scale, always,
// because the work is of the order of the operands anyway. The largest magnitudes of the groups come first; a code that
// an fp32 division gives is within what is allowed, so only others are looked at in fp64.
//
// A copy has rows x cols elements of its own: of the transposed one, its rows are the columns of x. Groups are numbered
// as their scales lie, those of a part of a copy from the part's start. check_numbers.cuh comes before this; every
// parameter is 8 bytes or a Matrix.
namespace ridge::quantize_check {

enum Rule : int { kExact, kFloor, kEven, kCeil };  // ridge/scaling.h

constexpr double kQuotientSlack = 5 * 0x1p-24;  // reference.cpp

__device__ inline i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Of element (row, col) of a copy (or part) of `rows` x `cols`.
__device__ inline i64 group_of(i64 granularity, i64 rows, i64 cols, i64 row, i64 col) {
  switch (granularity) {
    case kRow: return row;
    case kVector: return col / 128 * rows + row;
    case kBlock: return row / 128 * ceil_div(cols, 128) + col / 128;
    case kMx: return col / 32 * rows + row;
    default: return 0;
  }
}

__device__ inline double power_of_two_scale(double amax, i64 rule, i64 format, bool mx) {
  const int mantissa = format == kE4m3 ? 3 : 2, size = ilogb(amax);
  const double significand = scalbn(amax, -size);
  int exponent = size - (format == kE4m3 ? 8 : 15);
  if (rule == kEven && significand >= 2 - scalbn(1.0, -mantissa - 1)) ++exponent;
  if (rule == kCeil && significand > 1.75) ++exponent;
  exponent = min(max(exponent, mx ? -127 : -126), 127);
  return scalbn(1.0, exponent);
}
__device__ inline double scale_of(u32 amax_bits, i64 rule, i64 format, bool mx) {
  if (amax_bits == 0) return 1.0;
  const double amax = __uint_as_float(amax_bits);
  return rule == kExact ? fmax(amax / max_finite(format), 0x1p-126) : power_of_two_scale(amax, rule, format, mx);
}

__device__ inline Rounded right_scale(u32 amax_bits, i64 rule, i64 format, bool mx) {
  const double scale = scale_of(amax_bits, rule, format, mx);
  if (rule != kExact) {
    const double step = 2 * half_ulp(mx ? static_cast<i64>(kE8m0) : static_cast<i64>(kF32), scale) * 0x1p-10;
    return {scale, step, step * step / 4};
  }
  const double step = 2 * half_ulp(kF32, scale);
  return {scale, 2 * 0x1p-24 * scale * (1 + 0x1p-20), step * step / 12};
}

__device__ inline Rounded right_code(double x, double scale, i64 rule, i64 format, bool stochastic) {
  const double most = max_finite(format), quotient = x / scale;
  // E4M3 has no infinity: NaN.
  if (isinf(quotient) && format == kE4m3) return {__longlong_as_double(0x7ff8000000000000ll), 1.0, 1.0};
  const double bounded = isfinite(quotient) ? fmin(fmax(quotient, -most), most) : quotient;
  const double slack = rule == kExact ? kQuotientSlack : 0.0;
  return stochastic ? rounded_stochastically(format, bounded, slack) : rounded_once(format, bounded, slack);
}

}  // namespace ridge::quantize_check

using namespace ridge::quantize_check;

extern "C" __global__ void quantize_clear(u32* words, i64 count) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    words[i] = 0;
  }
}

// Largest finite magnitudes of the groups of a part of x, for the copy as it is and for the transposed one; either
// array may be null, and holds zeros. A block takes 32 x 32 elements: a group never ends within its rows or columns.
extern "C" __global__ void __launch_bounds__(256) quantize_amax(Matrix x, i64 row0, i64 row_end, i64 col0, i64 col_end,
                                                                i64 granularity, u32* as_is, u32* transposed) {
  __shared__ u32 columns[32];
  const i64 rows = row_end - row0, cols = col_end - col0, across = ceil_div(cols, 32);
  const i64 first_row = blockIdx.x / across * 32, col = blockIdx.x % across * 32 + threadIdx.x % 32;
  if (threadIdx.x < 32) columns[threadIdx.x] = 0;
  __syncthreads();
  u32 largest = 0;
  for (i64 row = first_row + threadIdx.x / 32; row < first_row + 32; row += 8) {
    u32 bits = 0;
    if (row < rows && col < cols) {
      bits = __float_as_uint(static_cast<float>(load(x, row0 + row, col0 + col))) & 0x7fffffffu;
      if (bits >= 0x7f800000u) bits = 0;
    }
    largest = max(largest, bits);
    const u32 of_row = __reduce_max_sync(~0u, bits);
    if (threadIdx.x % 32 == 0 && as_is != nullptr && of_row != 0) {
      atomicMax(&as_is[group_of(granularity, rows, cols, row, col)], of_row);
    }
  }
  if (transposed == nullptr) return;
  atomicMax(&columns[threadIdx.x % 32], largest);
  __syncthreads();
  if (threadIdx.x < 32 && col < cols && columns[threadIdx.x] != 0) {
    atomicMax(&transposed[group_of(granularity, cols, rows, col, first_row)], columns[threadIdx.x]);
  }
}

// A given largest magnitude over that of x, unless it is 0 or not finite.
extern "C" __global__ void quantize_given(const float* amax, u32* groups) {
  const u32 bits = __float_as_uint(*amax) & 0x7fffffffu;
  if (threadIdx.x == 0 && bits != 0 && bits < 0x7f800000u) groups[0] = bits;
}

// Of all elements; what is not finite counts as infinity.
extern "C" __global__ void quantize_largest(Matrix x, u32* word) {
  u32 largest = 0;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < x.rows * x.columns;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const float value = static_cast<float>(load(x, i / x.columns, i % x.columns));
    largest = max(largest, min(__float_as_uint(value) & 0x7fffffffu, 0x7f800000u));
  }
  atomicMax(word, largest);
}
extern "C" __global__ void quantize_found(const u32* found, const u32* largest, Projection* result) {
  if (threadIdx.x != 0) return;
  if (*found != *largest) note_worst(result, 1e30, 0);
}
extern "C" __global__ void quantize_reference_found(u32* largest, double* value, double* allowed, double* variance) {
  if (threadIdx.x != 0) return;
  const double found = __uint_as_float(*largest), step = 2 * half_ulp(kF32, isinf(found) ? 1.0 : found) * 0x1p-10;
  *value = found;
  *allowed = step;
  *variance = step * step / 4;
  *reinterpret_cast<double*>(largest) = 0;  // the memory for shifts
}

// Every code of both copies (q or q_t without data: not wanted), with the groups of all of x.
extern "C" __global__ void __launch_bounds__(256)
    quantize_codes(Matrix x, Matrix q, Matrix q_t, const u32* as_is, const u32* transposed, i64 granularity, i64 rule,
                   i64 stochastic, Projection* result) {
  __shared__ u8 codes_t[32][33];
  const i64 across = ceil_div(x.columns, 32), row0 = blockIdx.x / across * 32, col0 = blockIdx.x % across * 32;
  const i64 col = col0 + threadIdx.x % 32;
  const int lane = threadIdx.x % 32, line = threadIdx.x / 32;
  if (q_t.data != nullptr) {
    for (int c = line; c < 32; c += 8) {
      if (col0 + c < x.columns && row0 + lane < x.rows)
        codes_t[c][lane] = q_t.data[(col0 + c) * q_t.pitch + row0 + lane];
    }
  }
  __syncthreads();
  double squares = 0, count = 0;
  const auto judge = [&](float value, u8 code, i64 format, u32 amax, i64 row) {
    const double scale = scale_of(amax, rule, format, granularity == kMx);
    count += 1;
    if (stochastic == 0 && isfinite(value) && code == to_code(value / static_cast<float>(scale), format)) return;
    const double got = format == kE4m3 ? from_e4m3(code) : half_to_float(static_cast<u16>(code << 8));
    const Rounded want = right_code(value, scale, rule, format, stochastic != 0);
    if (!isfinite(got) || !isfinite(want.value)) {
      atomicAdd(&result->not_finite, 1ull);
      return;
    }
    const double error = fabs(got - want.value);
    if (error == 0) return;
    note_worst(result, error / want.allowed, row);
    squares += error * error / want.variance;
  };
  for (i64 row = row0 + line; row < row0 + 32; row += 8) {
    if (row >= x.rows || col >= x.columns) continue;
    const float value = static_cast<float>(load(x, row, col));
    if (q.data != nullptr) {
      judge(value, q.data[row * q.pitch + col], q.type, as_is[group_of(granularity, x.rows, x.columns, row, col)], row);
    }
    if (q_t.data != nullptr) {
      judge(value, codes_t[lane][row - row0], q_t.type, transposed[group_of(granularity, x.columns, x.rows, col, row)],
            col);
    }
  }
  add_to(result, squares, count);
}

// Every scale of a copy: groups in the order in which their scales lie.
extern "C" __global__ void quantize_scales(Matrix scale, const u32* groups, i64 rule, i64 format, Projection* result) {
  double squares = 0, count = 0;
  const i64 total = scale.rows * scale.columns;
  for (i64 first = blockIdx.x * static_cast<i64>(blockDim.x); first < total;
       first += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 i = first + threadIdx.x;
    if (i >= total) continue;
    const Rounded want = right_scale(groups[i], rule, format, scale.type == kE8m0);
    const double error = fabs(load(scale, i / scale.columns, i % scale.columns) - want.value);
    if (!isfinite(error)) {
      atomicAdd(&result->not_finite, 1ull);
      continue;
    }
    note_worst(result, error / want.allowed, i / scale.columns);
    squares += error * error / want.variance;
    count += 1;
  }
  add_to(result, squares, count);
}

// Rows first .. first + count of a copy (transposed != 0: of x^T) with the groups of the part of it that begins in row
// `part` and is `part_rows` high.
extern "C" __global__ void quantize_reference_codes(Matrix x, i64 transposed, i64 first, i64 count, i64 part,
                                                    i64 part_rows, const u32* groups, i64 granularity, i64 rule,
                                                    i64 format, i64 stochastic, double* value, double* allowed,
                                                    double* variance) {
  const i64 cols = transposed ? x.rows : x.columns;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count * cols;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 row = first + i / cols, col = i % cols;
    const double element = transposed ? load(x, col, row) : load(x, row, col);
    const u32 amax = groups[group_of(granularity, part_rows, cols, row - part, col)];
    const Rounded want =
        right_code(element, scale_of(amax, rule, format, granularity == kMx), rule, format, stochastic != 0);
    value[i] = want.value;
    allowed[i] = want.allowed;
    variance[i] = want.variance;
  }
}

extern "C" __global__ void quantize_reference_scales(const u32* groups, i64 count, i64 rule, i64 format, i64 mx,
                                                     double* value, double* allowed, double* variance) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const Rounded want = right_scale(groups[i], rule, format, mx != 0);
    value[i] = want.value;
    allowed[i] = want.allowed;
    variance[i] = want.variance;
  }
}

// Equal inputs are rounded the same way, so that errors may all have one sign without anything being wrong. Only random
// roundings must not.
extern "C" __global__ void quantize_shifts(const double* allowed, i64 count, i64 stochastic, double* shift) {
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    shift[i] = stochastic != 0 ? 0.0 : allowed[i];
  }
}
