// A stable counting sort in two launches, without an atomic operation whose order shows. The choices are cut into runs.
// The blocks of the first kernel count those of each expert in 8 runs (2 of many experts) and write what the runs in
// front have of them, and the sum. In the second each block adds up the sums, which makes the offsets, and the row of
// the first choice of its run for each expert; its warps then take parts of the run in order, 32 choices at a time,
// whose places among those of one expert are found by votes on the bits of the expert. Every block has all offsets, so
// that no block waits for another.
//
// Bound by latency up to some hundred thousand choices, then by the scattered writes of four bytes to tokens and
// choices.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "RUN"
values = [1024, 2048, 4096]
default = 1024
category = "tile"
title = "choices of a block, while fewer than 128 blocks have that many"
*/
/* ridge-kernel
op = "expert_order"
max_registers = 64
sass = [{ opcode = "STG" }]
[define]
RIDGE_WARPS = { value = "warps" }
RIDGE_RUNS = { value = "counted_runs" }
RIDGE_BITS = { value = "bits" }
RIDGE_DENSE = { value = "experts_stride0 == top && rows_stride0 == top" }
[configs]
default = { }
run2048 = { RUN = 2048 }
run4096 = { RUN = 4096 }
[variants]
experts256 = { case = "expert_order tokens=16384 experts=256 top=8" }
experts4096 = { case = "expert_order tokens=16384 experts=4096 top=8 align=128" }
*/
/* ridge-launch
# Warps that place choices, each with a table of all experts in shared memory.
[[value]]
name = "warps"
expression = "experts <= 1024 ? 16 : 4"
[[value]]
name = "total"
expression = "tokens * top"
[[value]]
name = "most_blocks"
expression = "max(1, min(min(128, floor_div(131072, experts)), ceil_div(total, RUN)))"
[[value]]
name = "run"
expression = "round_up(max(1, ceil_div(total, most_blocks)), 32 * warps)"
[[value]]
name = "blocks"
expression = "max(1, ceil_div(total, run))"
# Runs that a block counts.
[[value]]
name = "counted_runs"
expression = "experts <= 1024 ? 8 : 2"
[[value]]
name = "counting"
expression = "ceil_div(blocks, counted_runs)"
# Of a number up to `experts`, which stands for none.
[[value]]
name = "bits"
expression = "experts < 8 ? 3 : experts < 64 ? 6 : experts < 128 ? 7 : experts < 256 ? 8 : experts < 512 ? 9 : experts < 1024 ? 10 : 13"
[[workspace]]
name = "before"
bytes = "4 * counting * counted_runs * experts"
[[workspace]]
name = "sums"
bytes = "4 * counting * experts"
[[struct]]
name = "parameters"
members = [
  { operand = "experts" }, { operand = "offsets" }, { operand = "tokens" }, { operand = "rows" },
  { operand = "choices" }, { workspace = "before" }, { workspace = "sums" }, { i64 = "experts_stride0" }, { i64 = "rows_stride0" },
  { u32 = "total" }, { u32 = "experts" }, { u32 = "top" }, { u32 = "align" }, { u32 = "run" },
  { u32 = "tokens_shape0" },
]
[[kernel]]
symbol = "ridge_expert_count"
grid = ["counting"]
block = [1024]
shared = "4 * experts * counted_runs"
args = [{ struct = "parameters" }]
[[kernel]]
symbol = "ridge_expert_place"
grid = ["blocks"]
block = [512]
shared = "4 * experts * (warps + 2)"
overlap_previous = true
args = [{ struct = "parameters" }]
*/
// clang-format on

#include "../../device/cuda/kernel/ptx.cuh"

namespace ridge::cuda {

// As the launch plan fills it; strides in elements.
struct ExpertOrderParameters {
  const i32* experts;
  i32 *offsets, *tokens, *rows, *choices;
  u32* before;  // of each run and expert, the choices of the runs in front that the same block counts
  u32* sums;    // of each block that counts and each expert
  i64 experts_stride, rows_stride;
  u32 total, count, top, align, run, places;
};

namespace {

constexpr u32 kCounting = 1024, kThreads = 512, kPlacing = RIDGE_WARPS, kRuns = RIDGE_RUNS, kBits = RIDGE_BITS;
constexpr bool kDense = RIDGE_DENSE != 0;  // the rows of a matrix follow on each other without gaps
constexpr u32 kAllWarps = kThreads / kWarpThreads;
constexpr u32 kAhead = 4;  // choices of a thread whose experts it has in flight

// A choice by its place: the token and which of its choices.
struct Choice {
  u32 token, k;

