// Rows of the norms, forward: from memory once, to their sums and their results. In four forms, of which a launch plan
// picks one: a ring in shared memory that the copy engine fills (row_loop.cuh), straight from memory into registers by
// blocks that come and go (row_direct.cuh), the same but read again from the first-level cache instead of held, and by
// elements for rows that are no whole chunks.
//
// With a mean, sums are of the distances from the row's first number, which are exact of near numbers: a mean that is
// large beside the deviation costs no digits, and equal numbers leave nothing. The ring and rows that are read again
// add up distances and their squares at once, so that a row waits for one sum; where that number lies more than two
// deviations from the mean, the difference of the two would lose digits, and the squares are added up once more around
// the mean.
#pragma once
#include "../../device/cuda/kernel/row_direct.cuh"
#include "../../device/cuda/kernel/row_loop.cuh"
#include "columns.cuh"

namespace ridge::cuda {

template <bool kGiven>
struct OwnOfMean {
  const u8* bias;
  float* mean;
};
template <>
struct OwnOfMean<false> {
  static constexpr const u8* bias = nullptr;
  static constexpr float* mean = nullptr;
};
// As the launch plan fills it; pitches in bytes.
struct RowNormParameters : OwnOfMean<kMean> {
  const u8 *x, *residual, *weight;
  u8 *y, *sum;
  float* rstd;  // null: not wanted
  i64 x_pitch, residual_pitch, y_pitch, sum_pitch;
  RowGeometry geometry;
  i64 cols;
  float eps;
  u32 order;  // kInOrder
};

namespace {

constexpr bool kWeight = RIDGE_WEIGHT != 0, kBias = RIDGE_BIAS != 0;
constexpr u32 kSide = RIDGE_SIDE, kInputs = kResidual ? 2 : 1;

__device__ __forceinline__ float root_of(float squares, float inverse_cols, float eps) {
  return __frsqrt_rn(squares * inverse_cols + eps);
}

// What is taken off the numbers of a row, in two steps, and what is left is multiplied with.
struct Norm {
  float shift = 0.0f, rest = 0.0f, rstd = 0.0f;

  __device__ __forceinline__ float centred(float h) const {
    if constexpr (kMean) return (h - shift) - rest;
    return h;
  }
  template <bool kFactor, bool kAdded>
  __device__ __forceinline__ float operator()(float h, const Columns<kFactor>& weight, const Columns<kAdded>& bias,
                                              u32 k, u32 i) const {
    const float y = centred(h) * rstd * weight.factor(k, i);
    if constexpr (kAdded) return y + bias(k, i);
    return y;
  }
  // By one thread of a row's team.
  __device__ __forceinline__ void store(const RowNormParameters& p, i64 row) const {
    p.rstd[row] = rstd;
    if constexpr (kMean) p.mean[row] = shift + rest;
  }
};

// The first number of a row, as it is normalised.
__device__ __forceinline__ float first_of(const RowNormParameters& p, i64 row) {
  const float x = load_number<kTypeX>(p.x + row * p.x_pitch, 0);
  if constexpr (!kResidual) return x;
  return rounded_number<kTypeX>(x + load_number<kTypeX>(p.residual + row * p.residual_pitch, 0));
}
// The same of a row in a ring.
template <class Loop>
__device__ __forceinline__ float first_of(const Loop& loop, u32 pass) {
  ChunkX x, more;
  x.words[0] = load_shared_u32(loop.address(0, pass, 0));
  if constexpr (!kResidual) return x[0];
  more.words[0] = load_shared_u32(loop.address(1, pass, 0));
  return rounded_number<kTypeX>(x[0] + more[0]);
}

// What is normalised of a chunk: x, or x + residual as it is stored.
template <class Loop>
__device__ __forceinline__ void read_input(const RowNormParameters& p, const Loop& loop, u32 pass, u32 c, bool there,
                                           ChunkX& h) {
  h.clear();
  if (c >= loop.chunks()) return;
  h.load_shared(loop.address(0, pass, c));
  if constexpr (kResidual) {
    ChunkX more;
    more.load_shared(loop.address(1, pass, c));
    float sums[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) sums[i] = h[i] + more[i];
    h.set(sums);
    if (there) h.store_global(p.sum + loop.row(pass) * p.sum_pitch + static_cast<u64>(loop.first_chunk() + c) * 16);
  }
}

// Adds term(number) of this thread's part of a row. With a mean, where zeros count, without what lies past its end.
template <class Place, class Term>
__device__ __forceinline__ void add_up(const Place& place, const ChunkX (&h)[kPerThread], const Term& term) {
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    if (kMean && place.chunk(k) >= place.chunks()) continue;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) term(h[k][i]);
  }
}

