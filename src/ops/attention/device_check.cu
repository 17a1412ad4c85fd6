// Checks of attention on the GPU, sharing no code with any kernel that is measured:
//
//   attention_project   every row of O under four secret sign vectors, o r against sum_j w_j (v_j r), and every
//                       log-sum-exp: scores are made again in fp32, tile by tile, weights and sums in fp64
//   attention_samples   rows at secret places, element by element, in fp64 throughout
//   attention_rows      every element with what it may be off by, as ops/attention/reference.cpp has it, for the full
//   attention_sums      compare; and every log-sum-exp
//
// check_numbers.cuh and check_pairs.cuh come before this.
namespace ridge::attention_check {

// What is known of a row of scores.
struct RowOfScores {
  double log_sum_exp, unit;     // unit: the largest weight
  double error, variance, cut;  // of the scores; cut: what a matrix unit takes off towards zero
  bool broken;                  // a score, or the sink, is NaN or +infinity
  bool empty;                   // it sees nothing
};

// Exponentials of scores over the largest, with that of the sink: over the larger of both.
struct Total {
  double top, of_scores, sum;  // of_scores: what exponentials over the largest score are multiplied by
  __device__ Total(double most, double scores, double sink) {
    top = fmax(most, sink);
    of_scores = exp(most - top);
    sum = scores * of_scores + exp(sink - top);
  }
};

// Memory that a block shares while it works on a row.
struct RowMemory {
  double query[kMostColumns], weights[kThreads];
  Exponentials exponentials[kThreads];
  double magnitude[kThreads], largest[kThreads], variance[kThreads], cut[kThreads];
};

// By a block: two passes over its keys, of which this is the first.
__device__ inline RowOfScores scores_of_row(const Call& call, const Place& at, const Span& keys, RowMemory& memory) {
  __syncthreads();  // the row before is done with
  read_row(call.q, query_row(call, at.batch, at.query, at.head), memory.query);
  __syncthreads();
  const Distances distances = distances_of_query(call, at.head, at.query);
  Exponentials exponentials{-infinity(), 0};
  double magnitude = 0, largest = 0, variance = 0, cut = 0;
  for (i64 j = keys.first + threadIdx.x; j < keys.end; j += kThreads) {
    const Dot dot = dot_of(memory.query, call.k, key_row(call, at.batch, j, at.kv_head));
    const Score all = score_of(call, dot.sum, distances.off(at.query, j));
    const double score = all.value;
    if (score == -infinity()) continue;
    if (isfinite(score)) {
      if (all.counts) {
        magnitude = fmax(magnitude, dot.size * call.scale);
        largest = fmax(largest, fabs(score));
        variance = fmax(variance, score_variance(call, all, dot));
        cut = fmax(cut, dot.cut(call.k.columns) * all.slope);
      }
      exponentials.add(score);
    } else {
      exponentials.sum = not_a_number();
    }
  }
  memory.exponentials[threadIdx.x] = exponentials;
  memory.magnitude[threadIdx.x] = magnitude;
  memory.largest[threadIdx.x] = largest;
  memory.variance[threadIdx.x] = variance;
  memory.cut[threadIdx.x] = cut;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    const int i = static_cast<int>(threadIdx.x), other = i + half;
    if (i >= half) continue;
    memory.exponentials[i].add(memory.exponentials[other]);
    memory.magnitude[i] = fmax(memory.magnitude[i], memory.magnitude[other]);
    memory.largest[i] = fmax(memory.largest[i], memory.largest[other]);
    memory.variance[i] = fmax(memory.variance[i], memory.variance[other]);
    memory.cut[i] = fmax(memory.cut[i], memory.cut[other]);
  }
  __syncthreads();
  RowOfScores row;
  const double sink = sink_of(call, at.head);
  const Total total(memory.exponentials[0].most, memory.exponentials[0].sum, sink);
  row.empty = memory.exponentials[0].sum == 0;
  row.broken = !row.empty && (total.sum != total.sum || sink == infinity());
  row.log_sum_exp = row.empty ? sink : row.broken ? not_a_number() : total.top + log(total.sum);
  row.unit = row.empty || row.broken ? 0 : 1 / total.sum;
  largest = memory.largest[0];
  row.variance = memory.variance[0];
  row.cut = memory.cut[0];
  if (exp(sink - row.log_sum_exp) >= kNormal) {
    largest = fmax(largest, fabs(sink));
    row.variance = fmax(row.variance, kUnit * kUnit * sink * sink * 2 / 3);
  }
  row.error =
      16 * kUnit * sqrt(static_cast<double>(call.k.columns)) * memory.magnitude[0] + 0x1p-20 * (1 + largest + call.cap);
  return row;
}

