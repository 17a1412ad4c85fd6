// Checks of attention's backward on the GPU, sharing no code with any kernel that is measured:
//
//   attention_backward_project   every row of dQ, dK and dV under four secret sign vectors, as in dk r = scale sum_i
//                                ds_i (q_i r): scores and dO V^T are made again in fp32, tile by tile, the rest in fp64
//   attention_backward_samples   rows of dQ at secret places, element by element, in fp64 throughout
//   attention_backward_special   which heads hold what is not finite, and
//   attention_backward_facts     what the rows of a query have in common, for
//   attention_backward_queries   every element of dQ, and
//   attention_backward_keys      of dK or dV with what it may be off by, as ops/attention/backward/reference.cpp has
//                                it, for the full compare
//
//   attention_backward_sinks     every gradient of a sink, in fp64, for both
//
// check_numbers.cuh and check_pairs.cuh come before this.
namespace ridge::attention_backward_check {

using namespace ridge::attention_check;

struct BackwardCall {
  Call forward;
  Matrix d_o, d_q, d_k, d_v, d_sinks;
};
// Whether a head of a batch element has rows that are not finite: of q, o, dO or the log-sum-exp, and of k or v. Tiles
// multiply zero weights with them, so that by the contract the gradients of the other side may be NaN.
struct SpecialHeads {
  double *queries, *keys;
};

// What a query's weights have in common.
struct QueryFacts {
  double log_sum_exp, delta, delta_size, delta_variance;
  double of_weight;  // what a weight may be off by, relative to itself, but for its rounding
  double score_variance;
};

// A number that is multiplied by an element of a row: how far off it may be, its squared error that no other number of
// the sum shares, and the number itself where a kernel may have 0 for its exponential.
struct Factor {
  double value, error, variance, lost;
};
// One output element.
struct FactorSum {
  double value = 0, magnitude = 0, error = 0, variance = 0, lost = 0;

  __device__ void add(const Factor& factor, double element) {
    const double term = factor.value * element;
    value += term;
    magnitude += fabs(term);
    error += factor.error * fabs(element);
    variance += factor.variance * element * element;
    lost += factor.lost * element;
  }
};

// How numbers of the dtype round.
struct Rounding {
  double relative, least;  // unit roundoff; half the step of the smallest numbers

  __device__ explicit Rounding(i64 type) : relative(half_ulp(type, 1.0)), least(half_ulp(type, 0.0)) {}
  // The squared error of rounding a number that is below the normal ones to the smallest step.
  [[nodiscard]] __device__ double of_step(double x) const {
    return x != 0 && fabs(x) < least / relative ? least * least / 3 : 0.0;
  }
};

__device__ inline double weight_of(double score, double log_sum_exp) {
  return log_sum_exp == -infinity() ? 0.0 : exp(score - log_sum_exp);
}

// The weight of a pair and what its gradient multiplies by.
struct PairFactors {
  Factor weight, slope;

