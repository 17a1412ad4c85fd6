// Checks of attention_fp8 on the GPU, sharing no code with any kernel that is measured:
//
//   attention_fp8_project   every row of O under four secret sign vectors, o r against v_scale sum_j w_j (v_j r), and
//                           every log-sum-exp: scores are made again in fp32, tile by tile, weights and sums in fp64
//   attention_fp8_samples   rows at secret places, element by element, in fp64 throughout
//   attention_fp8_rows      every element with what it may be off by, as reference.cpp has it, for the full compare;
//   attention_fp8_sums      and every log-sum-exp
//
// The kernels are those of attention (../device_check.cu) with another account of errors: here the matrix unit cuts
// scores and sums with v off, step by step, and weights have three bits behind the leading one, so that how errors of
// weights add up decides what O may be off by. check_numbers.cuh and check_pairs.cuh come before this.
namespace ridge::attention_fp8_check {

using namespace ridge::attention_check;

// The matrix unit (ops/matmul/matrix_unit.h): terms of a step, what an addend may lose, relative to the largest, and
// the smallest number that codes are aligned by.
constexpr int kStep = 32;
constexpr double kUnitCut = 0x1p-13, kLeastAligned = 0x1p-6;
constexpr i64 kKeysAtOnce = 128;  // whose products with v the matrix unit adds up
// Weights as e4m3, as reference.cpp has them: half a step, relative to the weight, and relative to the largest weight
// of a row the smallest step and the least normal weight. A weight below kLost of the largest is 0 in every kernel: the
// smallest step is 2^-17 of it where its code is 2^8, the most that the contract allows.
constexpr double kWeightRoundoff = 0x1p-4, kLeastStep = 0x1p-15, kLeastNormal = 0x1p-12, kLost = 0x1p-18;
constexpr double kMostFactor = 0x1p99;  // of scores
// Weights whose four leading bits behind the first are equal round alike, whatever their exponents: steps of e4m3 are
// of three bits. They have a sum of their own.
constexpr int kGroups = 16;

// The operands of a call. Scales are [batch, heads] of q, and of k and v.
struct CodesCall {
  Call call;
  Matrix q_scale, k_scale, v_scale;
};

// What scores and values of codes are multiplied by; NaN where the contract has no numbers.
struct Scales {
  double scores, values;
};
__device__ inline Scales scales_of(const CodesCall& codes, i64 batch, i64 head, i64 kv_head) {
  const double scores = codes.call.scale * load(codes.q_scale, batch, head) * load(codes.k_scale, batch, kv_head);
  const double values = load(codes.v_scale, batch, kv_head);
  return {scores >= 0 && scores <= kMostFactor ? scores : not_a_number(), isfinite(values) ? values : not_a_number()};
}

__device__ inline double aligned(double code) { return code == 0 ? 0.0 : fmax(fabs(code), kLeastAligned); }

// What the matrix unit may cut off a sum.
struct Cut {
  double allowed, variance, shift;
};
// A sum of the matrix unit in fp64, and what the unit may lose of it: the bound of ops/matmul/matrix_unit.h.
struct UnitSum {
  double sum = 0, low = 0, high = 0, coherent = 0, spread = 0, lean = 0;
  double largest = 0, signs = 0;  // of the step