// From the sums of a row's distances and their squares. Every thread of its team has the same numbers. `read` makes h
// this thread's part of the row, where it is needed again.
template <class Loop, class Sum, class Read>
__device__ __forceinline__ void find_mean(const RowNormParameters& p, const Loop& loop, ChunkX (&h)[kPerThread],
                                          const float (&sums)[kSums], float inverse_cols, Sum& sum, Norm& norm,
                                          const Read& read) {
  norm.rest = sums[0] * inverse_cols;
  const float square = sums[kSums - 1] * inverse_cols, part = norm.rest * norm.rest;
  // Also where the squares are more than fp32 holds, or no numbers.
  const bool unsure = !(part <= 0.8f * square && square < __int_as_float(0x7f800000));
  norm.rstd = __frsqrt_rn((square - part) + p.eps);
  bool again = unsure;
  if constexpr (kLanes != 0) again = __any_sync(~0u, unsure);  // teams of a warp add up together
  if (!again) return;
  // Around the mean as it was found. The distances from it add up to what the mean is off: its own rounding, and what
  // the distances from a far number had lost.
  if (unsure) norm.shift += norm.rest, norm.rest = 0.0f;
  float more[kSums] = {};
  read();
  add_up(loop, h, [&](float one) {
    const float distance = norm.centred(one);
    more[0] += distance;
    more[kSums - 1] += distance * distance;
  });
  sum(more);
  if (!unsure) return;
  const float off = more[0] * inverse_cols;
  norm.rstd = __frsqrt_rn((more[kSums - 1] * inverse_cols - off * off) + p.eps);
  // A mean that is infinite stays so.
  if (fabsf(off) < __int_as_float(0x7f800000)) norm.rest = off;
}

__device__ __forceinline__ void by_chunks(const RowNormParameters& p, u8* memory) {
  RowShared& shared = *reinterpret_cast<RowShared*>(memory);
  prepare_rows<kCluster>(shared);
  RowInput inputs[kInputs];
  inputs[0] = {p.x, p.x_pitch};
  if constexpr (kResidual) inputs[1] = {p.residual, p.residual_pitch};
  RowLoop<kInputs, kLanes, kCluster> loop(p.geometry, inputs, shared);
  RowSum<kSums, kLanes, kCluster> sum(shared);
  Columns<kWeight> weight;
  Columns<kBias> bias;
  weight.load(loop, p.weight);
  bias.load(loop, p.bias);
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  // Only the first block of a cluster has it in its ring: read one row ahead.
  float next_first = kMean && kCluster && loop.more() ? first_of(p, loop.row(0)) : 0.0f;
  for (; loop.more(); loop.advance()) {
    const float first = next_first;
    if (kMean && kCluster && loop.next_row(0) < p.geometry.rows) next_first = first_of(p, loop.next_row(0));
    loop.wait();
    for (u32 pass = 0; pass < loop.passes(); ++pass) {
      const i64 row = loop.row(pass);
      const bool there = row < p.geometry.rows;
      Norm norm;
      if constexpr (kMean) norm.shift = kCluster ? first : first_of(loop, pass);
      ChunkX h[kPerThread];
      float sums[kSums] = {};
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) read_input(p, loop, pass, loop.chunk(k), there, h[k]);
      add_up(loop, h, [&](float one) {
        const float distance = norm.centred(one);
        if constexpr (kMean) sums[0] += distance;
        sums[kSums - 1] += distance * distance;
      });
      sum(sums);
      if (pass + 1 == loop.passes()) loop.release(true);
      if constexpr (kMean) {
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) h[k].stay_packed(p.order);
        find_mean(p, loop, h, sums, inverse_cols, sum, norm, [] {});
      } else {
        norm.rstd = root_of(sums[0], inverse_cols, p.eps);
      }
      if (!there) continue;
      if (p.rstd != nullptr && loop.first_chunk() == 0 && loop.chunk(0) == 0) norm.store(p, row);
      u8* const to = p.y + row * p.y_pitch + static_cast<u64>(loop.first_chunk()) * 16;
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) {
        float y[kCount];
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) y[i] = norm(h[k][i], weight, bias, k, i);
        ChunkX out;
        out.set(y);
        if (loop.chunk(k) < loop.chunks()) out.store_global(to + static_cast<u64>(loop.chunk(k)) * 16);
      }
    }
  }
  leave_rows<kCluster>();
}