  __device__ PairFactors(const Call& call, const QueryFacts& query, const Dot& products, double off, const Dot& product,
                         const Rounding& to) {
    const Score score = score_of(call, products.sum, off);
    const i64 columns = call.v.columns;
    const double r = to.relative, least = fmax(to.least, kNormal);
    const double noise = r * r / 6 + 2 * query.score_variance;
    const double p = weight_of(score.value, query.log_sum_exp), difference = product.sum - query.delta;
    const double uncapped = p * difference, ds = uncapped * score.slope / call.scale;
    const bool capped = call.cap != 0;
    const double of_product = 16 * kUnit * sqrt(static_cast<double>(columns)) * (product.size + query.delta_size);
    const bool lost = p < kNormal;
    weight = {p, p * (query.of_weight + r) + least, p * p * noise + to.of_step(p), lost ? p : 0.0};
    const double of_slope = capped ? 0x1p-20 + query.of_weight / (2 * call.cap) : 0.0;
    const double slope_variance = capped ? 4 * kUnit * kUnit + query.score_variance / (call.cap * call.cap) : 0.0;
    slope = {ds,
             fabs(ds) * (query.of_weight + r + 4 * kUnit) + p * of_product + fabs(uncapped) * of_slope +
                 kNormal * fabs(difference) + least,
             ds * ds * noise + p * p * (product.variance(columns) + query.delta_variance) + to.of_step(ds) +
                 uncapped * uncapped * slope_variance,
             lost ? ds : 0.0};
  }
};

// `special`: by the contract it may be anything, and what is not finite any such number.
__device__ inline Element finish(const FactorSum& sum, double factor, i64 terms, i64 type, bool special) {
  const double length = 8 * kUnit * sqrt(static_cast<double>(max(terms, 1ll)));
  const double value = factor * sum.value, size = fabs(value);
  if (special) return {value, isfinite(value) ? infinity() : -1.0, infinity(), 0};
  const bool finite = isfinite(value) && isfinite(sum.error) && isfinite(sum.variance);
  const double bound = finite ? factor * (sum.error + length * sum.magnitude) : 0.0;
  const double half = half_ulp(type, isfinite(value) ? size + bound : 0.0);
  const double lost = finite ? factor * fabs(sum.lost) : 0.0;
  return {value, bound + half, (finite ? factor * factor * sum.variance : 0.0) + lost * lost + half * half / 3,
          isfinite(value) ? half_ulp(type, 1.0) * size + lost : 0.0};  // equal factors all round the same way
}

// Memory that a block shares while it works on a row. `x` and `y` are the two rows that pairs are made with.
struct PairMemory {
  double x[kMostColumns], y[kMostColumns];
  Factor factors[kThreads];
  double weights[kThreads];
  double magnitude[kThreads], largest[kThreads], variance[kThreads];
};

// By a block, of the query whose row of q is in `x` and whose row of dO is in `y`.
__device__ inline QueryFacts facts_of(const BackwardCall& call, const Place& at, const Span& keys, PairMemory& memory) {
  const Call& f = call.forward;
  const Distances distances = distances_of_query(f, at.head, at.query);
  double magnitude = 0, largest = 0, variance = 0;
  for (i64 j = keys.first + threadIdx.x; j < keys.end; j += kThreads) {
    const Dot dot = dot_of(memory.x, f.k, key_row(f, at.batch, j, at.kv_head));
    const Score score = score_of(f, dot.sum, distances.off(at.query, j));
    if (!score.counts) continue;
    magnitude = fmax(magnitude, dot.size * f.scale);
    largest = fmax(largest, fabs(score.value));
    variance = fmax(variance, score_variance(f, score, dot));
  }
  memory.magnitude[threadIdx.x] = magnitude;
  memory.largest[threadIdx.x] = largest;
  memory.variance[threadIdx.x] = variance;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    if (i >= half) continue;
    memory.magnitude[i] = fmax(memory.magnitude[i], memory.magnitude[i + half]);
    memory.largest[i] = fmax(memory.largest[i], memory.largest[i + half]);
    memory.variance[i] = fmax(memory.variance[i], memory.variance[i + half]);
  }
  __syncthreads();
  const Dot delta = dot_of(memory.y, f.o, query_row(f, at.batch, at.query, at.head));
  const double log_sum = load(f.log_sum_exp, at.batch * f.heads + at.head, at.query);
  const double shift = isfinite(log_sum) ? fabs(log_sum) : 0.0;
  const double sums = 16 * kUnit * sqrt(static_cast<double>(f.k.columns));
  QueryFacts facts;
  facts.log_sum_exp = log_sum;
  facts.delta = delta.sum;
  facts.delta_size = delta.size;
  facts.delta_variance = delta.variance(f.v.columns);
  facts.of_weight = 2 * (sums * memory.magnitude[0] + 0x1p-20 * (1 + memory.largest[0] + f.cap + shift));
  facts.score_variance = memory.variance[0] + kUnit * kUnit * shift * shift;
  return facts;
}

__device__ inline void read_query(const BackwardCall& call, i64 row, PairMemory& memory) {
  __syncthreads();  // the row before is done with
  read_row(call.forward.q, row, memory.x);
  read_row(call.d_o, row, memory.y);
  __syncthreads();
}

// By a block: thread c has column c of a row of dQ.
__device__ inline Element query_element(const BackwardCall& call, const Place& at, const Span& keys,
                                        const QueryFacts& facts, bool special, PairMemory& memory) {
  const Call& f = call.forward;
  const Rounding rounding(f.q.type);
  const i64 column = threadIdx.x;
  const Distances distances = distances_of_query(f, at.head, at.query);
  FactorSum sum;
  double weighted = 0;  // sum of p k, which an error of delta is multiplied by
  for (i64 first = keys.first; first < keys.end; first += kThreads) {
    const i64 j = first + threadIdx.x;
    __syncthreads();
    if (j < keys.end) {
      const i64 row = key_row(f, at.batch, j, at.kv_head);
      const PairFactors pair(f, facts, dot_of(memory.x, f.k, row), distances.off(at.query, j),
                             dot_of(memory.y, f.v, row), rounding);
      memory.factors[threadIdx.x] = pair.slope;
      memory.weights[threadIdx.x] = pair.weight.value;
    }
    __syncthreads();
    if (column >= f.k.columns) continue;
    const int count = static_cast<int>(min(static_cast<i64>(kThreads), keys.end - first));
    for (int i = 0; i < count; ++i) {
      const double element = load(f.k, key_row(f, at.batch, first + i, at.kv_head), column);
      sum.add(memory.factors[i], element);
      weighted += memory.weights[i] * element;
    }
  }
  // Errors that all keys of a query have in common.
  sum.variance += sum.value * sum.value * facts.score_variance + weighted * weighted * facts.delta_variance;
  return finish(sum, f.scale, f.k_len, f.q.type, special);
}