  __device__ void add(double product, double weight) {
    sum += product;
    largest = fmax(largest, weight);
    signs += product > 0 ? 1.0 : product < 0 ? -1.0 : 0.0;
  }
  // `promoted`: behind this step the sum moves to fp32.
  __device__ void end_step(bool promoted) {
    const double u = kUnitCut * fmax(high - low, largest);
    coherent += u * signs * signs / kStep;
    spread += u * u;
    lean += u * signs;
    largest = signs = 0;
    low = promoted ? sum : fmin(low, sum);
    high = promoted ? sum : fmax(high, sum);
  }
  // Of so many terms.
  [[nodiscard]] __device__ Cut cut(i64 terms) const {
    const double steps = fmax(1.0, static_cast<double>((terms + kStep - 1) / kStep)), shift = 0.36 * fabs(lean);
    return {coherent + 10 * sqrt(spread), shift * shift + 1.5 * spread + coherent * coherent / (8 * steps), shift};
  }
};

// The root of the expected square of a weight's rounding, uniform within its step. Steps run from 2^-4 to 2^-3 of a
// weight; the smallest have a size of their own, and what they lose is no more than the weight.
__device__ inline double rounding_of(double weight, double unit) {
  if (weight < kLeastNormal * unit) return fmin(weight, kLeastStep * unit * 0.28867513459481287);  // 1 / sqrt(12)
  return kWeightRoundoff * weight * 0.40824829046386302;                                           // 1 / sqrt(6)
}
__device__ inline int group_of(double weight) {
  return static_cast<int>(__float_as_uint(static_cast<float>(weight)) >> 19 & 15);
}

// What is known of a row of scores.
struct RowOfScores {
  double log_sum_exp, unit;  // unit: the largest weight
  double error, variance;    // of the scores
  bool broken;               // a score is NaN
  bool empty;                // it sees nothing
};

// Memory that a block shares while it works on a row.
struct RowMemory {
  double query[kMostColumns], weights[kThreads], rounding[kThreads];
  Exponentials exponentials[kThreads];
  double error[kThreads], largest[kThreads], variance[kThreads];
  int group[kThreads];  // of weights; less than 0: lost
  float grouped[kGroups][kThreads];
};

__device__ inline UnitSum sum_of_codes(const double* x, const Matrix& y, i64 row) {
  UnitSum made;
  for (i64 c = 0; c < y.columns; ++c) {
    const double code = load(y, row, c);
    made.add(x[c] * code, aligned(x[c]) * aligned(code));
    if (c % kStep == kStep - 1 || c + 1 == y.columns) made.end_step(false);
  }
  return made;
}

// By a block: two passes over its keys, of which this is the first.
__device__ inline RowOfScores scores_of_row(const CodesCall& codes, const Place& at, const Span& keys,
                                            const Scales& scales, RowMemory& memory) {
  const Call& call = codes.call;
  __syncthreads();  // the row before is done with
  read_row(call.q, query_row(call, at.batch, at.query, at.head), memory.query);
  __syncthreads();
  Exponentials exponentials{-infinity(), 0};
  double error = 0, largest = 0, variance = 0;
  for (i64 j = keys.first + threadIdx.x; j < keys.end; j += kThreads) {
    const UnitSum products = sum_of_codes(memory.query, call.k, key_row(call, at.batch, j, at.kv_head));
    const double score = scales.scores * products.sum;
    if (!isfinite(score)) {
      exponentials.sum = not_a_number();
      continue;
    }
    const Cut cut = products.cut(call.k.columns);
    error = fmax(error, scales.scores * cut.allowed);
    largest = fmax(largest, fabs(score));
    variance = fmax(variance, scales.scores * scales.scores * cut.variance + kUnit * kUnit * score * score * 2 / 3);
    exponentials.add(score);
  }
  memory.exponentials[threadIdx.x] = exponentials;
  memory.error[threadIdx.x] = error;
  memory.largest[threadIdx.x] = largest;
  memory.variance[threadIdx.x] = variance;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x), other = i + half;
    if (i >= half) continue;
    memory.exponentials[i].add(memory.exponentials[other]);
    memory.error[i] = fmax(memory.error[i], memory.error[other]);
    memory.largest[i] = fmax(memory.largest[i], memory.largest[other]);
    memory.variance[i] = fmax(memory.variance[i], memory.variance[other]);
  }
  __syncthreads();
  RowOfScores row;
  const double total = memory.exponentials[0].sum;
  row.empty = keys.first == keys.end;
  row.broken = !row.empty && total != total;
  row.log_sum_exp = row.empty ? -infinity() : row.broken ? not_a_number() : memory.exponentials[0].most + log(total);
  row.unit = row.empty || row.broken ? 0 : 1 / total;
  row.error = row.empty ? 0 : memory.error[0] + 0x1p-20 * (1 + memory.largest[0]);
  row.variance = memory.variance[0];
  return row;
}

// Sums over the keys of a row for one column, of codes of v: of terms, of codes, and of squares.
struct ColumnSums {
  UnitSum terms;
  double magnitude = 0, squares = 0, codes = 0, lost = 0, apart = 0;  // apart: squares of weights' roundings