// The chunks of a thread's rows, of x and the residual.
struct Chunks {
  ChunkX words[kInputs][kSide][kPerThread];

  __device__ __forceinline__ void load(const RowNormParameters& p, const RowTeam<kLanes, kSide>& team, i64 first) {
    const u8* const from[2] = {p.x, p.residual};
    const i64 pitch[2] = {p.x_pitch, p.residual_pitch};
#pragma unroll
    for (u32 i = 0; i < kInputs; ++i) {
#pragma unroll
      for (u32 s = 0; s < kSide; ++s) {
        const i64 row = team.row(first, s);
#pragma unroll
        for (u32 k = 0; k < kPerThread; ++k) {
          words[i][s][k].clear();
          if (row >= p.geometry.rows || team.chunk(k) >= team.chunks()) continue;
          words[i][s][k].load_global(from[i] + row * pitch[i] + static_cast<u64>(team.chunk(k)) * 16);
        }
      }
    }
  }
};

// What is normalised of a chunk: x + residual as it is stored.
__device__ __forceinline__ void add_residual(const RowNormParameters& p, const RowTeam<kLanes, kSide>& team, i64 first,
                                             u32 s, u32 k, Chunks& chunks) {
  ChunkX &h = chunks.words[0][s][k], &more = chunks.words[kInputs - 1][s][k];
  float sums[kCount];
#pragma unroll
  for (u32 i = 0; i < kCount; ++i) sums[i] = h[i] + more[i];
  h.set(sums);
  const i64 row = team.row(first, s);
  if (row >= p.geometry.rows || team.chunk(k) >= team.chunks()) return;
  h.store_global(p.sum + row * p.sum_pitch + static_cast<u64>(team.chunk(k)) * 16);
}

// What the rows of a team are centred with. A sum costs no other block's time here, so there are two: of distances, and
// then of the squares around the mean.
template <class Team, class Sum>
__device__ __forceinline__ void find_means(const RowNormParameters& p, const Team& team, const Chunks& h,
                                           const float (&first)[kSide], Sum& sum, Norm (&norm)[kSide]) {
  float sums[kSide] = {};
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    norm[s].shift = kLanes == 0 ? first[s] : __shfl_sync(~0u, h.words[0][s][0][0], 0, kLanes == 0 ? 32 : kLanes);
    add_up(team, h.words[0][s], [&](float one) { sums[s] += norm[s].centred(one); });
  }
  sum(sums);
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) norm[s].rest = sums[s] / static_cast<float>(p.cols);
}