// ---- Projections

// Of every row of k and v, arrays over those rows; [kLanes] of `products`, k r.
struct BackwardKeys {
  double *products, *k_square, *k_most, *v_square, *v_most;
  double *head_square, *head_most;  // the largest of a head of a batch element
};
// Of every row of q: q r and dO r, the largest of the squares of dO and their sum, and what a gradient needs.
struct BackwardQueries {
  double *q_products, *d_o_products, *d_o_square, *d_o_most, *delta, *delta_variance, *score_variance;
  double *sums, *variances;  // of dq r, [kLanes] of the first; zeros to begin with
};

__device__ inline void raise(double* at, double value) {
  // Numbers from 0 on are ordered as their bits.
  atomicMax(reinterpret_cast<u64*>(at), static_cast<u64>(__double_as_longlong(value)));
}

// A row of a gradient against what it should be under the sign vectors.
__device__ inline void judge_row(const Matrix& found, i64 row, u64 seed, const double* expected, i64 stride,
                                 double factor, double variance, Projection* result, double& squares, double& count) {
  const int lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  const double r = half_ulp(found.type, 1.0);
  double sums[kLanes] = {}, half_ulps = 0;
  for (i64 c = lane_of_warp; c < found.columns; c += 32) {
    const double value = load(found, row, c), half = half_ulp(found.type, value);
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += sign_of(seed, c, lane) * value;
    half_ulps += half * half;
  }
  for (int offset = 16; offset > 0; offset >>= 1) {
    for (double& sum : sums) sum += __shfl_xor_sync(~0u, sum, offset);
    half_ulps += __shfl_xor_sync(~0u, half_ulps, offset);
  }
  if (lane_of_warp != 0) return;
  for (int lane = 0; lane < kLanes; ++lane) {
    const double value = factor * expected[lane * stride], residual = fabs(sums[lane] - value);
    const double all = factor * factor * variance + r * r / 6 * value * value + half_ulps / 3 + 0x1p-300;
    if (!isfinite(residual) || !isfinite(all)) {
      atomicAdd(&result->not_finite, 1ull);
      continue;
    }
    note_worst(result, residual / (kSigmas * sqrt(all)), row);
    squares += residual * residual / all;
    count += 1;
  }
}

// Nothing special; one block.
extern "C" __global__ void attention_backward_clear(SpecialHeads special, i64 queries, i64 keys) {
  for (i64 i = threadIdx.x; i < queries; i += blockDim.x) special.queries[i] = 0;
  for (i64 i = threadIdx.x; i < keys; i += blockDim.x) special.keys[i] = 0;
}

// Heads with rows that are not finite; a warp for each row of q, and of k.
extern "C" __global__ void __launch_bounds__(256) attention_backward_special(BackwardCall call, SpecialHeads special) {
  const Call& f = call.forward;
  const i64 lane_of_warp = threadIdx.x % 32;
  const auto finite = [&](const Matrix& x, i64 row) {
    bool all = true;
    for (i64 c = lane_of_warp; c < x.columns; c += 32) all = all && isfinite(load(x, row, c));
    return all;
  };
  for (i64 unit = blockIdx.x * static_cast<i64>(kWarps) + threadIdx.x / 32; unit < f.q.rows + f.k.rows;
       unit += gridDim.x * static_cast<i64>(kWarps)) {
    if (unit < f.q.rows) {
      const Place at = place_of_row(f, unit);
      const bool sum = load(f.log_sum_exp, at.batch * f.heads + at.head, at.query) < infinity();
      const bool factors = sum && isfinite(slope_of(f, at.head));
      if (factors && finite(f.q, unit) && finite(f.o, unit) && finite(call.d_o, unit)) continue;
      special.queries[at.batch * f.heads + at.head] = 1;
    } else {
      const i64 row = unit - f.q.rows;
      if (finite(f.k, row) && finite(f.v, row)) continue;
      special.keys[row / f.kv_heads / f.k_len * f.kv_heads + row % f.kv_heads] = 1;
    }
  }
}

