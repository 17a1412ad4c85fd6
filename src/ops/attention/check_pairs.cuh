// What the checks of attention, of its backward and of attention_fp8 on a GPU share: the operands, the keys that a
// query sees, and fp64 scores. check_numbers.cuh comes before this; it includes nothing and shares no code with a
// kernel that is measured.
namespace ridge::attention_check {

constexpr double kUnit = 0x1p-24;     // of fp32
constexpr double kNormal = 0x1p-126;  // fp32 may have 0 for an exponential that is below its normal numbers
constexpr double kSigmas = 12;        // numerics::kMixedSignSigmas
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kLanes = 4;               // secret sign vectors: errors that cancel in one show in another
constexpr int kMostColumns = 256;       // of a row
constexpr int kTile = 64, kDepth = 32;  // queries and keys of a tile, and the columns of a step

// The operands of a call. Rows of q, o and their gradients are [batch, q_len, heads], of k and v [batch, k_len,
// kv_heads], of the log-sum-exp [batch, heads].
struct Call {
  Matrix q, k, v, o, log_sum_exp;
  const int *q_offsets, *k_offsets;  // of packed documents; null: there are none
  i64 documents;
  i64 batch, heads, kv_heads, q_len, k_len;
  i64 left, right;              // keys before and behind its place that a query sees; below 0: all
  double scale, cap;            // of scores; 0: without a cap
  const float *sinks, *slopes;  // of heads; null: there are none
};

struct Place {
  i64 batch, query, head, kv_head;
};
__device__ inline Place place_of_row(const Call& call, i64 row) {
  const i64 head = row % call.heads, position = row / call.heads;
  return {position / call.q_len, position % call.q_len, head, head / (call.heads / call.kv_heads)};
}
__device__ inline i64 query_row(const Call& call, i64 batch, i64 query, i64 head) {
  return (batch * call.q_len + query) * call.heads + head;
}
__device__ inline i64 key_row(const Call& call, i64 batch, i64 key, i64 kv_head) {
  return (batch * call.k_len + key) * call.kv_heads + kv_head;
}

// From `first` up to `end`.
struct Span {
  i64 first, end;
};
// The queries and keys of a document, or of a whole sequence.
struct Document {
  Span queries, keys;
};
__device__ inline Document document_at(const Call& call, i64 document) {
  return {{call.q_offsets[document], call.q_offsets[document + 1]},
          {call.k_offsets[document], call.k_offsets[document + 1]}};
}
__device__ inline Document sequence_of(const Call& call, const int* offsets, i64 row) {
  if (offsets == nullptr) return {{0, call.q_len}, {0, call.k_len}};
  const i64 document = group_with(row, call.documents, [&](i64 at) { return offsets[at]; });
  return document < 0 ? Document{} : document_at(call, document);
}

// The keys that a query sees, among those of its batch element.
__device__ inline Span keys_of(const Call& call, i64 query) {
  const Document own = sequence_of(call, call.q_offsets, query);
  const i64 place = query + own.keys.end - own.queries.end;
  const i64 first = call.left < 0 ? own.keys.first : max(own.keys.first, place - call.left);
  const i64 end = call.right < 0 ? own.keys.end : min(own.keys.end, place + call.right + 1);
  return {first, max(first, end)};
}
// The queries that see a key.
__device__ inline Span queries_of(const Call& call, i64 key) {
  const Document own = sequence_of(call, call.k_offsets, key);
  const i64 place = key + own.queries.end - own.keys.end;  // of the query that has the key at its place
  const i64 first = call.right < 0 ? own.queries.first : max(own.queries.first, place - call.right);
  const i64 end = call.left < 0 ? own.queries.end : min(own.queries.end, place + call.left + 1);
  return {first, max(first, end)};
}

// A sum of products in fp64, of magnitudes, and of squares.
struct Dot {
  double sum = 0, size = 0, squares = 0;

