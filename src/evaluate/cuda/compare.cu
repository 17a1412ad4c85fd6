// An output against its reference, element by element: what judge.cpp does on a processor. numerics/bias_terms.h and
// operand.cuh come before this.
namespace ridge::harness {

__device__ inline double block_sum(double value) {
  __shared__ double warps[32];
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return 0.0;
  value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.0;
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(~0u, value, offset);
  return value;  // of thread 0
}

constexpr int kPredictors = 8;  // 0: zeros, 1: a constant, then copies of other tensors

struct Compared {
  u64 worst;  // ratio as float bits << 32 | element of the chunk; the maximum wins
  u64 wrong, mismatches, finite;
  double error_squares, value_squares, normal_squares;
  u64 predicted_wrong[kPredictors];
};

// |error| / allowed; infinite for a NaN or an infinity that is not expected. An infinity is right where a value within
// the bound rounds to it in the element type. A negative `allowed`: anything that is not finite is right; an infinite
// one for a finite number: anything at all.
__device__ inline double error_ratio(double got, double expected, double allowed, i64 type) {
  const double kInf = __longlong_as_double(0x7ff0000000000000ll);
  if (allowed < 0) return isfinite(got) ? kInf : 0.0;
  if (isinf(allowed) && isfinite(expected)) return 0.0;
  if (isnan(expected)) return isnan(got) ? 0.0 : kInf;
  if (isinf(got)) {
    const double reach = got > 0 ? expected + allowed : -(expected - allowed);
    const double mantissa = type == kF64    ? 0x1p-53
                            : type == kF32  ? 0x1p-24
                            : type == kF16  ? 0x1p-11
                            : type == kBf16 ? 0x1p-8
                                            : 0x1p-3;
    if (type == kE4m3 || type == kE8m0) return kInf;
    return reach >= max_finite(type) * (1 + mantissa / 2) || got == expected ? 0.0 : kInf;
  }
  if (isinf(expected) || isnan(got)) return kInf;
  const double error = fabs(got - expected);
  if (error == 0) return 0.0;
  return allowed > 0 ? error / allowed : kInf;
}

// To nearest even in the element type; what overflows there stays as it is.
__device__ inline double rounded(i64 type, double x) {
  int mantissa = 0, lowest = -127;
  switch (type) {
    case kF64: return x;
    case kF32: mantissa = 23, lowest = -126; break;
    case kF16: mantissa = 10, lowest = -14; break;
    case kBf16: mantissa = 7, lowest = -126; break;
    case kE4m3: mantissa = 3, lowest = -6; break;
    case kE5m2: mantissa = 2, lowest = -14; break;
    default: break;
  }
  const int exponent = x == 0 ? lowest : ilogb(x);
  const double step = scalbn(1.0, (exponent < lowest ? lowest : exponent) - mantissa), nearest = rint(x / step) * step;
  return fabs(nearest) > max_finite(type) ? x : nearest;
}

}  // namespace ridge::harness

using namespace ridge::harness;

// Elements first .. first + count of output c against the reference chunk; `predictors` lists tensors whose copies must
// not pass for the output.
extern "C" __global__ void ridge_compare(Operand c, i64 first, i64 count, const double* value, const double* allowed,
                                         const double* variance, const double* shift, double constant,
                                         const Operand* predictors, i64 predictor_count, Compared* out,
                                         ridge::numerics::BiasSums* bias) {
  using ridge::numerics::kBiasCentres;
  double squares = 0, values = 0, normal = 0, shifts[kBiasCentres] = {}, differing[kBiasCentres] = {};
  u64 worst = 0;
  u32 wrong = 0, mismatches = 0, finite = 0, predicted[kPredictors] = {};
  for (i64 i = thread_index(); i < count; i += thread_count()) {
    const double want = value[i], limit = allowed[i], got = decode(c.type, bits_at(c, first + i));
    const double ratio = error_ratio(got, want, limit, c.type);
    wrong += !(ratio <= 1.0);
    mismatches += isinf(ratio);
    const u64 key = static_cast<u64>(__float_as_uint(static_cast<float>(ratio))) << 32 | static_cast<u32>(i);
    worst = key > worst ? key : worst;
    if (isfinite(got) && isfinite(want)) {
      const double error = got - want;
      ++finite;
      squares += error * error;
      values += want * want;
      if (variance[i] > 0) normal += error * error / variance[i];
      const double errors[kBiasCentres] = {error, got - rounded(c.type, want)}, sigma = sqrt(variance[i]);
      const int bucket = ridge::numerics::bias_bucket(static_cast<u64>(__double_as_longlong(want)));
#pragma unroll
      for (int centre = 0; centre < kBiasCentres; ++centre) {
        const auto term = ridge::numerics::bias_term(errors[centre], want, sigma, shift[i]);
        if (term.lean == 0) continue;
        atomicAdd(&bias->bucket[centre][bucket], term.lean);
        shifts[centre] += term.shift;
        differing[centre] += 1;
      }
    }
    predicted[0] += !(error_ratio(0.0, want, limit, c.type) <= 1.0);
    predicted[1] += !(error_ratio(constant, want, limit, c.type) <= 1.0);
    for (int p = 0; p < predictor_count; ++p) {
      const Operand& other = predictors[p];
      const double guess = other.count() > 0 ? decode(other.type, bits_at(other, (first + i) % other.count())) : 0.0;
      predicted[2 + p] += !(error_ratio(guess, want, limit, c.type) <= 1.0);
    }
  }
  if (wrong != 0) atomicAdd(&out->wrong, static_cast<u64>(wrong));
  if (mismatches != 0) atomicAdd(&out->mismatches, static_cast<u64>(mismatches));
  atomicMax(&out->worst, worst);
  const u32 finite_sum = __reduce_add_sync(~0u, finite);
  if (threadIdx.x % 32 == 0) atomicAdd(&out->finite, static_cast<u64>(finite_sum));
  for (int p = 0; p < 2 + predictor_count; ++p) {
    const u32 sum = __reduce_add_sync(~0u, predicted[p]);
    if (threadIdx.x % 32 == 0) atomicAdd(&out->predicted_wrong[p], static_cast<u64>(sum));
  }
  double* const targets[7] = {&out->error_squares, &out->value_squares, &out->normal_squares, &bias->shift[0],
                              &bias->shift[1],     &bias->differing[0], &bias->differing[1]};
  const double sums[7] = {squares, values, normal, shifts[0], shifts[1], differing[0], differing[1]};
  for (int s = 0; s < 7; ++s) {
    const double total = block_sum(sums[s]);
    if (threadIdx.x == 0) atomicAdd(targets[s], total);
  }
}
