// Tiles of 32 queries against blocks of 64 keys, in fp32. Keys collect d_k and d_v over all queries of their group,
// queries collect d_q over all keys, each in memory of its own thread: scores and products with v are computed for
// both, seven products instead of five, and nothing of the square of the lengths is stored. Threads take tiles in turn.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_info.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/attention/backward/backward.h"
#include "ops/attention/backward/simd/tile.h"

namespace ridge::ops::attention_backward {
namespace {

using attention::Range, attention::Sequence, attention::Shape;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TileKernels best_kernels() {
  return device::cpu::widest(tile_kernels_avx512(), tile_kernels_avx2(), tile_kernels_portable());
}

void* row_of(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t h) {
  return static_cast<char*>(view.data) +
         size_bytes(view.dtype, b * view.stride[0] + i * view.stride[1] + h * view.stride[2]);
}

struct Operands {
  TensorView q, k, v, o, log_sum_exp, d_o, d_q, d_k, d_v, sinks, d_sinks, slopes;
};

// The memory of one thread.
class Worker {
 public:
  Worker(const Shape& s, const Operands& operands)
      : s_(s), operands_(operands), kernels_(best_kernels()), row_(static_cast<std::size_t>(s.v_dim)) {
    tile_.dim = attention::whole_vectors(s.dim);
    tile_.v_dim = attention::whole_vectors(s.v_dim);
    tile_.scale = static_cast<float>(s.scale);
    tile_.cap = static_cast<float>(s.cap);
    const std::int64_t pairs = kTileRows * kTileKeys;
    memory_.assign(static_cast<std::size_t>((2 * kTileRows + 3 * kTileKeys) * tile_.dim +
                                            (kTileRows + 2 * kTileKeys) * tile_.v_dim + 2 * pairs),
                   0.0f);
    float* next = memory_.data();
    const auto take = [&](std::int64_t count) {
      next += count;
      return next - count;
    };
    for (float** one : {&tile_.q, &d_q_}) *one = take(kTileRows * tile_.dim);
    for (float** one : {&tile_.k_turned, &k_, &d_k_}) *one = take(kTileKeys * tile_.dim);
    tile_.d_o = take(kTileRows * tile_.v_dim);
    for (float** one : {&tile_.v_turned, &d_v_}) *one = take(kTileKeys * tile_.v_dim);
    for (float** one : {&tile_.weights, &tile_.slopes}) *one = take(pairs);
  }

  // d_k and d_v of the keys from `first` on, of one head of k and v.
  void keys(const Sequence& in, std::int64_t kv_head, std::int64_t first) {
    const std::int64_t count = std::min(kTileKeys, in.shape.k_len - first), group = s_.heads / s_.kv_heads;
    const Range queries = in.shape.queries_of(first, first + count - 1);
    load_keys(in, kv_head, first);
    std::fill_n(d_k_, kTileKeys * tile_.dim, 0.0f);
    std::fill_n(d_v_, kTileKeys * tile_.v_dim, 0.0f);
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      for (std::int64_t at = queries.begin; at < queries.end; at += kTileRows) add_to_keys(in, h, at, first);
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t key = in.first_key + first + j;
      store(d_k_ + j * tile_.dim, tile_.scale, operands_.d_k, in.batch, key, kv_head);
      store(d_v_ + j * tile_.v_dim, 1.0f, operands_.d_v, in.batch, key, kv_head);
    }
  }

  // d_q of the queries from `first` on, of one head.
  void queries(const Sequence& in, std::int64_t h, std::int64_t first) {
    const std::int64_t rows = std::min(kTileRows, in.shape.q_len - first);
    load_queries(in, h, first, rows);
    std::fill_n(d_q_, kTileRows * tile_.dim, 0.0f);
    // Windows move on from row to row.
    const std::int64_t begin = in.shape.keys_of(first).begin, end = in.shape.keys_of(first + rows - 1).end;
    for (std::int64_t key = begin; key < end; key += kTileKeys) {
      load_keys(in, s_.kv_head(h), key);
      see(in, first, rows, key);
      kernels_.weigh(tile_, rows);
      kernels_.add({tile_.slopes, kTileKeys, 1, k_, d_q_, rows, tile_.dim, tile_.begin, tile_.end});
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      store(d_q_ + r * tile_.dim, tile_.scale, operands_.d_q, in.batch, in.first_query + first + r, h);
    }
  }