// By a block: thread c has column c of the row of O.
__device__ inline Element element_of_row(const Call& call, const Place& at, const Span& keys, const RowOfScores& row,
                                         RowMemory& memory) {
  const i64 type = call.o.type, column = threadIdx.x;
  const double r = half_ulp(type, 1.0), least_step = 2 * half_ulp(type, 0.0) * row.unit;
  const Distances distances = distances_of_query(call, at.head, at.query);
  double sum = 0, magnitude = 0, squares = 0, values = 0, lost = 0, of_steps = 0;
  for (i64 first = keys.first; first < keys.end; first += kThreads) {
    const i64 j = first + threadIdx.x;
    __syncthreads();
    if (j < keys.end) {
      const Dot dot = dot_of(memory.query, call.k, key_row(call, at.batch, j, at.kv_head));
      const Score score = score_of(call, dot.sum, distances.off(at.query, j));
      memory.weights[threadIdx.x] = row.empty ? 0.0 : exp(score.value - row.log_sum_exp);
    }
    __syncthreads();
    if (column >= call.v.columns) continue;
    const int count = static_cast<int>(min(static_cast<i64>(kThreads), keys.end - first));
    for (int i = 0; i < count; ++i) {
      const double weight = memory.weights[i],
                   value = load(call.v, key_row(call, at.batch, first + i, at.kv_head), column), term = weight * value;
      sum += term;
      magnitude += fabs(term);
      squares += term * term;
      values += fabs(value);
      if (weight < kNormal * row.unit) {
        lost += term;
      } else if (weight < least_step / (2 * r)) {
        of_steps += value * value;
      }
    }
  }
  if (isinf(sum)) return {sum, -1.0, infinity(), 0};  // a weight that a kernel rounds to zero makes a NaN of it
  if (!isfinite(sum)) magnitude = squares = values = lost = of_steps = 0;
  if (isfinite(sum) && column < call.v.columns && meets_special(call, at, keys, column)) {
    return {sum, infinity(), infinity(), 0};
  }
  const double relative = r + 2 * row.error + 8 * kUnit * sqrt(static_cast<double>(max(call.k_len, 1ll)));
  const double bound = relative * magnitude + fmax(kNormal * row.unit, least_step / 2) * values;
  const double half = half_ulp(type, isfinite(sum) ? fabs(sum) + bound : 0.0);
  // A weight's rounding is uniform within its ulp, whose size runs from r to 2 r of it: r^2 / 6 on average.
  const double noise = r * r * squares / 6 + row.variance * (squares + sum * sum) +
                       least_step * least_step * of_steps / 12 + lost * lost;
  return {sum, bound + half, half * half / 3 + (isfinite(noise) ? noise : 0.0),
          isfinite(sum) ? r * fabs(sum) + fabs(lost) : 0.0};
}

__device__ inline Element sum_element(const Call& call, const RowOfScores& row) {
  const double size = isfinite(row.log_sum_exp) ? fabs(row.log_sum_exp) : 0.0;
  const double step = 2 * half_ulp(kF32, size) + 0x1p-23;
  // The shift is of the matrix unit, the exponential and the logarithm.
  return {row.log_sum_exp, row.error + 0x1p-20 + 4 * kUnit * size, step * step / 4 + row.variance + row.cut * row.cut,
          row.cut + 0x1p-21 + 2 * kUnit * (size + call.cap)};
}

// What a projection knows beforehand of every row of k and v; arrays over those rows, [kLanes] of the first.
struct KeyFacts {
  double *products, *square, *most;  // v r; sum and largest of the squares of a row of k
};

// What a thread gathers of one row of a tile: weights over the largest so far.
struct RowOfTile {
  double most = -infinity(), sum = 0, products[kLanes] = {}, squares = 0, of_steps = 0;
  double largest = 0, given = 0, off = 0, key_square = 0, dot_squares = 0;  // given: the largest before a softcap