  __device__ void add(double x, double y) {
    const double product = x * y;
    sum += product;
    size += fabs(product);
    squares += product * product;
  }
  // The squared error of the ideal fp32 sum of so many terms.
  [[nodiscard]] __device__ double variance(i64 terms) const {
    const double n = terms > 1 ? static_cast<double>(terms) : 1.0, half = half_ulp(kF32, sum);
    return kUnit * kUnit * n * (squares / 12 + sum * sum / 18) + half * half / 3;
  }
  // What a matrix unit takes off so many terms: it cuts off what sticks out when it aligns the 16 products of a step
  // with the running sum (as ops/gemm/device_check.cpp has it).
  [[nodiscard]] __device__ double cut(i64 terms) const {
    return (static_cast<double>(terms) / 16 + 2) * kUnit * (fabs(sum) + sqrt(squares));
  }
};
// Of a row in shared memory and a row of a matrix.
__device__ inline Dot dot_of(const double* x, const Matrix& y, i64 row) {
  Dot dot;
  for (i64 c = 0; c < y.columns; ++c) dot.add(x[c], load(y, row, c));
  return dot;
}
__device__ inline void read_row(const Matrix& x, i64 row, double* to) {
  for (i64 c = threadIdx.x; c < x.columns; c += kThreads) to[c] = load(x, row, c);
}

__device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
__device__ inline double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

// What a head's slope takes off its scores: of the places of queries in their own sequence.
struct Distances {
  double slope;
  i64 ahead;  // from a query to its place
  [[nodiscard]] __device__ double off(i64 query, i64 key) const {
    const i64 distance = query + ahead - key;
    return slope == 0 ? 0.0 : slope * static_cast<double>(distance < 0 ? -distance : distance);
  }
};
__device__ inline double slope_of(const Call& call, i64 head) {
  return call.slopes == nullptr ? 0.0 : static_cast<double>(call.slopes[head]);
}
__device__ inline i64 ahead_of(const Document& own) { return own.keys.end - own.queries.end; }
__device__ inline Distances distances_of_query(const Call& call, i64 head, i64 query) {
  return {slope_of(call, head), ahead_of(sequence_of(call, call.q_offsets, query))};
}

// A score from a sum of products, behind its softcap and with `off` taken off it, and its derivative by that sum.
struct Score {
  double value, slope, off;
  bool counts;  // a number before the softcap, which makes one of infinity
};
__device__ inline Score score_of(const Call& call, double sum, double off) {
  const double given = sum * call.scale;
  if (call.cap == 0) return {given - off, call.scale, off, isfinite(given)};
  const double tangent = tanh(given / call.cap);
  return {call.cap * tangent - off, call.scale * (1 - tangent * tangent), off, isfinite(given)};
}
// The squared error of what is made of a sum of products: its scaling, and the difference from the row's maximum, round
// once more each; a tangent is made of numbers near 1, and what is taken off rounds twice.
__device__ inline double rounding_variance(const Call& call, double score, double off) {
  return kUnit * kUnit * (score * score * 2 + call.cap * call.cap * 4 + off * off * 2) / 3;
}
// The squared error of the ideal score.
__device__ inline double score_variance(const Call& call, const Score& score, const Dot& dot) {
  return dot.variance(call.k.columns) * score.slope * score.slope + rounding_variance(call, score.value, score.off);
}
__device__ inline double sink_of(const Call& call, i64 head) {
  return call.sinks == nullptr ? -infinity() : static_cast<double>(call.sinks[head]);
}

// Whether keys that a row does not see, but a tile may multiply its zero weights with, hold a value of a column that is
// not finite: by the contract the row may be NaN there.
__device__ inline bool meets_special(const Call& call, const Place& at, const Span& keys, i64 column) {
  constexpr i64 kReach = 320;
  const auto special = [&](i64 first, i64 end) {
    bool any = false;
    for (i64 j = max(first, 0ll); j < min(end, call.k_len); ++j) {
      any = any || !isfinite(load(call.v, key_row(call, at.batch, j, at.kv_head), column));
    }
    return any;
  };
  return special(keys.first - kReach, keys.first) || special(keys.end, keys.end + kReach);
}

// Exponentials of scores, as a sum over the largest of them.
struct Exponentials {
  double most, sum;

  __device__ void add(double score) {
    sum = score > most ? sum * exp(most - score) + 1 : sum + exp(score - most);
    most = fmax(most, score);
  }
  // A sum of nothing stays 0, a broken one broken.
  __device__ void add(const Exponentials& other) {
    const double both = fmax(most, other.most);
    const auto scaled = [&](const Exponentials& one) {
      return one.most == -infinity() ? one.sum : one.sum * exp(one.most - both);
    };
    *this = {both, scaled(*this) + scaled(other)};
  }
};

// The place of number `i` of the log-sum-exps of heads from `first` on.
__device__ inline Place place_of_sum(const Call& call, i64 first, i64 i) {
  const i64 row = first + i / call.q_len, head = row % call.heads;
  return {row / call.heads, i % call.q_len, head, head / (call.heads / call.kv_heads)};
}
// One of so many rows, at a secret place.
__device__ inline i64 sampled_row(i64 rows, u64 seed, i64 sample) {
  return static_cast<i64>(mix(seed ^ mix(static_cast<u64>(sample))) % static_cast<u64>(rows));
}
// What a thread saw of single elements.
struct Looks {
  Projection* result;
  double squares = 0, seen = 0;

  __device__ void look(const Element& want, double found, i64 row) {
    if (found == want.value) return;
    const double error = fabs(found - want.value);
    if (!isfinite(error)) {
      atomicAdd(&result->not_finite, 1ull);
      return;
    }
    note_worst(result, error / want.allowed, row);
    squares += error * error / want.variance;
    seen += 1;
  }
};

// The sign of a column in a secret vector.
__device__ inline double sign_of(u64 seed, i64 column, int lane) {
  return (mix(seed ^ mix(static_cast<u64>(column))) >> (7 * lane) & 1) != 0 ? 1.0 : -1.0;
}

// The sum, or the largest, over the 16 threads of a warp that share a row of a tile.
__device__ inline double sum_of_row(double x) {
  for (int mask = 8; mask > 0; mask >>= 1) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}
__device__ inline double most_of_row(double x) {
  for (int mask = 8; mask > 0; mask >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, mask));
  return x;
}

}  // namespace ridge::attention_check