  __device__ void add(double weight, double rounding, double unit, bool is_lost, double code) {
    const double term = weight * code;
    terms.add(term, fmax(weight, kLeastNormal * unit) * aligned(code));
    magnitude += fabs(term);
    squares += term * term;
    codes += fabs(code);
    if (is_lost) {
      lost += term;
    } else {
      apart += rounding * rounding * code * code;
    }
  }
};

// By a block: thread c has column c of the row of O.
__device__ inline Element element_of_row(const CodesCall& codes, const Place& at, const Span& keys,
                                         const Scales& scales, const RowOfScores& row, RowMemory& memory) {
  const Call& call = codes.call;
  const i64 type = call.o.type, column = threadIdx.x;
  const double least = half_ulp(type, 0.0);
  if (row.empty) return {0, least, least * least / 3, 0};
  for (int group = 0; group < kGroups; ++group) memory.grouped[group][threadIdx.x] = 0;
  ColumnSums sums;
  const i64 begin = keys.first / kKeysAtOnce * kKeysAtOnce;
  const i64 end = min(call.k_len, (keys.end + kKeysAtOnce - 1) / kKeysAtOnce * kKeysAtOnce);
  const auto seen = [&](i64 key) { return key >= keys.first && key < keys.end; };
  for (i64 first = begin; first < end; first += kThreads) {
    const i64 own = first + threadIdx.x;
    __syncthreads();
    if (seen(own)) {
      const UnitSum products = sum_of_codes(memory.query, call.k, key_row(call, at.batch, own, at.kv_head));
      const double weight = exp(scales.scores * products.sum - row.log_sum_exp);
      memory.weights[threadIdx.x] = weight;
      memory.rounding[threadIdx.x] = rounding_of(weight, row.unit);
      memory.group[threadIdx.x] = weight < kLost * row.unit ? -1 : group_of(weight / row.unit);
    }
    __syncthreads();
    if (column >= call.v.columns) continue;
    const int count = static_cast<int>(min(static_cast<i64>(kThreads), end - first));
    for (int i = 0; i < count; ++i) {
      const i64 key = first + i;
      if (seen(key)) {
        const double code = load(call.v, key_row(call, at.batch, key, at.kv_head), column);
        const int group = memory.group[i];
        sums.add(memory.weights[i], memory.rounding[i], row.unit, group < 0, code);
        if (group >= 0) memory.grouped[group][column] += static_cast<float>(memory.rounding[i] * code);
      }
      if ((key + 1) % kStep == 0 || key + 1 == call.k_len) sums.terms.end_step((key + 1) % kKeysAtOnce == 0);
    }
  }
  const double sum = scales.values * sums.terms.sum, size = fabs(scales.values);
  if (!isfinite(sum)) return {sum, least, least * least / 3, 0};
  if (column < call.v.columns && meets_special(call, at, keys, column)) return {sum, infinity(), infinity(), 0};
  double alike = 0;
  for (int group = 0; group < kGroups; ++group) {
    const double rounding = memory.grouped[group][threadIdx.x];
    alike += rounding * rounding;
  }
  const Cut cut = sums.terms.cut(call.k_len);
  const double relative = half_ulp(type, 1.0) + kWeightRoundoff + 2 * row.error +
                          8 * kUnit * sqrt(static_cast<double>(max(call.k_len, 1ll)));
  const double bound = size * (relative * sums.magnitude + kLeastStep / 2 * row.unit * sums.codes + cut.allowed);
  const double half = half_ulp(type, fabs(sum) + bound);
  // Weights of a group lose the same, or at least each what it loses by itself; those that are lost lose all of it.
  const double noise = fmax(alike, sums.apart) + sums.lost * sums.lost + cut.variance +
                       row.variance * (sums.squares + sums.terms.sum * sums.terms.sum);
  return {sum, bound + half, half * half / 3 + size * size * noise,
          kWeightRoundoff * fabs(sum) + size * (cut.shift + fabs(sums.lost))};
}