// A block takes a row, or teams of its threads some rows, in registers from memory to the results.
__device__ __forceinline__ void direct(const RowNormParameters& p) {
  using Team = RowTeam<kLanes, kSide>;
  using Sum = TeamSum<kLanes, kSide>;
  // Few enough to be loaded before the sum without crowding the rows out of registers.
  constexpr bool kWeightFirst = kSide * kPerThread * kInputs + kPerThread * kWeightChunks * (kBias ? 2 : 1) <= 4;
  __shared__ typename Sum::Shared shared;
  Sum sum(shared);
  const Team team(p.geometry.chunks);
  const i64 first = static_cast<i64>(blockIdx.x) * Team::block_rows();
  Chunks h;
  h.load(p, team, first);
  Columns<kWeight> weight;
  Columns<kBias> bias;
  if constexpr (kWeightFirst) weight.load(team, p.weight), bias.load(team, p.bias);
  Norm norm[kSide];
  if constexpr (kMean) {
    float numbers[kSide] = {};
    if constexpr (kLanes == 0) numbers[0] = first_of(p, first);
#pragma unroll
    for (u32 s = 0; kResidual && s < kSide; ++s) {
#pragma unroll
      for (u32 k = 0; k < kPerThread; ++k) add_residual(p, team, first, s, k, h);
    }
    find_means(p, team, h, numbers, sum, norm);
  }
  float squares[kSide] = {};
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if constexpr (kResidual && !kMean) add_residual(p, team, first, s, k, h);
      if (kMean && team.chunk(k) >= team.chunks()) continue;
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) {
        const float distance = norm[s].centred(h.words[0][s][k][i]);
        squares[s] += distance * distance;
      }
    }
  }
  sum(squares);
#pragma unroll
  for (u32 s = 0; s < kSide; ++s) {
    norm[s].rstd = root_of(squares[s], 1.0f / static_cast<float>(p.cols), p.eps);
    const i64 row = Team::row(first, s);
    if (p.rstd != nullptr && Team::chunk(0) == 0 && row < p.geometry.rows) norm[s].store(p, row);
  }
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    if constexpr (!kWeightFirst) weight.load(team, p.weight, k), bias.load(team, p.bias, k);
    weight.stay_packed(p.order, k);
    bias.stay_packed(p.order, k);
#pragma unroll
    for (u32 s = 0; s < kSide; ++s) {
      ChunkX& chunk = h.words[0][s][k];
      chunk.stay_packed(p.order);
      float y[kCount];
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) y[i] = norm[s](chunk[i], weight, bias, k, i);
      chunk.set(y);
      const i64 row = Team::row(first, s);
      if (row >= p.geometry.rows || Team::chunk(k) >= team.chunks()) continue;
      chunk.store_global(p.y + row * p.y_pitch + static_cast<u64>(Team::chunk(k)) * 16);
    }
  }
}

// The chunks of a block's row, from memory or a cache.
struct RowReader {
  const u8 *x, *residual;
  RowTeam<0, 1> team;

  __device__ __forceinline__ RowReader(const RowNormParameters& p, i64 row)
      : x(p.x + row * p.x_pitch), residual(p.residual + row * p.residual_pitch), team(p.geometry.chunks) {}

  // What is normalised of the k-th chunk. kAgain: it will be read again.
  template <bool kAgain>
  __device__ __forceinline__ void read(u32 k, ChunkX& h) const {
    h.clear();
    if (team.chunk(k) >= team.chunks()) return;
    const u64 at = static_cast<u64>(team.chunk(k)) * 16;
    h.template load_hinted<kAgain>(x + at);
    if constexpr (kResidual) {
      ChunkX more;
      more.template load_hinted<kAgain>(residual + at);
      float sums[kCount];
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) sums[i] = h[i] + more[i];
      h.set(sums);
    }
  }
  template <bool kAgain>
  __device__ __forceinline__ void read(ChunkX (&h)[kPerThread]) const {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) read<kAgain>(k, h[k]);
  }
};