// Rows `first` .. `first` + `count` of dQ; a block for each.
extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_queries(BackwardCall call, SpecialHeads special, i64 first, i64 count, ElementArrays to) {
  __shared__ PairMemory memory;
  for (i64 row = blockIdx.x; row < count; row += gridDim.x) {
    const Place at = place_of_row(call.forward, first + row);
    const Span keys = keys_of(call.forward, at.query);
    read_query(call, first + row, memory);
    const QueryFacts facts = facts_of(call, at, keys, memory);
    const bool spoilt = special.keys[at.batch * call.forward.kv_heads + at.kv_head] != 0;
    const Element element = query_element(call, at, keys, facts, spoilt, memory);
    if (threadIdx.x < call.d_q.columns) to.put(row * call.d_q.columns + threadIdx.x, element);
  }
}

// Of every query; a block for each.
extern "C" __global__ void __launch_bounds__(256, 1) attention_backward_facts(BackwardCall call, QueryFacts* to) {
  __shared__ PairMemory memory;
  for (i64 row = blockIdx.x; row < call.forward.q.rows; row += gridDim.x) {
    const Place at = place_of_row(call.forward, row);
    read_query(call, row, memory);
    const QueryFacts facts = facts_of(call, at, keys_of(call.forward, at.query), memory);
    if (threadIdx.x == 0) to[row] = facts;
  }
}

// Rows `first` .. `first` + `count` of dV, or of dK; a block for each, thread c has column c.
extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_keys(BackwardCall call, SpecialHeads special, const QueryFacts* facts, i64 of_values, i64 first,
                            i64 count, ElementArrays to) {
  __shared__ PairMemory memory;
  const Call& f = call.forward;
  const Rounding rounding(f.q.type);
  const Matrix& other = of_values != 0 ? call.d_o : f.q;
  const i64 group = f.heads / f.kv_heads, column = threadIdx.x;
  for (i64 row = blockIdx.x; row < count; row += gridDim.x) {
    const i64 kv_head = (first + row) % f.kv_heads, position = (first + row) / f.kv_heads;
    const i64 batch = position / f.k_len;
    const i64 key = position % f.k_len, ahead = ahead_of(sequence_of(f, f.k_offsets, key));
    const Span queries = queries_of(f, key);
    __syncthreads();
    read_row(f.k, first + row, memory.x);
    read_row(f.v, first + row, memory.y);
    FactorSum sum;
    bool spoilt = false;
    for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      spoilt = spoilt || special.queries[batch * f.heads + head] != 0;
      const Distances distances{slope_of(f, head), ahead};
      for (i64 begin = queries.first; begin < queries.end; begin += kThreads) {
        __syncthreads();
        if (begin + threadIdx.x < queries.end) {
          const i64 query = query_row(f, batch, begin + threadIdx.x, head);
          const PairFactors pair(f, facts[query], dot_of(memory.x, f.q, query), distances.off(begin + threadIdx.x, key),
                                 dot_of(memory.y, call.d_o, query), rounding);
          memory.factors[threadIdx.x] = of_values != 0 ? pair.weight : pair.slope;
        }
        __syncthreads();
        if (column >= other.columns) continue;
        const int seen = static_cast<int>(min(static_cast<i64>(kThreads), queries.end - begin));
        for (int i = 0; i < seen; ++i) {
          sum.add(memory.factors[i], load(other, query_row(f, batch, begin + i, head), column));
        }
      }
    }
    if (column < other.columns) {
      to.put(row * other.columns + column,
             finish(sum, of_values != 0 ? 1.0 : f.scale, f.q_len * group, f.q.type, spoilt));
    }
  }
}

// `count` rows of dQ at secret places.
extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_samples(BackwardCall call, i64 count, u64 seed, Projection* result) {
  __shared__ PairMemory memory;
  double squares = 0, seen = 0;
  for (i64 sample = blockIdx.x; sample < count; sample += gridDim.x) {
    const i64 row = sampled_row(call.d_q.rows, seed, sample);
    const Place at = place_of_row(call.forward, row);
    const Span keys = keys_of(call.forward, at.query);
    read_query(call, row, memory);
    const QueryFacts facts = facts_of(call, at, keys, memory);
    const Element want = query_element(call, at, keys, facts, false, memory);
    if (threadIdx.x >= call.d_q.columns) continue;
    const double error = fabs(load(call.d_q, row, threadIdx.x) - want.value);
    if (!isfinite(error)) {
      atomicAdd(&result->not_finite, 1ull);
      continue;
    }
    note_worst(result, error / want.allowed, row);
    squares += error * error / want.variance;
    seen += 1;
  }
  add_to(result, squares, seen);
}