  __device__ void rescale(double next) {
    const double factor = most == -infinity() ? 0.0 : exp(most - next);
    most = next;
    sum *= factor;
    squares *= factor * factor;
    of_steps *= factor * factor;
    for (double& product : products) product *= factor;
  }
  __device__ void add_up() {
    sum = sum_of_row(sum);
    squares = sum_of_row(squares);
    of_steps = sum_of_row(of_steps);
    for (double& product : products) product = sum_of_row(product);
    largest = most_of_row(largest);
    given = most_of_row(given);
    off = most_of_row(off);
    key_square = most_of_row(key_square);
    dot_squares = most_of_row(dot_squares);
  }
};

// Of one row, by the thread that speaks for it.
struct RowVerdict {
  const Call& call;
  Projection* result;
  double squares = 0, count = 0;

  __device__ void look_at_sum(const RowOfTile& row, double sink, double query_square, i64 at, double found) {
    const Total total(row.most, row.sum, sink);
    const double expected = row.sum == 0 ? sink : total.top + log(total.sum);
    if (expected == -infinity()) {
      if (found != expected) note_worst(result, 2.0, at);
      return;
    }
    const double error = fabs(found - expected);
    if (!isfinite(error)) {
      atomicAdd(&result->not_finite, 1ull);
      return;
    }
    const double magnitude = sqrt(query_square * row.key_square) * call.scale;
    const double of_scores =
        16 * kUnit * sqrt(static_cast<double>(call.k.columns)) * magnitude +
        0x1p-20 * (1 + call.cap + (exp(sink - expected) < kNormal ? row.largest : fmax(row.largest, fabs(sink))));
    // Once for what is checked and once for the scores that it is checked by.
    note_worst(result, error / (2 * of_scores + 0x1p-20 + 4 * kUnit * fabs(expected)), at);
  }

  __device__ void look_at_products(const RowOfTile& row, double sink, i64 at, const double (&found)[kLanes],
                                   double half_ulps) {
    const double r = half_ulp(call.o.type, 1.0), least = 2 * half_ulp(call.o.type, 0.0);
    const Total total(row.most, row.sum, sink);
    const double over = row.sum == 0 ? 0.0 : total.of_scores / total.sum, score = row.given / call.scale;
    const double n = static_cast<double>(call.k.columns), half = half_ulp(kF32, score);
    const double of_score =
        (kUnit * kUnit * n * (row.dot_squares / 12 + score * score / 18) + half * half / 3) * call.scale * call.scale +
        rounding_variance(call, row.largest, row.off) +
        (sink == -infinity() ? 0.0 : kUnit * kUnit * sink * sink * 2 / 3);
    for (int lane = 0; lane < kLanes; ++lane) {
      const double expected = row.products[lane] * over, spread = row.squares * over * over + expected * expected;
      const double variance = (r * r / 6 + 2 * of_score) * spread + least * least / 12 * row.of_steps * over * over +
                              half_ulps / 3 + 0x1p-300;
      const double residual = fabs(found[lane] - expected);
      if (!isfinite(residual) || !isfinite(variance)) {
        atomicAdd(&result->not_finite, 1ull);
        continue;
      }
      note_worst(result, residual / (kSigmas * sqrt(variance)), at);
      squares += residual * residual / variance;
      count += 1;
    }
  }
};

// Rows `first` .. `first` + `count` of O; a block for each.
extern "C" __global__ void __launch_bounds__(256, 2) attention_rows(Call call, i64 first, i64 count, ElementArrays to) {
  __shared__ RowMemory memory;
  for (i64 row = blockIdx.x; row < count; row += gridDim.x) {
    const Place at = place_of_row(call, first + row);
    const Span keys = keys_of(call, at.query);
    const RowOfScores scores = scores_of_row(call, at, keys, memory);
    const Element element = element_of_row(call, at, keys, scores, memory);
    if (threadIdx.x < call.v.columns) to.put(row * call.v.columns + threadIdx.x, element);
  }
}

// Rows `first` .. `first` + `count` of the log-sum-exp, which are heads; a block for each element.
extern "C" __global__ void __launch_bounds__(256, 2) attention_sums(Call call, i64 first, i64 count, ElementArrays to) {
  __shared__ RowMemory memory;
  for (i64 i = blockIdx.x; i < count * call.q_len; i += gridDim.x) {
    const Place at = place_of_sum(call, first, i);
    const RowOfScores scores = scores_of_row(call, at, keys_of(call, at.query), memory);
    if (threadIdx.x == 0) to.put(i, sum_element(call, scores));
  }
}