  __device__ __forceinline__ Choice(const ExpertOrderParameters& p, u32 place)
      : token(place / p.top), k(place - place / p.top * p.top) {}
  __device__ __forceinline__ i64 in_rows_of(i64 stride) const { return token * stride + k; }
};
// The expert of a choice; p.count: none.
__device__ __forceinline__ u32 expert_at(const ExpertOrderParameters& p, u32 place) {
  const i32 expert = p.experts[kDense ? place : Choice(p, place).in_rows_of(p.experts_stride)];
  return expert >= 0 && static_cast<u32>(expert) < p.count ? static_cast<u32>(expert) : p.count;
}

// Calls work(place, expert) for the choices from `first` on, kStep apart; with kTogether also behind the end, without
// an expert, as long as a lane of the warp has one.
template <u32 kStep, bool kTogether, class Work>
__device__ __forceinline__ void each_choice(const ExpertOrderParameters& p, u32 first, u32 end, const Work& work) {
  const u32 slack = kTogether ? threadIdx.x % kWarpThreads : 0;
  for (; first - slack < end; first += kAhead * kStep) {
    u32 experts[kAhead];
#pragma unroll
    for (u32 j = 0; j < kAhead; ++j) {
      const u32 place = first + j * kStep;
      experts[j] = place < end ? expert_at(p, place) : p.count;
    }
#pragma unroll
    for (u32 j = 0; j < kAhead; ++j) {
      if (first + j * kStep - slack < end) work(first + j * kStep, experts[j]);
    }
  }
}

__device__ __forceinline__ u32 end_of_run(const ExpertOrderParameters& p, u32 begin, u32 length) {
  return begin < p.total ? min(p.total - begin, length) + begin : begin;
}

__device__ __forceinline__ void count_runs(const ExpertOrderParameters& p, u32* counts) {
  let_next_grid_start();
  for (u32 i = threadIdx.x; i < p.count * kRuns; i += kCounting) counts[i] = 0;
  __syncthreads();
  const u32 begin = blockIdx.x * kRuns * p.run;
  for (u32 i = threadIdx.x; i < p.run; i += kCounting) {  // a choice of each run
    u32 experts[kRuns];
#pragma unroll
    for (u32 r = 0; r < kRuns; ++r) {
      const u32 place = begin + r * p.run + i;
      experts[r] = place < p.total ? expert_at(p, place) : p.count;
    }
#pragma unroll
    for (u32 r = 0; r < kRuns; ++r) {
      if (experts[r] < p.count) atomicAdd(counts + r * p.count + experts[r], 1u);
    }
  }
  __syncthreads();
  for (u32 e = threadIdx.x; e < p.count; e += kCounting) {
    u32 sum = 0;
#pragma unroll
    for (u32 r = 0; r < kRuns; ++r) {
      p.before[(blockIdx.x * kRuns + r) * p.count + e] = sum;
      sum += counts[r * p.count + e];
    }
    p.sums[blockIdx.x * p.count + e] = sum;
  }
}

// In shared memory, a number for each expert: how many choices there are; where its rows begin, at first how many
// choices the runs in front of this one have; and for each placing warp how many its part has, which becomes the row of
// the next one.
struct Tables {
  u32 *totals, *starts, *parts;

  __device__ __forceinline__ Tables(u32* memory, u32 experts)
      : totals(memory), starts(memory + experts), parts(memory + 2 * experts) {}
};

// The part of the run that is this warp's.
struct Part {
  u32 begin, end;