// What projections know beforehand of every row of k and v; a warp for each.
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_key_rows(BackwardCall call, BackwardKeys to, u64 seed) {
  const Call& f = call.forward;
  const i64 lane_of_warp = threadIdx.x % 32, rows = f.k.rows;
  for (i64 row = blockIdx.x * static_cast<i64>(kWarps) + threadIdx.x / 32; row < rows;
       row += gridDim.x * static_cast<i64>(kWarps)) {
    double products[kLanes] = {}, k_square = 0, k_most = 0, v_square = 0, v_most = 0;
    for (i64 c = lane_of_warp; c < f.k.columns; c += 32) {
      const double value = load(f.k, row, c);
      for (int lane = 0; lane < kLanes; ++lane) products[lane] += sign_of(seed, c, lane) * value;
      k_square += value * value;
      k_most = fmax(k_most, value * value);
    }
    for (i64 c = lane_of_warp; c < f.v.columns; c += 32) {
      const double value = load(f.v, row, c);
      v_square += value * value;
      v_most = fmax(v_most, value * value);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
      for (double& product : products) product += __shfl_xor_sync(~0u, product, offset);
      k_square += __shfl_xor_sync(~0u, k_square, offset);
      v_square += __shfl_xor_sync(~0u, v_square, offset);
      k_most = fmax(k_most, __shfl_xor_sync(~0u, k_most, offset));
      v_most = fmax(v_most, __shfl_xor_sync(~0u, v_most, offset));
    }
    if (lane_of_warp != 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) to.products[lane * rows + row] = products[lane];
    to.k_square[row] = k_square;
    to.k_most[row] = k_most;
    to.v_square[row] = v_square;
    to.v_most[row] = v_most;
    const i64 head = row / f.kv_heads / f.k_len * f.kv_heads + row % f.kv_heads;
    if (isfinite(k_square)) {
      raise(to.head_square + head, k_square);
      raise(to.head_most + head, k_most);
    }
  }
}

// The most that a slope takes off a score of a query.
__device__ inline double largest_off(const Call& call, const Place& at) {
  const Distances distances = distances_of_query(call, at.head, at.query);
  const Span keys = keys_of(call, at.query);
  if (keys.first == keys.end) return 0;
  return fmax(fabs(distances.off(at.query, keys.first)), fabs(distances.off(at.query, keys.end - 1)));
}

// And of every row of q and dO, behind the rows of k.
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_query_rows(BackwardCall call, BackwardKeys keys, BackwardQueries to, u64 seed) {
  const Call& f = call.forward;
  const i64 lane_of_warp = threadIdx.x % 32, rows = f.q.rows;
  for (i64 row = blockIdx.x * static_cast<i64>(kWarps) + threadIdx.x / 32; row < rows;
       row += gridDim.x * static_cast<i64>(kWarps)) {
    double q_products[kLanes] = {}, d_o_products[kLanes] = {}, q_square = 0, q_most = 0, d_o_square = 0, d_o_most = 0;
    Dot delta;
    for (i64 c = lane_of_warp; c < f.q.columns; c += 32) {
      const double value = load(f.q, row, c);
      for (int lane = 0; lane < kLanes; ++lane) q_products[lane] += sign_of(seed, c, lane) * value;
      q_square += value * value;
      q_most = fmax(q_most, value * value);
    }
    for (i64 c = lane_of_warp; c < f.v.columns; c += 32) {
      const double value = load(call.d_o, row, c);
      for (int lane = 0; lane < kLanes; ++lane) d_o_products[lane] += sign_of(seed, c, lane) * value;
      d_o_square += value * value;
      d_o_most = fmax(d_o_most, value * value);
      delta.add(value, load(f.o, row, c));
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
      for (double& product : q_products) product += __shfl_xor_sync(~0u, product, offset);
      for (double& product : d_o_products) product += __shfl_xor_sync(~0u, product, offset);
      q_square += __shfl_xor_sync(~0u, q_square, offset);
      d_o_square += __shfl_xor_sync(~0u, d_o_square, offset);
      delta.sum += __shfl_xor_sync(~0u, delta.sum, offset);
      delta.squares += __shfl_xor_sync(~0u, delta.squares, offset);
      q_most = fmax(q_most, __shfl_xor_sync(~0u, q_most, offset));
      d_o_most = fmax(d_o_most, __shfl_xor_sync(~0u, d_o_most, offset));
    }
    if (lane_of_warp != 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      to.q_products[lane * rows + row] = q_products[lane];
      to.d_o_products[lane * rows + row] = d_o_products[lane];
    }
    to.d_o_square[row] = d_o_square;
    to.d_o_most[row] = d_o_most;
    to.delta[row] = delta.sum;
    to.delta_variance[row] = delta.variance(f.v.columns);
    // Of scores as large as they can be.
    const Place at = place_of_row(f, row);
    const i64 head = at.batch * f.kv_heads + at.kv_head;
    const double score = sqrt(q_square * keys.head_square[head]);
    Dot largest;
    largest.sum = score;
    largest.squares = fmin(q_most * keys.head_square[head], q_square * keys.head_most[head]);
    const double shift = load(f.log_sum_exp, at.batch * f.heads + at.head, at.query);
    const double scaled = f.cap == 0 ? score * f.scale : fmin(score * f.scale, f.cap), off = largest_off(f, at);
    to.score_variance[row] = f.scale * f.scale * largest.variance(f.k.columns) +
                             rounding_variance(f, scaled + off, off) +
                             (isfinite(shift) ? kUnit * kUnit * shift * shift : 0.0);
  }
}

