// Tiles of 32 queries of one head against blocks of 64 keys, in fp32: the online softmax, so nothing of the square of
// the lengths is stored. Threads take tiles in turn. Bound by the two products; K and V are converted once per tile,
// which costs a sixteenth of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_info.h"
#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/attention/attention.h"
#include "ops/attention/simd/tile.h"

namespace ridge::ops::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TileStep best_step() { return device::cpu::widest<TileStep>(tile_step_avx512, tile_step_avx2, tile_step_portable); }

const void* row_of(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t h) {
  return static_cast<const char*>(view.data) +
         size_bytes(view.dtype, b * view.stride[0] + i * view.stride[1] + h * view.stride[2]);
}

struct Operands {
  TensorView q, k, v, o, log_sum_exp, sinks, slopes;
};

// The memory of one thread.
class Worker {
 public:
  Worker(const Shape& s, const Operands& operands)
      : s_(s), operands_(operands), step_(best_step()), row_(static_cast<std::size_t>(s.dim)) {
    tile_.dim = whole_vectors(s.dim);
    tile_.v_dim = whole_vectors(s.v_dim);
    const auto rows = static_cast<std::size_t>(tile_.dim * kTileRows),
               keys = static_cast<std::size_t>(tile_.dim * kTileKeys);
    const auto values = static_cast<std::size_t>(tile_.v_dim * kTileKeys),
               sums = static_cast<std::size_t>(tile_.v_dim * kTileRows);
    memory_.assign(rows + keys + values + sums, 0.0f);
    tile_.scale = static_cast<float>(s.scale);
    tile_.cap = static_cast<float>(s.cap);
    tile_.q = memory_.data();
    tile_.k = tile_.q + rows;
    tile_.v = tile_.k + keys;
    tile_.o = tile_.v + values;
  }

  void run(const Sequence& in, std::int64_t h, std::int64_t first) {
    const std::int64_t rows = std::min(kTileRows, in.shape.q_len - first);
    tile_.slope = s_.alibi ? static_cast<const float*>(operands_.slopes.data)[h] : 0.0f;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const q = tile_.q + r * tile_.dim;
      numerics::to_float(s_.dtype, row_of(operands_.q, in.batch, in.first_query + first + r, h), q, s_.dim);
      std::fill_n(tile_.o + r * tile_.v_dim, tile_.v_dim, 0.0f);
      tile_.maximum[r] = -kInfinity;
      tile_.sum[r] = 0.0f;
    }
    // Windows move on from row to row.
    const std::int64_t begin = in.shape.keys_of(first).begin, end = in.shape.keys_of(first + rows - 1).end;
    for (std::int64_t key = begin; key < end; key += kTileKeys) {
      load_keys(in, s_.kv_head(h), key);
      for (std::int64_t r = 0; r < rows; ++r) {
        const Range seen = in.shape.keys_of(first + r);
        tile_.begin[r] = std::clamp<std::int64_t>(seen.begin - key, 0, kTileKeys);
        tile_.end[r] = std::clamp<std::int64_t>(seen.end - key, 0, kTileKeys);
        tile_.place[r] = in.shape.place(first + r) - key;
      }
      step_(tile_, rows);
    }
    for (std::int64_t r = 0; r < rows; ++r) finish(in, h, first, r);
  }

 private:
  void load_keys(const Sequence& in, std::int64_t kv_head, std::int64_t first) {
    for (std::int64_t j = 0; j < kTileKeys; ++j) {
      float* const v = tile_.v + j * tile_.v_dim;
      if (first + j >= in.shape.k_len) {
        for (std::int64_t c = 0; c < s_.dim; ++c) tile_.k[c * kTileKeys + j] = 0.0f;
        std::fill_n(v, s_.v_dim, 0.0f);
        continue;
      }
      const std::int64_t key = in.first_key + first + j;
      numerics::to_float(s_.dtype, row_of(operands_.v, in.batch, key, kv_head), v, s_.v_dim);
      numerics::to_float(s_.dtype, row_of(operands_.k, in.batch, key, kv_head), row_.data(), s_.dim);
      for (std::int64_t c = 0; c < s_.dim; ++c) tile_.k[c * kTileKeys + j] = row_[static_cast<std::size_t>(c)];
    }
  }

  void finish(const Sequence& in, std::int64_t h, std::int64_t first, std::int64_t r) {
    const std::int64_t query = in.first_query + first + r;
    const float sink = s_.sinks ? static_cast<const float*>(operands_.sinks.data)[h] : -kInfinity;
    const bool empty = tile_.sum[r] == 0.0f;
    const float top = std::max(tile_.maximum[r], sink), factor = std::exp(tile_.maximum[r] - top);
    const float sum = tile_.sum[r] * factor + std::exp(sink - top);
    float* const o = tile_.o + r * tile_.v_dim;
    for (std::int64_t c = 0; c < s_.v_dim; ++c) o[c] = empty ? 0.0f : o[c] * factor / sum;
    numerics::from_float(s_.dtype, o, const_cast<void*>(row_of(operands_.o, in.batch, query, h)), s_.v_dim);
    const TensorView& sums = operands_.log_sum_exp;
    static_cast<float*>(sums.data)[in.batch * sums.stride[0] + h * sums.stride[1] + query] =
        empty ? sink : top + std::log(sum);
  }

  const Shape& s_;
  const Operands& operands_;
  TileStep step_;
  Tile tile_{};
  std::vector<float> memory_;
  std::vector<float> row_;
};

std::int64_t tiles_of(const Sequence& one) { return (one.shape.q_len + kTileRows - 1) / kTileRows; }

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  const Shape s = shape_of(problem, operands);
  RIDGE_TRY(documents, documents_of(problem, operands));
  const std::vector<Sequence> sequences = sequences_of(s, documents);
  std::vector<std::int64_t> ends;  // tiles of all heads, up to the end of each sequence
  std::int64_t count = 0;
  for (const Sequence& one : sequences) ends.push_back(count += s.heads * tiles_of(one));
  if (count == 0) return ok_status();
  const Operands views{operands[kQ],
                       operands[kK],
                       operands[kV],
                       operand(problem, operands.operands, "o"),
                       operand(problem, operands.operands, "log_sum_exp"),
                       operand(problem, operands.operands, "sinks"),
                       operand(problem, operands.operands, "alibi_slopes")};
  const int threads = static_cast<int>(std::clamp<std::int64_t>(stream.threads, 1, count));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Worker worker(s, views);
    for (std::int64_t i = thread; i < count; i += threads) {
      const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends, i) - ends.begin());
      const std::int64_t tiles = tiles_of(sequences[at]), of_sequence = i - (ends[at] - s.heads * tiles);
      worker.run(sequences[at], of_sequence / tiles, of_sequence % tiles * kTileRows);
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_tiles() {
  Implementation own;
  own.name = "cpu_tiles";
  own.summary = "online softmax over blocks of 64 keys, in fp32 vectors";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::attention