  __device__ __forceinline__ explicit Part(const ExpertOrderParameters& p) {
    const u32 length = p.run / kPlacing, warp = threadIdx.x / kWarpThreads;
    begin = blockIdx.x * p.run + warp * length;
    end = warp < kPlacing ? end_of_run(p, begin, length) : begin;
  }
};

__device__ __forceinline__ void count_parts(const ExpertOrderParameters& p, const Tables& t) {
  for (u32 i = threadIdx.x; i < p.count * (kPlacing + 2); i += kThreads) t.totals[i] = 0;
  __syncthreads();
  const Part part(p);
  u32* const own = t.parts + threadIdx.x / kWarpThreads * p.count;
  each_choice<kWarpThreads, false>(p, part.begin + threadIdx.x % kWarpThreads, part.end, [&](u32, u32 expert) {
    if (expert < p.count) atomicAdd(own + expert, 1u);
  });
}

// Where there are fewer experts than threads, several threads share the sums.
__device__ __forceinline__ void add_up_sums(const ExpertOrderParameters& p, const Tables& t) {
  constexpr u32 kLoads = 16;
  const u32 counting = (gridDim.x + kRuns - 1) / kRuns, own = blockIdx.x / kRuns;
  const u32 shares = max(1u, kThreads / p.count);
  for (u32 i = threadIdx.x; i < p.count * shares; i += kThreads) {
    const u32 share = i / p.count, expert = i - share * p.count;
    u32 all = 0, before = share == 0 ? p.before[blockIdx.x * p.count + expert] : 0;
    for (u32 first = share; first < counting; first += kLoads * shares) {
      u32 sums[kLoads];
#pragma unroll
      for (u32 j = 0; j < kLoads; ++j) {
        const u32 block = first + j * shares;
        sums[j] = block < counting ? p.sums[block * p.count + expert] : 0;
      }
#pragma unroll
      for (u32 j = 0; j < kLoads; ++j) {
        all += sums[j];
        before += first + j * shares < own ? sums[j] : 0;
      }
    }
    atomicAdd(t.totals + expert, all);
    atomicAdd(t.starts + expert, before);
  }
}

// From numbers to rows. Returns where the rows of the last expert end.
__device__ __forceinline__ u32 find_rows(const ExpertOrderParameters& p, const Tables& t) {
  __shared__ u32 of_warps[kAllWarps];
  const u32 lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
  const auto room = [&](u32 expert) { return (t.totals[expert] + p.align - 1) / p.align * p.align; };
  const u32 each = (p.count + kThreads - 1) / kThreads;
  const u32 first = min(threadIdx.x * each, p.count), last = min(first + each, p.count);
  u32 own = 0;
  for (u32 e = first; e < last; ++e) own += room(e);
  u32 before = own;  // with those of the lanes below
#pragma unroll
  for (u32 step = 1; step < kWarpThreads; step *= 2) {
    const u32 below = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += below;
  }
  if (lane == kWarpThreads - 1) of_warps[warp] = before;
  __syncthreads();
  u32 row = before - own, end = 0;
#pragma unroll
  for (u32 w = 0; w < kAllWarps; ++w) {
    if (w < warp) row += of_warps[w];
    end += of_warps[w];
  }
  for (u32 e = first; e < last; ++e) {
    u32 next = row + t.starts[e];
    t.starts[e] = row;
    u32 counts[kPlacing];
#pragma unroll
    for (u32 w = 0; w < kPlacing; ++w) counts[w] = t.parts[w * p.count + e];
#pragma unroll
    for (u32 w = 0; w < kPlacing; ++w) {
      t.parts[w * p.count + e] = next;
      next += counts[w];
    }
    row += room(e);
  }
  __syncthreads();
  return end;
}

// The lanes of this warp with the same number below 2^kBits.
__device__ __forceinline__ u32 lanes_like(u32 number) {
  u32 alike = ~0u;
#pragma unroll
  for (u32 b = 0; b < kBits; ++b) {
    const bool is_set = (number >> b & 1u) != 0;
    const u32 votes = __ballot_sync(~0u, is_set ? 1 : 0);
    alike &= is_set ? votes : ~votes;
  }
  return alike;
}

__device__ __forceinline__ void place_part(const ExpertOrderParameters& p, const Tables& t) {
  const Part part(p);
  const u32 lane = threadIdx.x % kWarpThreads;
  u32* const next = t.parts + threadIdx.x / kWarpThreads * p.count;
  each_choice<kWarpThreads, true>(p, part.begin + lane, part.end, [&](u32 place, u32 expert) {
    const u32 alike = lanes_like(expert);
    const u32 rank = static_cast<u32>(__popc(alike & ((1u << lane) - 1)));
    const bool any = expert < p.count;
    const u32 row = any ? next[expert] + rank : 0;
    __syncwarp();
    if (any && rank == 0) next[expert] = row + static_cast<u32>(__popc(alike));
    __syncwarp();
    const Choice choice(p, place);
    const i64 at = kDense ? place : choice.in_rows_of(p.rows_stride);
    if (place < part.end) p.rows[at] = any ? static_cast<i32>(row) : -1;
    if (any) p.tokens[row] = static_cast<i32>(choice.token), p.choices[row] = static_cast<i32>(place);
  });
}

// Offsets, and the rows that have no choice; each block its share.
__device__ __forceinline__ void fill_rest(const ExpertOrderParameters& p, const Tables& t, u32 end) {
  if (blockIdx.x == 0) {
    for (u32 e = threadIdx.x; e < p.count; e += kThreads) p.offsets[e] = static_cast<i32>(t.starts[e]);
    if (threadIdx.x == 0) p.offsets[p.count] = static_cast<i32>(end);
  }
  const auto put_none = [&](u32 row) { p.tokens[row] = -1, p.choices[row] = -1; };
  for (u32 e = blockIdx.x; p.align > 1 && e < p.count; e += gridDim.x) {
    const u32 stop = e + 1 < p.count ? t.starts[e + 1] : end;
    for (u32 row = t.starts[e] + t.totals[e] + threadIdx.x; row < stop; row += kThreads) put_none(row);
  }
  for (u32 row = end + blockIdx.x * kThreads + threadIdx.x; row < p.places; row += gridDim.x * kThreads) put_none(row);
}

__device__ __forceinline__ void place_run(const ExpertOrderParameters& p, u32* memory) {
  const Tables tables(memory, p.count);
  count_parts(p, tables);
  wait_for_prior_grid();
  add_up_sums(p, tables);
  __syncthreads();
  const u32 end = find_rows(p, tables);
  place_part(p, tables);
  fill_rest(p, tables, end);
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(1024) ridge_expert_count(const ridge::cuda::ExpertOrderParameters p) {
  extern __shared__ ridge::cuda::u32 memory[];
  ridge::cuda::count_runs(p, memory);
}
extern "C" __global__ void __launch_bounds__(512) ridge_expert_place(const ridge::cuda::ExpertOrderParameters p) {
  extern __shared__ ridge::cuda::u32 memory[];
  ridge::cuda::place_run(p, memory);
}