// What the contract allows a log-sum-exp beside the error of its scores: the exponentials, their sum and the logarithm.
__device__ inline double allowed_of_sum(const Call& call, double size) {
  return 0x1p-20 + kUnit * (4 * size + 8 * sqrt(static_cast<double>(call.k_len)));
}
__device__ inline Element sum_element(const Call& call, const RowOfScores& row) {
  const double size = isfinite(row.log_sum_exp) ? fabs(row.log_sum_exp) : 0.0;
  const double step = 2 * half_ulp(kF32, size) + 0x1p-23;
  return {row.log_sum_exp, row.error + allowed_of_sum(call, size), step * step / 4 + row.variance,
          0x1p-21 + 2 * kUnit * size};
}

// Of a row of a tile of codes, in a step of the matrix unit: signs as bits, and the largest that it is aligned by.
struct StepOfCodes {
  u32 negative, any;  // any: not zero
  float largest;
};
// By a warp, of which each lane has one code.
__device__ inline StepOfCodes step_of_codes(float code) {
  const float size = code == 0 ? 0.0f : fmaxf(fabsf(code), static_cast<float>(kLeastAligned));
  return {__ballot_sync(~0u, code < 0), __ballot_sync(~0u, code != 0),
          __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(size)))};
}

// UnitSum of 4 x 4 sums by a thread, in fp32, since bounds are made of it. The largest product of a step is taken to be
// that of the largest codes, which is not less.
struct UnitSums {
  float low[4][4] = {}, high[4][4] = {}, coherent[4][4] = {}, spread[4][4] = {}, lean[4][4] = {};

  __device__ void end_step(int i, int j, float sum, const StepOfCodes& x, const StepOfCodes& y) {
    const u32 any = x.any & y.any, negative = (x.negative ^ y.negative) & any;
    const float signs = static_cast<float>(__popc(any) - 2 * __popc(negative));
    const float u = static_cast<float>(kUnitCut) * fmaxf(high[i][j] - low[i][j], x.largest * y.largest);
    coherent[i][j] += u * signs * signs / kStep;
    spread[i][j] += u * u;
    lean[i][j] += u * signs;
    low[i][j] = fminf(low[i][j], sum);
    high[i][j] = fmaxf(high[i][j], sum);
  }
  [[nodiscard]] __device__ float allowed(int i, int j) const { return coherent[i][j] + 10 * sqrtf(spread[i][j]); }
  [[nodiscard]] __device__ float variance(int i, int j, float steps) const {
    return 0.36f * 0.36f * lean[i][j] * lean[i][j] + 1.5f * spread[i][j] +
           coherent[i][j] * coherent[i][j] / (8 * steps);
  }
};

// What a row's scores have in common; the largest of each. Cuts are those of codes.
struct RowOfTile {
  float allowed, variance, largest, highest;  // highest: a weight
};

// What a thread gathers of one row under one sign vector.
struct LaneOfRow {
  double weights = 0, products = 0, squares = 0, values = 0, lost = 0;
};

// Of one row and one sign vector, by the thread that has them.
struct RowVerdict {
  const Call& call;
  Projection* result;
  double squares = 0, count = 0;

  // `total`: the sum of exp(score - found).
  __device__ void look_at_sum(const RowOfTile& row, const Span& keys, double factor, double total, double found,
                              i64 at) const {
    if (keys.first == keys.end) {
      if (found != -infinity()) note_worst(result, 2.0, at);
      return;
    }
    const double error = fabs(log(total));
    if (!isfinite(error)) {
      atomicAdd(&result->not_finite, 1ull);
      return;
    }
    // What the fp32 sums of the tile are off by is at most a hundredth of what the unit may cut off: so many roundings
    // of 2^-25 of the sums so far against ten times 2^-13.
    const double of_scores = 1.01 * factor * row.allowed + 0x1p-20 * (1 + row.largest);
    note_worst(result, error / (of_scores + allowed_of_sum(call, fabs(found))), at);
  }