  // The gradient of a head's sink: rows in their order, in fp64.
  void sink(std::int64_t h) {
    const double logit = static_cast<const float*>(operands_.sinks.data)[h];
    double gradient = 0;
    for (std::int64_t b = 0; b < s_.batch; ++b) {
      for (std::int64_t i = 0; i < s_.q_len; ++i) {
        load(operands_.d_o, b, i, h, tile_.d_o);
        const double sum = log_sum_exp(b, i, h);
        gradient -= (sum == -kInfinity ? 0.0 : std::exp(logit - sum)) * delta(b, i, h, tile_.d_o);
      }
    }
    static_cast<float*>(operands_.d_sinks.data)[h] = static_cast<float>(gradient);
  }

 private:
  void add_to_keys(const Sequence& in, std::int64_t h, std::int64_t query, std::int64_t key) {
    const std::int64_t rows = std::min(kTileRows, in.shape.q_len - query);
    see(in, query, rows, key);
    load_queries(in, h, query, rows);
    kernels_.weigh(tile_, rows);
    std::int64_t begin[kTileKeys], end[kTileKeys];
    for (std::int64_t j = 0, from = 0, to = 0; j < kTileKeys; ++j) {  // windows move on from row to row
      while (from < rows && tile_.end[from] <= j) ++from;
      while (to < rows && tile_.begin[to] <= j) ++to;
      begin[j] = from;
      end[j] = std::max(from, to);
    }
    kernels_.add({tile_.slopes, 1, kTileKeys, tile_.q, d_k_, kTileKeys, tile_.dim, begin, end});
    kernels_.add({tile_.weights, 1, kTileKeys, tile_.d_o, d_v_, kTileKeys, tile_.v_dim, begin, end});
  }

  void see(const Sequence& in, std::int64_t query, std::int64_t rows, std::int64_t key) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const Range seen = in.shape.keys_of(query + r);
      tile_.begin[r] = std::clamp<std::int64_t>(seen.begin - key, 0, kTileKeys);
      tile_.end[r] = std::clamp<std::int64_t>(seen.end - key, 0, kTileKeys);
      tile_.place[r] = in.shape.place(query + r) - key;
    }
  }

  void load(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t h, float* to) const {
    numerics::to_float(s_.dtype, row_of(view, b, i, h), to, view.shape[3]);
  }
  void store(float* sum, float factor, const TensorView& to, std::int64_t b, std::int64_t i, std::int64_t h) const {
    for (std::int64_t c = 0; c < to.shape[3]; ++c) sum[c] *= factor;
    numerics::from_float(s_.dtype, sum, row_of(to, b, i, h), to.shape[3]);
  }

  [[nodiscard]] float log_sum_exp(std::int64_t b, std::int64_t i, std::int64_t h) const {
    const TensorView& sums = operands_.log_sum_exp;
    return static_cast<const float*>(sums.data)[b * sums.stride[0] + h * sums.stride[1] + i];
  }
  // Of a row whose d_o is there.
  float delta(std::int64_t b, std::int64_t i, std::int64_t h, const float* d_o) {
    load(operands_.o, b, i, h, row_.data());
    float sum = 0.0f;
    for (std::int64_t c = 0; c < s_.v_dim; ++c) sum += d_o[c] * row_[static_cast<std::size_t>(c)];
    return sum;
  }

  void load_queries(const Sequence& in, std::int64_t h, std::int64_t first, std::int64_t rows) {
    tile_.slope = s_.alibi ? static_cast<const float*>(operands_.slopes.data)[h] : 0.0f;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t b = in.batch, query = in.first_query + first + r;
      float *const q = tile_.q + r * tile_.dim, *const d_o = tile_.d_o + r * tile_.v_dim;
      load(operands_.q, b, query, h, q);
      load(operands_.d_o, b, query, h, d_o);
      const float sum = log_sum_exp(b, query, h);
      tile_.delta[r] = delta(b, query, h, d_o);
      tile_.log_sum_exp[r] = sum == -kInfinity ? kInfinity : sum;  // no key has any weight
    }
  }

  void load_keys(const Sequence& in, std::int64_t kv_head, std::int64_t first) {
    for (std::int64_t j = 0; j < kTileKeys; ++j) {
      float* const k = k_ + j * tile_.dim;
      const bool there = first + j < in.shape.k_len;
      const std::int64_t key = in.first_key + first + j;
      if (there) load(operands_.k, in.batch, key, kv_head, k);
      if (there) load(operands_.v, in.batch, key, kv_head, row_.data());
      for (std::int64_t c = 0; c < s_.dim; ++c) tile_.k_turned[c * kTileKeys + j] = there ? k[c] : 0.0f;
      for (std::int64_t c = 0; c < s_.v_dim; ++c) {
        tile_.v_turned[c * kTileKeys + j] = there ? row_[static_cast<std::size_t>(c)] : 0.0f;
      }
    }
  }

  const Shape& s_;
  const Operands& operands_;
  TileKernels kernels_;
  Tile tile_{};
  float *k_ = nullptr, *d_q_ = nullptr, *d_k_ = nullptr, *d_v_ = nullptr;  // rows of a block or tile
  std::vector<float> memory_;
  std::vector<float> row_;
};