// A block takes a row, and reads it again from the first-level cache for its results. Threads hold nothing of it while
// they wait for a sum, so that a multiprocessor has as many of them as it takes, and their loads are in flight.
__device__ __forceinline__ void by_reading_again(const RowNormParameters& p) {
  using Sum = TeamSum<0, kSums>;
  __shared__ typename Sum::Shared shared;
  Sum sum(shared);
  const i64 row = blockIdx.x;
  const RowReader reader(p, row);
  const auto& team = reader.team;
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  Norm norm;
  ChunkX h[kPerThread];
  reader.read<true>(h);
  if constexpr (kResidual) {
#pragma unroll
    for (u32 k = 0; k < kPerThread; ++k) {
      if (team.chunk(k) < team.chunks())
        h[k].store_global(p.sum + row * p.sum_pitch + static_cast<u64>(team.chunk(k)) * 16);
    }
  }
  if constexpr (kMean) norm.shift = first_of(p, row);
  float sums[kSums] = {};
  add_up(team, h, [&](float one) {
    const float distance = norm.centred(one);
    if constexpr (kMean) sums[0] += distance;
    sums[kSums - 1] += distance * distance;
  });
  sum(sums);
  if constexpr (kMean) {
    find_mean(p, team, h, sums, inverse_cols, sum, norm, [&] { reader.template read<true>(h); });
  } else {
    norm.rstd = root_of(sums[0], inverse_cols, p.eps);
  }
  if (p.rstd != nullptr && threadIdx.x == 0) norm.store(p, row);
  Columns<kWeight> weight;
  Columns<kBias> bias;
#pragma unroll
  for (u32 k = 0; k < kPerThread; ++k) {
    reader.read<false>(k, h[k]);
    weight.load(team, p.weight, k), bias.load(team, p.bias, k);
    float y[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) y[i] = norm(h[k][i], weight, bias, k, i);
    h[k].set(y);
    if (team.chunk(k) < team.chunks()) h[k].store_global(p.y + row * p.y_pitch + static_cast<u64>(team.chunk(k)) * 16);
  }
}

// The sum of term(input(j)) over a row of a block's team. A function, because NVRTC takes generic lambdas for the
// host's.
template <class Input, class Term>
__device__ __forceinline__ float sum_of_row(const Input& input, const Term& term, i64 cols, RowSum<1, 0, false>& sum) {
  float total[1] = {0.0f};
  for (i64 j = threadIdx.x; j < cols; j += blockDim.x) total[0] += term(input(j));
  sum(total);
  return total[0];
}

// A block takes a row, any number of elements at any address; all reads but the first come from a cache.
__device__ __forceinline__ void by_elements(const RowNormParameters& p) {
  __shared__ RowShared shared;
  prepare_rows<false>(shared);
  RowSum<1, 0, false> sum(shared);
  const float inverse_cols = 1.0f / static_cast<float>(p.cols);
  for (i64 row = blockIdx.x; row < p.geometry.rows; row += gridDim.x) {
    const u8 *const x = p.x + row * p.x_pitch, *const residual = p.residual + row * p.residual_pitch;
    u8 *const y = p.y + row * p.y_pitch, *const total = p.sum + row * p.sum_pitch;
    const auto input = [&](i64 j) {
      const float one = load_number<kTypeX>(x, j);
      return kResidual ? rounded_number<kTypeX>(one + load_number<kTypeX>(residual, j)) : one;
    };
    Norm norm;
    if constexpr (kMean) {
      norm.shift = input(0);
      norm.rest = sum_of_row(
                      input, [&](float h) { return norm.centred(h); }, p.cols, sum) *
                  inverse_cols;
    }
    const float squares = sum_of_row(
        input, [&](float h) { return norm.centred(h) * norm.centred(h); }, p.cols, sum);
    norm.rstd = root_of(squares, inverse_cols, p.eps);
    if (p.rstd != nullptr && threadIdx.x == 0) norm.store(p, row);
    for (i64 j = threadIdx.x; j < p.cols; j += blockDim.x) {
      const float h = input(j);
      if constexpr (kResidual) store_number<kTypeX>(total, j, h);
      const float one = norm.centred(h) * norm.rstd * factor_of<kWeight>(p.weight, j);
      store_number<kTypeX>(y, j, kBias ? one + load_number<kTypeW>(p.bias, j) : one);
    }
  }
}

// The body of a kernel.
__device__ __forceinline__ void normalise_rows(const RowNormParameters& p) {
  if constexpr (kByChunks && RIDGE_DIRECT == 1) {
    direct(p);
  } else if constexpr (kByChunks && RIDGE_DIRECT == 2) {
    by_reading_again(p);
  } else if constexpr (kByChunks) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_elements(p);
  }
}

}  // namespace
}  // namespace ridge::cuda