  // `alike` and `mean_squares`: of the products of weights and values, the sum of the squares of the groups' sums, and
  // `lane.squares` in the mean over the sign vectors.
  __device__ void look_at_products(const RowOfTile& row, const LaneOfRow& lane, double alike, double mean_squares,
                                   const Scales& scales, i64 at, double found, double half_ulps) {
    // Of terms of random sign the unit loses what expected_truncation (ops/matmul/matrix_unit.h) says of sums of 128;
    // of 128 equal ones 0.36 * 32 * (1 + 32 + 64 + 96) / 128 units, which is 2^-8.9 of the sum.
    constexpr double kCutAtRandom = kUnitCut * kUnitCut * 33 / 3 * kKeysAtOnce / 2 / kStep, kCutOfAlike = 0x1.12p-9;
    const double over = lane.weights == 0 ? 0.0 : 1 / lane.weights, sum = lane.products * over;
    const double square = over * over, least = kLeastStep * row.highest * over;
    const double of_score = scales.scores * scales.scores * row.variance +
                            kUnit * kUnit * static_cast<double>(row.largest) * row.largest * 2 / 3;
    const double of_weights = kWeightRoundoff * kWeightRoundoff / 6 * fmax(alike, lane.squares) * square +
                              least * least / 12 * lane.values + lane.lost * lane.lost * square;
    const double of_cuts = kCutAtRandom * mean_squares * square + kCutOfAlike * kCutOfAlike * sum * sum;
    const double noise = of_weights + of_cuts + of_score * (lane.squares * square + sum * sum);
    const double variance = scales.values * scales.values * noise + half_ulps / 3 + 0x1p-300;
    const double residual = fabs(found - scales.values * sum);
    if (!isfinite(residual) || !isfinite(variance)) {
      atomicAdd(&result->not_finite, 1ull);
      return;
    }
    note_worst(result, residual / (kSigmas * sqrt(variance)), at);
    squares += residual * residual / variance;
    count += 1;
  }
};

// Memory of a block that walks over tiles. A product's operands make room for the weights of the tile.
union TileMemory {
  struct {
    float queries[kDepth][kTile + 1], keys[kDepth][kTile + 1];
  } operands;
  float weights[kTile][kTile + 1];
};

// Rows `first` .. `first` + `count` of O; a block for each.
extern "C" __global__ void __launch_bounds__(256, 2)
    attention_fp8_rows(CodesCall codes, i64 first, i64 count, ElementArrays to) {
  __shared__ RowMemory memory;
  const i64 columns = codes.call.o.columns;
  for (i64 row = blockIdx.x; row < count; row += gridDim.x) {
    const Place at = place_of_row(codes.call, first + row);
    const Span keys = keys_of(codes.call, at.query);
    const Scales scales = scales_of(codes, at.batch, at.head, at.kv_head);
    const RowOfScores scores = scores_of_row(codes, at, keys, scales, memory);
    const Element element = element_of_row(codes, at, keys, scales, scores, memory);
    if (threadIdx.x < columns) to.put(row * columns + threadIdx.x, element);
  }
}

// Rows `first` .. `first` + `count` of the log-sum-exp, which are heads; a block for each element.
extern "C" __global__ void __launch_bounds__(256, 2)
    attention_fp8_sums(CodesCall codes, i64 first, i64 count, ElementArrays to) {
  __shared__ RowMemory memory;
  const Call& call = codes.call;
  for (i64 i = blockIdx.x; i < count * call.q_len; i += gridDim.x) {
    const Place at = place_of_sum(call, first, i);
    const Scales scales = scales_of(codes, at.batch, at.head, at.kv_head);
    const RowOfScores scores = scores_of_row(codes, at, keys_of(call, at.query), scales, memory);
    if (threadIdx.x == 0) to.put(i, sum_element(call, scores));
  }
}

// `count` rows of O at secret places, with their log-sum-exp.
extern "C" __global__ void __launch_bounds__(256, 2)
    attention_fp8_samples(CodesCall codes, i64 count, u64 seed, Projection* result) {
  __shared__ RowMemory memory;
  const Call& call = codes.call;
  Looks looks{result};
  for (i64 sample = blockIdx.x; sample < count; sample += gridDim.x) {
    const i64 row = sampled_row(call.o.rows, seed, sample);
    const Place at = place_of_row(call, row);
    const Span keys = keys_of(call, at.query);
    const Scales scales = scales_of(codes, at.batch, at.head, at.kv_head);
    const RowOfScores scores = scores_of_row(codes, at, keys, scales, memory);
    const Element element = element_of_row(codes, at, keys, scales, scores, memory);
    if (threadIdx.x < call.o.columns) looks.look(element, load(call.o, row, threadIdx.x), row);
    if (threadIdx.x == 0) {
      looks.look(sum_element(call, scores), load(call.log_sum_exp, at.batch * call.heads + at.head, at.query), row);
    }
  }
  add_to(result, looks.squares, looks.seen);
}