// `count` rows of O at secret places, with their log-sum-exp.
extern "C" __global__ void __launch_bounds__(256, 2)
    attention_samples(Call call, i64 count, u64 seed, Projection* result) {
  __shared__ RowMemory memory;
  Looks looks{result};
  for (i64 sample = blockIdx.x; sample < count; sample += gridDim.x) {
    const i64 row = sampled_row(call.o.rows, seed, sample);
    const Place at = place_of_row(call, row);
    const Span keys = keys_of(call, at.query);
    const RowOfScores scores = scores_of_row(call, at, keys, memory);
    const Element element = element_of_row(call, at, keys, scores, memory);
    if (threadIdx.x < call.o.columns) looks.look(element, load(call.o, row, threadIdx.x), row);
    if (threadIdx.x == 0)
      looks.look(sum_element(call, scores), load(call.log_sum_exp, at.batch * call.heads + at.head, at.query), row);
  }
  add_to(result, looks.squares, looks.seen);
}

// The facts of every row of k and v; a warp for each.
extern "C" __global__ void __launch_bounds__(256) attention_keys(Call call, KeyFacts to, u64 seed) {
  const int lane_of_warp = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = blockIdx.x * static_cast<i64>(kWarps) + threadIdx.x / 32; row < call.k.rows;
       row += gridDim.x * static_cast<i64>(kWarps)) {
    double products[kLanes] = {}, square = 0, most = 0;
    for (i64 c = lane_of_warp; c < call.v.columns; c += 32) {
      const double value = load(call.v, row, c);
      for (int lane = 0; lane < kLanes; ++lane) products[lane] += sign_of(seed, c, lane) * value;
    }
    for (i64 c = lane_of_warp; c < call.k.columns; c += 32) {
      const double value = load(call.k, row, c);
      square += value * value;
      most = fmax(most, value * value);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
      for (double& product : products) product += __shfl_xor_sync(~0u, product, offset);
      square += __shfl_xor_sync(~0u, square, offset);
      most = fmax(most, __shfl_xor_sync(~0u, most, offset));
    }
    if (lane_of_warp != 0) continue;
    for (int lane = 0; lane < kLanes; ++lane) to.products[lane * call.k.rows + row] = products[lane];
    to.square[row] = square;
    to.most[row] = most;
  }
}