std::int64_t blocks_of(const Sequence& one) { return (one.shape.k_len + kTileKeys - 1) / kTileKeys; }
std::int64_t tiles_of(const Sequence& one) { return (one.shape.q_len + kTileRows - 1) / kTileRows; }

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  const Shape s = attention::shape_of(problem, operands);
  RIDGE_TRY(documents, attention::documents_of(problem, operands));
  const std::vector<Sequence> sequences = attention::sequences_of(s, documents);
  std::vector<std::int64_t> ends;  // blocks and tiles of all heads, up to the end of each sequence
  std::int64_t count = 0;
  for (const Sequence& one : sequences) ends.push_back(count += s.kv_heads * blocks_of(one) + s.heads * tiles_of(one));
  const std::int64_t tasks = count + (s.sinks ? s.heads : 0);
  if (tasks == 0) return ok_status();
  const auto named = [&](const char* name) { return operand(problem, operands.operands, name); };
  const Operands views{operands[kQ],         operands[kK],     operands[kV],     operands[kO],
                       operands[kLogSumExp], operands[kGradO], named("d_q"),     named("d_k"),
                       named("d_v"),         named("sinks"),   named("d_sinks"), named("alibi_slopes")};
  const int threads = static_cast<int>(std::clamp<std::int64_t>(stream.threads, 1, tasks));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Worker worker(s, views);
    for (std::int64_t i = thread; i < tasks; i += threads) {
      if (i >= count) {
        worker.sink(i - count);
        continue;
      }
      const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends, i) - ends.begin());
      const std::int64_t blocks = blocks_of(sequences[at]), tiles = tiles_of(sequences[at]);
      const std::int64_t of_keys = s.kv_heads * blocks, own = i - (ends[at] - of_keys - s.heads * tiles);
      if (own < of_keys) {
        worker.keys(sequences[at], own / blocks, own % blocks * kTileKeys);
      } else {
        worker.queries(sequences[at], (own - of_keys) / tiles, (own - of_keys) % tiles * kTileRows);
      }
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_tiles() {
  Implementation own;
  own.name = "cpu_tiles";
  own.summary = "weights computed again in tiles, for keys and for queries, in fp32 vectors";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::attention_backward
