// Checks of the router on the GPU: the choice of every row and the weight of every choice, always. check_numbers.cuh,
// row_numbers.cuh, row_operands.cuh and power.cuh come before this. A block takes a row; each of its threads compares
// some experts with all others, as right_choice.cpp does: nothing is sorted.
namespace ridge::route_check {

namespace rows = ridge::ops::rows;

constexpr i64 kMostExperts = 1024, kMostTop = 64;
// Of a score: the contract's, and what fp64 may have lost here, so that no row is closed that the contract leaves open.
constexpr double kSlack = 0x1.1p-44;

// ops/route/device_check.cpp
struct Setting {
  i64 sigmoid, top_first, renormalize, by_logits, groups, group_top, top, tokens, experts;
  double scale;
};

// Numbers that are compared, and between which numbers of fp32 they are for certain.
struct Keys {
  float value[kMostExperts], low[kMostExperts], high[kMostExperts];

  __device__ inline void set(i64 at, float v, float l, float h) { value[at] = v, low[at] = l, high[at] = h; }
  __device__ inline bool before(i64 a, i64 b) const {
    const bool none_a = value[a] != value[a], none_b = value[b] != value[b];
    if (none_a != none_b) return none_b;
    if (none_a || value[a] == value[b]) return a < b;
    return value[a] > value[b];
  }
  // `same`: both are made of the same numbers.
  __device__ inline bool surely_before(i64 a, i64 b, bool same) const {
    const bool certain = low[a] == high[a] && low[b] == high[b];
    if (certain || same || value[a] != value[a] || value[b] != value[b]) return before(a, b);
    return low[a] > high[b];
  }
};

// What a block knows of its row.
struct RowState {
  Keys keys, marks;
  int rank[kMostExperts];            // -1: of a group that is closed
  unsigned char open[kMostExperts];  // groups
  i64 right[kMostTop];
  int hangs;  // the choice hangs on a rounding
};

struct Row {
  Matrix logits, bias;
  Setting set;
  i64 row;
  row_check::Team team;

  __device__ inline double logit(i64 e) const { return load(logits, row, e); }
  __device__ inline bool same(i64 a, i64 b) const {
    return logit(a) == logit(b) && (bias.rows == 0 || load(bias, 0, a) == load(bias, 0, b));
  }

  __device__ inline u32 group_size() const { return static_cast<u32>(set.experts) / static_cast<u32>(set.groups); }
  __device__ inline u32 group_of(i64 e) const { return static_cast<u32>(e) / group_size(); }

  // ---- The choice

  __device__ inline void make_keys(RowState& s) const {
    double most = -__longlong_as_double(0x7ff0000000000000ll), sum = 0;
    const bool softmax = set.by_logits == 0 && set.sigmoid == 0;
    const auto power = [&](double x) { return x == most ? 1.0 : ::exp(x - most); };
    if (softmax) {
      for (i64 e = team.rank; e < set.experts; e += team.size) most = logit(e) > most ? logit(e) : most;
      most = team.all(most, [](double a, double b) { return a > b ? a : b; });
      for (i64 e = team.rank; e < set.experts; e += team.size) sum += logit(e) == logit(e) ? power(logit(e)) : 0.0;
      sum = team.sum(sum);
    }
    for (i64 e = team.rank; e < set.experts; e += team.size) {
      const double x = logit(e);
      const float more = bias.rows == 0 ? 0.0f : static_cast<float>(load(bias, 0, e));
      const auto key = [&](double exact) {
        const float nearest = static_cast<float>(exact);
        return bias.rows == 0 ? nearest : nearest + more;
      };
      if (set.by_logits != 0) {
        s.keys.set(e, key(x), key(x), key(x));
      } else {
        const double score = set.sigmoid != 0 ? rows::sigmoid(x) : rows::quotient(power(x), sum);
        s.keys.set(e, key(score), key(score * (1 - kSlack)), key(score * (1 + kSlack)));
      }
    }
    __syncthreads();
  }

  // The sum of the two best of a group; of one expert its own.
  __device__ inline float mark(const float* keys, i64 group) const {
    const u32 size = group_size();
    float first = -__uint_as_float(0x7f800000u), second = first;
    for (i64 e = group * size; e < (group + 1) * size; ++e) {
      const float key = keys[e] != keys[e] ? -__uint_as_float(0x7f800000u) : keys[e];
      second = key > first ? first : key > second ? key : second;
      first = key > first ? key : first;
    }
    return size == 1 ? first : first + second;
  }
  __device__ inline void open_groups(RowState& s) const {
    for (i64 g = team.rank; g < set.groups; g += team.size) {
      s.marks.set(g, mark(s.keys.value, g), mark(s.keys.low, g), mark(s.keys.high, g));
    }
    __syncthreads();
    for (i64 g = team.rank; g < set.groups; g += team.size) {
      i64 better = 0;
      for (i64 other = 0; other < set.groups; ++other) better += other != g && s.marks.before(other, g) ? 1 : 0;
      s.open[g] = better < set.group_top ? 1 : 0;
    }
    __syncthreads();
    for (i64 g = team.rank; g < set.groups; g += team.size) {
      for (i64 other = 0; s.open[g] != 0 && other < set.groups; ++other) {
        if (s.open[other] == 0 && !s.marks.surely_before(g, other, false)) s.hangs = 1;
      }
    }
  }
  __device__ inline void choose(RowState& s) const {
    if (team.rank == 0) s.hangs = 0;
    __syncthreads();
    make_keys(s);
    open_groups(s);
    for (i64 e = team.rank; e < set.experts; e += team.size) {
      int before = 0;
      for (i64 other = 0; other < set.experts; ++other) {
        before += other != e && s.open[group_of(other)] != 0 && s.keys.before(other, e) ? 1 : 0;
      }
      s.rank[e] = s.open[group_of(e)] != 0 ? before : -1;
      if (s.rank[e] >= 0 && s.rank[e] < set.top) s.right[s.rank[e]] = e;
    }
    __syncthreads();
    for (i64 e = team.rank; e < set.experts; e += team.size) {
      for (i64 other = 0; s.rank[e] >= 0 && s.rank[e] < set.top && other < set.experts; ++other) {
        if (s.rank[other] > s.rank[e] && !s.keys.surely_before(e, other, same(e, other))) s.hangs = 1;
      }
    }
    __syncthreads();
  }