// Every row of dK and dV, and the sums of dQ. A block takes 64 keys of a head and walks over the queries that see
// them, 64 at a time; a thread has 4 x 4 of the pairs.
extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_project(BackwardCall call, BackwardKeys keys, BackwardQueries queries, u64 seed,
                               Projection* result) {
  __shared__ float left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  __shared__ double k_products[kLanes][kTile], v_square[kTile], v_most[kTile];
  __shared__ double q_products[kLanes][kTile], d_o_products[kLanes][kTile];
  __shared__ double d_o_square[kTile], d_o_most[kTile], delta[kTile], delta_variance[kTile], score_variance[kTile],
      log_sum_exp[kTile];
  __shared__ double sums[2][kLanes][kTile], variances[2][kTile];  // of dK and dV
  __shared__ Span spans[kTile];
  __shared__ i64 ahead[kTile];
  const Call& f = call.forward;
  const Rounding rounding(f.q.type);
  const i64 tiles = (f.k_len + kTile - 1) / kTile, group = f.heads / f.kv_heads;
  const int thread = static_cast<int>(threadIdx.x), own_query = thread / 16 * 4, own_key = thread % 16 * 4;
  double squares = 0, count = 0;
  for (i64 work = blockIdx.x; work < tiles * f.batch * f.kv_heads; work += gridDim.x) {
    const i64 first_key = work % tiles * kTile, kv_head = work / tiles % f.kv_heads, batch = work / tiles / f.kv_heads;
    __syncthreads();
    for (int i = thread; i < kTile; i += kThreads) {
      const bool there = first_key + i < f.k_len;
      const i64 row = key_row(f, batch, first_key + i, kv_head);
      for (int lane = 0; lane < kLanes; ++lane) {
        k_products[lane][i] = there ? keys.products[lane * f.k.rows + row] : 0;
        sums[0][lane][i] = sums[1][lane][i] = 0;
      }
      v_square[i] = there ? keys.v_square[row] : 0;
      v_most[i] = there ? keys.v_most[row] : 0;
      variances[0][i] = variances[1][i] = 0;
      spans[i] = there ? queries_of(f, first_key + i) : Span{0, 0};
      ahead[i] = there ? ahead_of(sequence_of(f, f.k_offsets, first_key + i)) : 0;
    }
    __syncthreads();
    Span all{f.q_len, 0};
    for (const Span& span : spans) {
      if (span.first == span.end) continue;
      all.first = min(all.first, span.first);
      all.end = max(all.end, span.end);
    }
    double of_keys[2][kLanes][4] = {}, of_variances[2][4] = {};
    for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const double slope_of_distances = slope_of(f, head);
      for (i64 first_query = all.first; first_query < all.end; first_query += kTile) {
        float scores[4][4], sum[4][4] = {};  // of q k, and then of dO v
#pragma unroll 1
        for (int which = 0; which < 2; ++which) {
          const Matrix& x = which == 0 ? f.q : call.d_o;
          const Matrix& y = which == 0 ? f.k : f.v;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              scores[i][j] = sum[i][j];  // of the turn before
              sum[i][j] = 0;
            }
          }
          for (i64 c0 = 0; c0 < x.columns; c0 += kDepth) {
            __syncthreads();
            for (int i = thread; i < kTile * kDepth; i += kThreads) {
              const int at = i / kDepth, c = i % kDepth;
              const i64 query = first_query + at, key = first_key + at, column = c0 + c;
              left[c][at] = query < all.end && column < x.columns
                                ? static_cast<float>(load(x, query_row(f, batch, query, head), column))
                                : 0.0f;
              right[c][at] = key < f.k_len && column < x.columns
                                 ? static_cast<float>(load(y, key_row(f, batch, key, kv_head), column))
                                 : 0.0f;
            }
            if (which == 0 && c0 == 0 && thread < kTile && first_query + thread < all.end) {
              const i64 query = first_query + thread, row = query_row(f, batch, query, head);
              for (int lane = 0; lane < kLanes; ++lane) {
                q_products[lane][thread] = queries.q_products[lane * f.q.rows + row];
                d_o_products[lane][thread] = queries.d_o_products[lane * f.q.rows + row];
              }
              d_o_square[thread] = queries.d_o_square[row];
              d_o_most[thread] = queries.d_o_most[row];
              delta[thread] = queries.delta[row];
              delta_variance[thread] = queries.delta_variance[row];
              score_variance[thread] = queries.score_variance[row];
              log_sum_exp[thread] = load(f.log_sum_exp, batch * f.heads + head, query);
            }
            __syncthreads();
#pragma unroll 8
            for (int c = 0; c < kDepth; ++c) {
#pragma unroll
              for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += left[c][own_query + i] * right[c][own_key + j];
              }
            }
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int q = own_query + i;
          const i64 query = first_query + q;
          const double noise = rounding.relative * rounding.relative / 6 + 4 * score_variance[q];
          const double slope_noise = f.cap == 0 ? 0.0 : 4 * kUnit * kUnit + 2 * score_variance[q] / (f.cap * f.cap);
          double of_query[kLanes] = {}, of_variance = 0, of_delta = 0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int k = own_key + j;
            if (query < spans[k].first || query >= spans[k].end) continue;
            const double off = Distances{slope_of_distances, ahead[k]}.off(query, first_key + k);
            const Score score = score_of(f, static_cast<double>(scores[i][j]), off);
            const double p = weight_of(score.value, log_sum_exp[q]);
            const double product = sum[i][j], uncapped = p * (product - delta[q]);
            const double ds = f.cap == 0 ? uncapped : uncapped * score.slope / f.scale;
            Dot of_product;
            of_product.sum = product;
            of_product.squares = fmin(d_o_most[q] * v_square[k], d_o_square[q] * v_most[k]);
            const double p_variance = p * p * noise + rounding.of_step(p);
            const double ds_variance = ds * ds * noise +
                                       p * p * (2 * of_product.variance(f.v.columns) + delta_variance[q]) +
                                       rounding.of_step(ds) + uncapped * uncapped * slope_noise;
            double k_squares = 0, q_squares = 0, d_o_squares = 0;
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane) {
              const double of_k = k_products[lane][k], of_q = q_products[lane][q], of_d_o = d_o_products[lane][q];
              of_query[lane] += ds * of_k;
              of_keys[0][lane][j] += ds * of_q;
              of_keys[1][lane][j] += p * of_d_o;
              k_squares += of_k * of_k / kLanes;
              q_squares += of_q * of_q / kLanes;
              d_o_squares += of_d_o * of_d_o / kLanes;
            }
            of_variance += ds_variance * k_squares;
            of_delta += p * k_squares;
            of_variances[0][j] += ds_variance * q_squares;
            of_variances[1][j] += p_variance * d_o_squares;
          }
          of_variance = sum_of_row(of_variance + of_delta * delta_variance[q]);
          for (double& sum : of_query) sum = sum_of_row(sum);
          if (own_key != 0 || query >= all.end) continue;
          const i64 row = query_row(f, batch, query, head);
          for (int lane = 0; lane < kLanes; ++lane) atomicAdd(&queries.sums[lane * f.q.rows + row], of_query[lane]);
          atomicAdd(&queries.variances[row], of_variance);
        }
      }
    }
    for (int output = 0; output < 2; ++output) {
      for (int j = 0; j < 4; ++j) {
        for (int lane = 0; lane < kLanes; ++lane) {
          atomicAdd(&sums[output][lane][own_key + j], of_keys[output][lane][j]);
        }
        atomicAdd(&variances[output][own_key + j], of_variances[output][j]);
      }
    }
    __syncthreads();
    for (int i = thread / 32; i < kTile && first_key + i < f.k_len; i += kWarps) {
      const i64 row = key_row(f, batch, first_key + i, kv_head);
      judge_row(call.d_k, row, seed, &sums[0][0][i], kTile, f.scale, variances[0][i], result, squares, count);
      judge_row(call.d_v, row, seed, &sums[1][0][i], kTile, 1.0, variances[1][i], result, squares, count);
    }
  }
  add_to(result, squares, count);
}