// Every row of O and every log-sum-exp. A block takes 64 queries of a head and walks over the keys that they see, 64
// at a time; a thread has 4 x 4 of the scores.
extern "C" __global__ void __launch_bounds__(256)
    attention_project(Call call, KeyFacts facts, u64 seed, Projection* result) {
  __shared__ float queries[kDepth][kTile + 1], keys[kDepth][kTile + 1];
  __shared__ double products[kLanes][kTile], square[kTile], most[kTile], query_square[kTile], query_most[kTile];
  __shared__ Span spans[kTile];
  __shared__ i64 ahead[kTile];
  const i64 tiles = (call.q_len + kTile - 1) / kTile, depth = call.k.columns;
  const int own_row = static_cast<int>(threadIdx.x) / 16 * 4, own_key = static_cast<int>(threadIdx.x) % 16 * 4;
  RowVerdict verdict{call, result};
  for (i64 work = blockIdx.x; work < tiles * call.batch * call.heads; work += gridDim.x) {
    const i64 first_query = work % tiles * kTile, head = work / tiles % call.heads, batch = work / tiles / call.heads;
    const i64 kv_head = head / (call.heads / call.kv_heads);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
      const i64 query = first_query + i;
      spans[i] = query < call.q_len ? keys_of(call, query) : Span{0, 0};
      ahead[i] = query < call.q_len ? ahead_of(sequence_of(call, call.q_offsets, query)) : 0;
      query_square[i] = query_most[i] = 0;
      for (i64 c = 0; query < call.q_len && c < depth; ++c) {
        const double value = load(call.q, query_row(call, batch, query, head), c);
        query_square[i] += value * value;
        query_most[i] = fmax(query_most[i], value * value);
      }
    }
    __syncthreads();
    Span all{call.k_len, 0};
    for (const Span& span : spans) {
      if (span.first == span.end) continue;
      all.first = min(all.first, span.first);
      all.end = max(all.end, span.end);
    }
    const double slope = slope_of(call, head);
    RowOfTile rows[4];
    for (i64 first_key = all.first; first_key < all.end; first_key += kTile) {
      float scores[4][4] = {};
      for (i64 c0 = 0; c0 < depth; c0 += kDepth) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
          const int at = i / kDepth, c = i % kDepth;
          const i64 query = first_query + at, key = first_key + at, column = c0 + c;
          queries[c][at] = query < call.q_len && column < depth
                               ? static_cast<float>(load(call.q, query_row(call, batch, query, head), column))
                               : 0.0f;
          keys[c][at] = key < all.end && column < depth
                            ? static_cast<float>(load(call.k, key_row(call, batch, key, kv_head), column))
                            : 0.0f;
        }
        if (c0 == 0 && threadIdx.x < kTile && first_key + threadIdx.x < all.end) {
          const i64 row = key_row(call, batch, first_key + threadIdx.x, kv_head);
          for (int lane = 0; lane < kLanes; ++lane) {
            products[lane][threadIdx.x] = facts.products[lane * call.k.rows + row];
          }
          square[threadIdx.x] = facts.square[row];
          most[threadIdx.x] = facts.most[row];
        }
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < kDepth; ++c) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) scores[i][j] += queries[c][own_row + i] * keys[c][own_key + j];
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        RowOfTile& row = rows[i];
        const Span span = spans[own_row + i];
        const Distances distances{slope, ahead[own_row + i]};
        double seen[4], given[4], off[4], largest = row.most;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const i64 key = first_key + own_key + j;
          const bool sees = key >= span.first && key < span.end;
          given[j] = static_cast<double>(scores[i][j]) * call.scale;
          off[j] = distances.off(first_query + own_row + i, key);
          seen[j] = !sees ? -infinity() : score_of(call, static_cast<double>(scores[i][j]), off[j]).value;
          largest = fmax(largest, seen[j]);
        }
        largest = most_of_row(largest);
        if (largest > row.most) row.rescale(largest);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (seen[j] == -infinity()) continue;
          const double weight = exp(seen[j] - row.most);
          double of_values = 0;
#pragma unroll
          for (int lane = 0; lane < kLanes; ++lane) {
            const double product = products[lane][own_key + j];
            row.products[lane] += weight * product;
            of_values += product * product / kLanes;
          }
          row.sum += weight;
          row.squares += weight * weight * of_values;
          if (weight < half_ulp(call.o.type, 0.0) / half_ulp(call.o.type, 1.0)) row.of_steps += of_values;
          row.largest = fmax(row.largest, fabs(seen[j]));
          row.off = fmax(row.off, fabs(off[j]));
          if (isfinite(given[j])) row.given = fmax(row.given, fabs(given[j]));
          row.key_square = fmax(row.key_square, square[own_key + j]);
          row.dot_squares = fmax(row.dot_squares, fmin(query_most[own_row + i] * square[own_key + j],
                                                       query_square[own_row + i] * most[own_key + j]));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rows[i].add_up();
      const i64 query = first_query + own_row + i, at = query_row(call, batch, query, head);
      double found[kLanes] = {}, half_ulps = 0;
      for (i64 c = threadIdx.x % 16; query < call.q_len && c < call.o.columns; c += 16) {
        const double value = load(call.o, at, c), half = half_ulp(call.o.type, value);
        for (int lane = 0; lane < kLanes; ++lane) found[lane] += sign_of(seed, c, lane) * value;
        half_ulps += half * half;
      }
      for (double& product : found) product = sum_of_row(product);
      half_ulps = sum_of_row(half_ulps);
      if (threadIdx.x % 16 != 0 || query >= call.q_len) continue;
      const double sink = sink_of(call, head);
      verdict.look_at_sum(rows[i], sink, query_square[own_row + i], at,
                          load(call.log_sum_exp, batch * call.heads + head, query));
      verdict.look_at_products(rows[i], sink, at, found, half_ulps);
    }
  }
  add_to(result, verdict.squares, verdict.count);
}

}  // namespace ridge::attention_check