  // ---- Weights

  // Of the experts chosen(k), the k-th weight; by all threads of a block.
  template <class Chosen>
  __device__ inline rows::Number weight(i64 k, const Chosen& chosen) const {
    using rows::Number;
    Number most(0.0), sum(0.0);
    if (set.sigmoid == 0 && set.top_first == 0) {
      double largest = -__longlong_as_double(0x7ff0000000000000ll);
      for (i64 e = team.rank; e < set.experts; e += team.size) {
        const double x = logit(e);
        largest = x > largest || x != x ? x : largest;
      }
      most = Number(team.most(largest));
      rows::Sum all;
      for (i64 e = team.rank; e < set.experts; e += team.size) all.add(ops::route::power(Number(logit(e)), most));
      all.value = team.sum(all.value), all.magnitude = team.sum(all.magnitude);
      all.squares = team.sum(all.squares), all.error = team.sum(all.error), all.variance = team.sum(all.variance);
      sum = rows::total(static_cast<double>(set.experts), all);
    } else if (set.sigmoid == 0) {
      most = Number(logit(chosen(0)));
      for (i64 i = 1; i < set.top; ++i) most = rows::larger(Number(logit(chosen(i))), most);
      rows::Sum all;
      for (i64 i = 0; i < set.top; ++i) all.add(ops::route::power(Number(logit(chosen(i))), most));
      sum = rows::total(static_cast<double>(set.top), all);
    }
    const auto score = [&](i64 i) -> Number {
      const Number x(logit(chosen(i)));
      return set.sigmoid != 0 ? rows::sigmoid(x) : ops::route::power(x, most) / sum;
    };
    if (k >= set.top) return Number(0.0);
    Number found = score(k);
    if (set.renormalize != 0) {
      rows::Sum all;
      for (i64 i = 0; i < set.top; ++i) all.add(score(i));
      found = found / (rows::total(static_cast<double>(set.top), all) + rows::rounded(Number(ops::route::kBesideSum)));
    }
    return found * Number(set.scale);
  }
};

}  // namespace ridge::route_check

extern "C" __global__ void route_rows(Matrix logits, Matrix bias, Matrix weights, Matrix experts,
                                      ridge::route_check::Setting set, ridge::ops::rows::Format format,
                                      Projection* result) {
  using namespace ridge::route_check;
  __shared__ RowState state;
  __shared__ int wrong;
  const i64 k = threadIdx.x;
  double squares = 0, count = 0;
  for (i64 at = blockIdx.x; at < set.tokens; at += gridDim.x) {
    const Row row{logits, bias, set, at, {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}};
    if (k == 0) wrong = 0;
    row.choose(state);
    const auto found = [&](i64 i) { return static_cast<i64>(load(experts, at, i)); };
    if (k < set.top) {
      bool right = found(k) >= 0 && found(k) < set.experts;
      if (state.hangs == 0) right = right && found(k) == state.right[k];
      for (i64 other = 0; other < k; ++other) right = right && found(other) != found(k);
      if (!right) wrong = 1;
    }
    __syncthreads();
    if (wrong != 0) {
      if (k == 0) note_worst(result, 1e30, at);
      __syncthreads();
      continue;
    }
    const rows::Stored want = rows::stored(format, row.weight(k, found));
    __syncthreads();
    if (k >= set.top) continue;
    const double got = load(weights, at, k);
    count += 1;
    if (same(got, want.value)) continue;
    squares += judged(result, got, want.value, want.allowed, want.ideal_square, at);
  }
  add_to(result, squares, count);
}

// `of_experts`: what experts hold, else weights.
extern "C" __global__ void route_reference(Matrix logits, Matrix bias, ridge::route_check::Setting set,
                                           ridge::ops::rows::Format format, i64 of_experts, i64 first, i64 count,
                                           ElementArrays to) {
  using namespace ridge::route_check;
  __shared__ RowState state;
  const i64 k = threadIdx.x;
  for (i64 i = blockIdx.x; i < count; i += gridDim.x) {
    const Row row{logits, bias, set, first + i, {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}};
    row.choose(state);
    const rows::Stored want = rows::stored(format, row.weight(k, [&](i64 at) { return state.right[at]; }));
    // Where the choice hangs on a rounding, anything that both may be.
    const double any = state.hangs == 0 ? 0.0 : of_experts != 0 ? static_cast<double>(set.experts) : fabs(set.scale);
    if (k < set.top && of_experts != 0) {
      const double room = state.hangs == 0 ? 0.25 : any;
      to.put(i * set.top + k, {static_cast<double>(state.right[k]), room, room * room / 4, 0});
    } else if (k < set.top) {
      to.put(i * set.top + k, {want.value, want.allowed + any, want.ideal_square + any * any, want.shift});
    }
    __syncthreads();
  }
}
