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
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kMostCodeFactor = 0x1p99f;  // of scores of codes

TileStep best_step() { return device::cpu::widest<TileStep>(tile_step_avx512, tile_step_avx2, tile_step_portable); }

const void* row_of(const TensorView& view, std::int64_t b, std::int64_t i, std::int64_t h) {
  return static_cast<const char*>(view.data) +
         size_bytes(view.dtype, b * view.stride[0] + i * view.stride[1] + h * view.stride[2]);
}

// What codes of a head are multiplied with: scores, and o. Not usable where a scale is not finite, or scores would be
// turned around or be infinite.
struct HeadFactors {
  float score = 1, value = 1;
  bool usable = true;
};

float scale_of(const TensorView& scales, std::int64_t b, std::int64_t h) {
  return static_cast<const float*>(scales.data)[b * scales.stride[0] + h * scales.stride[1]];
}

HeadFactors factors_of(const TileOperands& operands, float scale, std::int64_t b, std::int64_t h,
                       std::int64_t kv_head) {
  if (operands.q_scale.rank == 0) return {scale};
  HeadFactors made{scale * (scale_of(operands.q_scale, b, h) * scale_of(operands.k_scale, b, kv_head)),
                   scale_of(operands.v_scale, b, kv_head)};
  made.usable = made.score >= 0 && made.score <= kMostCodeFactor;
  if (!made.usable) made.score = 1;  // rows without keys are still found
  return made;
}

// The memory of one thread.
class Worker {
 public:
  Worker(const Shape& s, const TileOperands& operands)
      : s_(s), operands_(operands), step_(best_step()), row_(static_cast<std::size_t>(s.dim)) {
    tile_.dim = whole_vectors(s.dim);
    tile_.v_dim = whole_vectors(s.v_dim);
    const auto rows = static_cast<std::size_t>(tile_.dim * kTileRows),
               keys = static_cast<std::size_t>(tile_.dim * kTileKeys);
    const auto values = static_cast<std::size_t>(tile_.v_dim * kTileKeys),
               sums = static_cast<std::size_t>(tile_.v_dim * kTileRows);
    memory_.assign(rows + keys + values + sums, 0.0f);
    tile_.cap = static_cast<float>(s.cap);
    tile_.q = memory_.data();
    tile_.k = tile_.q + rows;
    tile_.v = tile_.k + keys;
    tile_.o = tile_.v + values;
  }

  void run(const Sequence& in, std::int64_t h, std::int64_t first) {
    const std::int64_t rows = std::min(kTileRows, in.shape.q_len - first);
    factors_ = factors_of(operands_, static_cast<float>(s_.scale), in.batch, h, s_.kv_head(h));
    tile_.scale = factors_.score;
    tile_.slope = s_.alibi ? static_cast<const float*>(operands_.slopes.data)[h] : 0.0f;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const q = tile_.q + r * tile_.dim;
      numerics::to_float(operands_.q.dtype, row_of(operands_.q, in.batch, in.first_query + first + r, h), q, s_.dim);
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
      numerics::to_float(operands_.v.dtype, row_of(operands_.v, in.batch, key, kv_head), v, s_.v_dim);
      numerics::to_float(operands_.k.dtype, row_of(operands_.k, in.batch, key, kv_head), row_.data(), s_.dim);
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
    const bool usable = factors_.usable && std::isfinite(factors_.value);
    for (std::int64_t c = 0; c < s_.v_dim; ++c) {
      o[c] = empty ? 0.0f : usable ? o[c] * factor / sum * factors_.value : kNoNumber;
    }
    numerics::from_float(operands_.o.dtype, o, const_cast<void*>(row_of(operands_.o, in.batch, query, h)), s_.v_dim);
    const TensorView& sums = operands_.log_sum_exp;
    static_cast<float*>(sums.data)[in.batch * sums.stride[0] + h * sums.stride[1] + query] = empty ? sink
                                                                                             : factors_.usable
                                                                                                 ? top + std::log(sum)
                                                                                                 : kNoNumber;
  }

  const Shape& s_;
  const TileOperands& operands_;
  TileStep step_;
  Tile tile_{};
  HeadFactors factors_;
  std::vector<float> memory_;
  std::vector<float> row_;
};

std::int64_t tiles_of(const Sequence& one) { return (one.shape.q_len + kTileRows - 1) / kTileRows; }

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  RIDGE_TRY(documents, documents_of(problem, operands));
  TileOperands views;
  views.q = operands[kQ];
  views.k = operands[kK];
  views.v = operands[kV];
  views.o = operand(problem, operands.operands, "o");
  views.log_sum_exp = operand(problem, operands.operands, "log_sum_exp");
  views.sinks = operand(problem, operands.operands, "sinks");
  views.slopes = operand(problem, operands.operands, "alibi_slopes");
  return run_tiles(shape_of(problem, operands), documents, views, stream);
}

}  // namespace

Status run_tiles(const Shape& s, const Documents& documents, const TileOperands& views, const Stream& stream) {
  const std::vector<Sequence> sequences = sequences_of(s, documents);
  std::vector<std::int64_t> ends;  // tiles of all heads, up to the end of each sequence
  std::int64_t count = 0;
  for (const Sequence& one : sequences) ends.push_back(count += s.heads * tiles_of(one));
  if (count == 0) return ok_status();
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