// v r of every row of v, [kLanes][rows]; a warp for each.
extern "C" __global__ void __launch_bounds__(256) attention_fp8_keys(CodesCall codes, double* to, u64 seed) {
  const Matrix& v = codes.call.v;
  const int lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = blockIdx.x * static_cast<i64>(kWarps) + threadIdx.x / 32; row < v.rows;
       row += gridDim.x * static_cast<i64>(kWarps)) {
    double products[kLanes] = {};
    for (i64 c = lane_of_warp; c < v.columns; c += 32) {
      const double value = load(v, row, c);
      for (int lane = 0; lane < kLanes; ++lane) products[lane] += sign_of(seed, c, lane) * value;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
      for (double& product : products) product += __shfl_xor_sync(~0u, product, offset);
    }
    if (lane_of_warp != 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) to[lane * v.rows + row] = products[lane];
  }
}

// Every row of O and every log-sum-exp. A block takes 64 queries of a head and walks over the keys that they see, 64 at
// a time. A thread makes 4 x 4 of the weights, exp(score - log-sum-exp) by the log-sum-exp that was found: its own
// check is that they add up to 1, and O is divided by their sum. Then a thread has one row and one sign vector, so that
// it has the groups' sums to itself.
extern "C" __global__ void __launch_bounds__(256)
    attention_fp8_project(CodesCall codes, const double* facts, u64 seed, Projection* result) {
  __shared__ TileMemory tile;
  __shared__ double products[kLanes][kTile], found_sums[kTile];
  __shared__ float grouped[kGroups][kThreads];
  __shared__ StepOfCodes query_steps[kTile], key_steps[kTile];
  __shared__ Span spans[kTile];
  __shared__ RowOfTile facts_of_rows[kTile];
  const Call& call = codes.call;
  const i64 tiles = (call.q_len + kTile - 1) / kTile, depth = call.k.columns;
  const float steps = static_cast<float>((depth + kStep - 1) / kStep);
  const int thread = static_cast<int>(threadIdx.x);
  const int own_row = thread / 16 * 4, own_key = thread % 16 * 4;    // of scores
  const int lane_row = thread / kLanes, own_lane = thread % kLanes;  // of sums
  RowVerdict verdict{call, result};
  for (i64 work = blockIdx.x; work < tiles * call.heads * call.batch; work += gridDim.x) {
    const i64 first_query = work % tiles * kTile, head = work / tiles % call.heads, batch = work / tiles / call.heads;
    const i64 kv_head = head / (call.heads / call.kv_heads);
    const Scales scales = scales_of(codes, batch, head, kv_head);
    __syncthreads();
    for (int i = thread; i < kTile; i += kThreads) {
      const i64 query = first_query + i;
      spans[i] = query < call.q_len ? keys_of(call, query) : Span{0, 0};
      found_sums[i] = query < call.q_len ? load(call.log_sum_exp, batch * call.heads + head, query) : 0.0;
    }
    for (int group = 0; group < kGroups; ++group) grouped[group][thread] = 0;
    __syncthreads();
    Span all{call.k_len, 0};
    for (const Span& span : spans) {
      if (span.first == span.end) continue;
      all.first = min(all.first, span.first);
      all.end = max(all.end, span.end);
    }
    RowOfTile rows[4] = {};
    LaneOfRow lane;
    for (i64 first_key = all.first; first_key < all.end; first_key += kTile) {
      float scores[4][4] = {};
      UnitSums cuts;
      for (i64 c0 = 0; c0 < depth; c0 += kDepth) {
        static_assert(kDepth == kStep && kStep == 32, "a warp has the codes of a step");
        __syncthreads();
        for (int i = thread; i < kTile * kDepth; i += kThreads) {
          const int at = i / kDepth, c = i % kDepth;
          const i64 query = first_query + at, key = first_key + at, column = c0 + c;
          const float of_query = query < call.q_len && column < depth
                                     ? static_cast<float>(load(call.q, query_row(call, batch, query, head), column))
                                     : 0.0f;
          const float of_key = key < all.end && column < depth
                                   ? static_cast<float>(load(call.k, key_row(call, batch, key, kv_head), column))
                                   : 0.0f;
          tile.operands.queries[c][at] = of_query;
          tile.operands.keys[c][at] = of_key;
          const StepOfCodes query_step = step_of_codes(of_query), key_step = step_of_codes(of_key);
          if (c == 0) query_steps[at] = query_step;
          if (c == 0) key_steps[at] = key_step;
        }
        if (c0 == 0 && thread < kTile && first_key + thread < all.end) {
          const i64 row = key_row(call, batch, first_key + thread, kv_head);
          for (int i = 0; i < kLanes; ++i) products[i][thread] = facts[i * call.v.rows + row];
        }
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < kDepth; ++c) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              scores[i][j] += tile.operands.queries[c][own_row + i] * tile.operands.keys[c][own_key + j];
            }
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            cuts.end_step(i, j, scores[i][j], query_steps[own_row + i], key_steps[own_key + j]);
          }
        }
      }
      __syncthreads();  // the operands are done with
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Span span = spans[own_row + i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const i64 key = first_key + own_key + j;
          float weight = 0;
          if (key >= span.first && key < span.end) {
            const double score = scales.scores * static_cast<double>(scores[i][j]);
            weight = static_cast<float>(exp(score - found_sums[own_row + i]));
            rows[i].allowed = fmaxf(rows[i].allowed, cuts.allowed(i, j));
            rows[i].variance = fmaxf(rows[i].variance, cuts.variance(i, j, steps));
            rows[i].largest = fmaxf(rows[i].largest, static_cast<float>(fabs(score)));
            rows[i].highest = fmaxf(rows[i].highest, weight);
          }
          tile.weights[own_row + i][own_key + j] = weight;
        }
      }
      __syncthreads();
      for (int key = 0; key < kTile; ++key) {
        const double weight = tile.weights[lane_row][key];
        if (weight == 0) continue;  // mostly one that the row does not see
        const double value = products[own_lane][key], product = weight * value;
        lane.weights += weight;
        lane.products += product;
        lane.squares += product * product;
        lane.values += value * value;
        // As far as is known while the largest weight is not: no weight is above the sum of all.
        if (weight < kLost) {
          lane.lost += product;
        } else {
          grouped[group_of(weight)][thread] += static_cast<float>(product);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const RowOfTile& row = rows[i];
      const RowOfTile most{static_cast<float>(most_of_row(row.allowed)), static_cast<float>(most_of_row(row.variance)),
                           static_cast<float>(most_of_row(row.largest)), static_cast<float>(most_of_row(row.highest))};
      if (thread % 16 == 0) facts_of_rows[own_row + i] = most;
    }
    __syncthreads();
    double mean_squares = lane.squares;
    for (int mask = kLanes / 2; mask > 0; mask >>= 1) mean_squares += __shfl_xor_sync(~0u, mean_squares, mask);
    mean_squares /= kLanes;
    const i64 query = first_query + lane_row, at = query_row(call, batch, query, head);
    if (query >= call.q_len) continue;
    double alike = 0, found = 0, half_ulps = 0;
    for (int group = 0; group < kGroups; ++group) {
      alike += static_cast<double>(grouped[group][thread]) * grouped[group][thread];
    }
    for (i64 c = 0; c < call.o.columns; ++c) {
      const double value = load(call.o, at, c), half = half_ulp(call.o.type, value);
      found += sign_of(seed, c, own_lane) * value;
      half_ulps += half * half;
    }
    const RowOfTile& row = facts_of_rows[lane_row];
    if (own_lane == 0) {
      verdict.look_at_sum(row, spans[lane_row], scales.scores, lane.weights, found_sums[lane_row], at);
    }
    verdict.look_at_products(row, lane, alike, mean_squares, scales, at, found, half_ulps);
  }
  add_to(result, verdict.squares, verdict.count);
}

}  // namespace ridge::attention_fp8_check