// Every row of dQ, from the sums of attention_backward_project; a warp for each.
extern "C" __global__ void __launch_bounds__(256)
    attention_backward_judge(BackwardCall call, BackwardQueries queries, u64 seed, Projection* result) {
  double squares = 0, count = 0;
  for (i64 row = blockIdx.x * static_cast<i64>(kWarps) + threadIdx.x / 32; row < call.d_q.rows;
       row += gridDim.x * static_cast<i64>(kWarps)) {
    judge_row(call.d_q, row, seed, queries.sums + row, call.d_q.rows, call.forward.scale, queries.variances[row],
              result, squares, count);
  }
  add_to(result, squares, count);
}

// ---- Gradients of sinks

struct SinkMemory {
  double value[kThreads], magnitude[kThreads], error[kThreads], variance[kThreads], squares[kThreads];
};

// By a block, of a head. With `deltas`, memory for a number of every query, rows of the same weight and the same D are
// off by the same, so that their errors add up like the terms; without, the variance is left out.
__device__ inline Element sink_element(const BackwardCall& call, i64 head, double* deltas, SinkMemory& memory) {
  const Call& f = call.forward;
  const double sink = sink_of(f, head), columns = static_cast<double>(f.v.columns);
  const i64 rows = f.batch * f.q_len;
  const auto row_of = [&](i64 i) { return query_row(f, i / f.q_len, i % f.q_len, head); };
  const auto log_sum_of = [&](i64 i) { return load(f.log_sum_exp, i / f.q_len * f.heads + head, i % f.q_len); };
  if (deltas != nullptr) {
    for (i64 i = threadIdx.x; i < rows; i += kThreads) {
      double sum = 0;
      for (i64 c = 0; c < f.v.columns; ++c) sum += load(call.d_o, row_of(i), c) * load(f.o, row_of(i), c);
      deltas[row_of(i)] = sum;
    }
  }
  __syncthreads();
  double value = 0, magnitude = 0, error = 0, variance = 0, squares = 0;
  for (i64 i = threadIdx.x; i < rows; i += kThreads) {
    const i64 row = row_of(i);
    Dot delta;
    for (i64 c = 0; c < f.v.columns; ++c) delta.add(load(call.d_o, row, c), load(f.o, row, c));
    const double log_sum = log_sum_of(i), weight = weight_of(sink, log_sum);
    const double size = weight == 0 ? 1.0 : 1 + fabs(sink) + fabs(log_sum), term = weight * delta.sum;
    value -= term;
    magnitude += fabs(term);
    error += (0x1p-19 * size * weight + kNormal) * fabs(delta.sum) + weight * 16 * kUnit * sqrt(columns) * delta.size;
    squares += term * term;
    if (deltas == nullptr || !isfinite(term)) continue;
    double equal = 0;
    for (i64 other = 0; other < rows; ++other) {
      equal += deltas[row_of(other)] == delta.sum && log_sum_of(other) == log_sum ? 1 : 0;
    }
    variance += equal * weight * weight *
                (kUnit * kUnit * (2 * size * size + columns) * delta.sum * delta.sum + delta.variance(f.v.columns));
  }
  memory.value[threadIdx.x] = value;
  memory.magnitude[threadIdx.x] = magnitude;
  memory.error[threadIdx.x] = error;
  memory.variance[threadIdx.x] = variance;
  memory.squares[threadIdx.x] = squares;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x);
    if (i >= half) continue;
    memory.value[i] += memory.value[i + half];
    memory.magnitude[i] += memory.magnitude[i + half];
    memory.error[i] += memory.error[i + half];
    memory.variance[i] += memory.variance[i + half];
    memory.squares[i] += memory.squares[i + half];
  }
  __syncthreads();
  const double all = memory.value[0];
  if (!isfinite(all) || !isfinite(memory.error[0])) return {all, -1.0, infinity(), 0};
  Dot sum;
  sum.sum = all;
  sum.squares = memory.squares[0];
  const double bound = memory.error[0] + 8 * kUnit * sqrt(static_cast<double>(max(rows, 1ll))) * memory.magnitude[0];
  return {all, bound + half_ulp(kF32, fabs(all) + bound), memory.variance[0] + sum.variance(rows),
          0x1p-21 * memory.magnitude[0]};  // the shift is of the exponential
}

// All of them; a block for each.
extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_sinks(BackwardCall call, double* deltas, ElementArrays to) {
  __shared__ SinkMemory memory;
  for (i64 head = blockIdx.x; head < call.forward.heads; head += gridDim.x) {
    const Element element = sink_element(call, head, deltas, memory);
    if (threadIdx.x == 0) to.put(head, element);
    __syncthreads();  // the memory is another head's now
  }
}
extern "C" __global__ void __launch_bounds__(256, 1)
    attention_backward_judge_sinks(BackwardCall call, Projection* result) {
  __shared__ SinkMemory memory;
  for (i64 head = blockIdx.x; head < call.forward.heads; head += gridDim.x) {
    const Element want = sink_element(call, head, nullptr, memory);
    if (threadIdx.x == 0) judged(result, load(call.d_sinks, 0, head), want.value, want.allowed, 1.0, head);
    __syncthreads();  // the memory is another head's now
  }
}

}  // namespace ridge::attention_backward_check
