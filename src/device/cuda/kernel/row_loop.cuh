// The loop over rows that operators of rows share (norms, activations, softmax): blocks stay, and take the rows that
// are theirs one after the other. Rows come by the copy engine into a ring of stages in shared memory, so that the
// loads of the next rows are in flight while one is worked on, however many barriers that takes. Threads read their
// chunks of 16 bytes from the stage into registers, where they stay from the sums over the row to the results.
//
// A team works on a row: `kLanes` threads of a warp, for short rows, where every warp has a ring of its own and its
// stages hold several rows; or, with kLanes of 0, the block. Blocks of a cluster share a row that is too long for one:
// each has its slice, and their sums meet through distributed shared memory.
//
//   RowLoop<kInputs, kLanes, kCluster> loop(geometry, inputs, shared);
//   for (; loop.more(); loop.advance()) {
//     loop.wait();
//     for (u32 pass = 0; pass < loop.passes(); ++pass) {
//       chunk.load_shared(loop.address(input, pass, c));            // c: loop.chunk(k) < loop.chunks()
//       sum(values);                                                // RowSum
//       if (pass + 1 == loop.passes()) loop.release(synchronised);  // all reads of the stage are done
//       ...                                                         // store, where loop.row(pass) < rows
//     }
//   }
//
// Bytes in flight: stages times their bytes, of every block of a multiprocessor. Little's law asks for 20 to 30 KiB per
// multiprocessor at 4.3 TB/s; rings of 128 to 192 KiB also cover the waits of single rows.
#pragma once
#include "chunk.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"

namespace ridge::cuda {

inline constexpr u32 kRowWarps = 16, kRowStages = 8, kRowBlocks = 8;  // the most there are

// As a launch plan fills it.
struct RowGeometry {
  i64 rows;
  u32 chunks;      // of a whole row
  u32 slice;       // of a block's part of a row
  u32 stages;      // of a ring
  u32 stage_rows;  // of a stage
};
struct RowInput {
  const u8* data;
  i64 pitch;  // bytes between rows
};

// What lies in front of the rings. 2 KiB are set aside for it (kRowHeader).
struct RowShared {
  alignas(16) float warps[2][2][kRowWarps];    // sums of the warps, in turns
  alignas(16) float blocks[2][2][kRowBlocks];  // of the cluster's blocks
  u64 full[kRowWarps][kRowStages];             // the stages of each ring: of a block's the first
  u64 met[2];                                  // the sums of a cluster
};
inline constexpr u32 kRowHeader = 2048;
static_assert(sizeof(RowShared) <= kRowHeader, "launch plans set so much aside");

__device__ __forceinline__ u32 cluster_blocks() {
  u32 count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}

// By all threads, before anything else.
template <bool kCluster>
__device__ __forceinline__ void prepare_rows(RowShared& shared) {
  for (u32 i = threadIdx.x; i < 4 * kRowWarps; i += blockDim.x) shared.warps[0][0][i] = 0.0f;
  for (u32 i = threadIdx.x; i < 4 * kRowBlocks; i += blockDim.x) shared.blocks[0][0][i] = 0.0f;
  for (u32 i = threadIdx.x; i < kRowWarps * kRowStages + 2; i += blockDim.x) {
    barrier_init(shared_address(shared.full) + i * kBarrierBytes, 1);  // `met` lies behind `full`
  }
  barrier_init_fence();
  fence_proxy_async_shared();
  if constexpr (kCluster) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
}

template <u32 kInputs, u32 kLanes, bool kCluster>
class RowLoop {
 public:
  static constexpr bool kBlock = kLanes == 0;
  static constexpr u32 kPassRows = kBlock ? 1 : kWarpThreads / (kBlock ? 1 : kLanes);

  __device__ __forceinline__ RowLoop(const RowGeometry& geometry, const RowInput (&inputs)[kInputs], RowShared& shared)
      : geometry_(geometry), inputs_(inputs) {
    const u32 warp = kBlock ? 0 : threadIdx.x / kWarpThreads, warps = kBlock ? 1 : blockDim.x / kWarpThreads;
    const u32 blocks = kCluster ? cluster_blocks() : 1, rank = kCluster ? cluster_rank() : 0;
    const i64 unit = static_cast<i64>(blockIdx.x / blocks) * warps + warp;
    step_ = static_cast<i64>(gridDim.x / blocks) * warps * geometry.stage_rows;
    row_ = next_ = unit * geometry.stage_rows;
    first_chunk_ = rank * geometry.slice;
    chunks_ = min(geometry.slice, geometry.chunks - min(first_chunk_, geometry.chunks));
    part_bytes_ = geometry.stage_rows * geometry.slice * 16;
    ring_ = shared_address(&shared) + kRowHeader + warp * geometry.stages * kInputs * part_bytes_;
    full_ = shared_address(shared.full[warp]);
    leader_ = kBlock ? threadIdx.x == 0 : threadIdx.x % kWarpThreads == 0;
    for (u32 stage = 0; stage < geometry.stages; ++stage) fill(stage);
  }

  __device__ __forceinline__ bool more() const { return row_ < geometry_.rows; }
  __device__ __forceinline__ void advance() {
    row_ += step_;
    if (++stage_ == geometry_.stages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }
  __device__ __forceinline__ void wait() const { barrier_wait(full_ + stage_ * kBarrierBytes, parity_); }
  __device__ __forceinline__ u32 passes() const { return kBlock ? 1 : geometry_.stage_rows / kPassRows; }

  // The row of this thread's team.
  __device__ __forceinline__ i64 row(u32 pass) const { return row_ + place(pass); }
  // Of the row that follows in this place of the ring's next stage.
  __device__ __forceinline__ i64 next_row(u32 pass) const { return row_ + step_ + place(pass); }
  // This thread's k-th chunk, counted in the block's slice.
  __device__ __forceinline__ u32 chunk(u32 k) const {
    if constexpr (kBlock) return k * blockDim.x + threadIdx.x;
    return k * kLanes + threadIdx.x % (kBlock ? 1 : kLanes);
  }
  __device__ __forceinline__ u32 chunks() const { return chunks_; }
  __device__ __forceinline__ u32 first_chunk() const { return first_chunk_; }
  // Of chunk c of this team's row in the present stage, in shared memory.
  __device__ __forceinline__ u32 address(u32 input, u32 pass, u32 c) const {
    return ring_ + (stage_ * kInputs + input) * part_bytes_ + (place(pass) * geometry_.slice + c) * 16;
  }
  // The stage may be filled again. `synchronised`: the block has passed a barrier since its last read.
  __device__ __forceinline__ void release(bool synchronised) {
    if constexpr (kBlock) {
      if (!synchronised) __syncthreads();
    } else {
      __syncwarp();
    }
    fill(stage_);
  }

 private:
  __device__ __forceinline__ u32 place(u32 pass) const {
    if constexpr (kBlock) return 0;
    return pass * kPassRows + threadIdx.x % kWarpThreads / (kBlock ? 1 : kLanes);
  }

  // Starts the loads of the next rows into a stage.
  __device__ __forceinline__ void fill(u32 stage) {
    if (leader_ && next_ < geometry_.rows) {
      const u32 rows = static_cast<u32>(min(geometry_.rows - next_, static_cast<i64>(geometry_.stage_rows)));
      const u32 bytes = chunks_ * 16, barrier = full_ + stage * kBarrierBytes;
      barrier_arrive_expect_bytes(barrier, kInputs * rows * bytes);
#pragma unroll
      for (u32 i = 0; i < kInputs; ++i) {
        const u32 to = ring_ + (stage * kInputs + i) * part_bytes_;
        const u8* const from = inputs_[i].data + next_ * inputs_[i].pitch + first_chunk_ * 16;
        if (kBlock || inputs_[i].pitch == bytes) {
          load_bytes(to, from, rows * bytes, barrier);
        } else {
          for (u32 r = 0; r < rows; ++r) load_bytes(to + r * bytes, from + r * inputs_[i].pitch, bytes, barrier);
        }
      }
    }
    next_ += step_;
  }

  const RowGeometry& geometry_;
  const RowInput (&inputs_)[kInputs];
  i64 row_, next_, step_;
  u32 first_chunk_, chunks_, part_bytes_, ring_, full_;
  u32 stage_ = 0, parity_ = 0;
  bool leader_;
};

// Sums over a row of kValues numbers of each thread, for all of its team, in an order that depends on shapes alone. Of
// a block's team it holds a block barrier.
template <u32 kValues, u32 kLanes, bool kCluster>
class RowSum {
 public:
  __device__ __forceinline__ explicit RowSum(RowShared& shared) : shared_(shared) {}

  __device__ __forceinline__ void operator()(float (&values)[kValues]) {
#pragma unroll
    for (u32 mask = (kLanes == 0 ? kWarpThreads : kLanes) / 2; mask > 0; mask /= 2) {
#pragma unroll
      for (u32 v = 0; v < kValues; ++v) values[v] += __shfl_xor_sync(~0u, values[v], static_cast<int>(mask));
    }
    if constexpr (kLanes == 0) over_block(values);
    if constexpr (kCluster) over_cluster(values);
    turn_ ^= 1;
  }

 private:
  // A warp that is a row ahead writes into the other half, and can be no further ahead than that.
  __device__ __forceinline__ void over_block(float (&values)[kValues]) {
#pragma unroll
    for (u32 v = 0; v < kValues; ++v) {
      if (threadIdx.x % kWarpThreads == 0) shared_.warps[turn_][v][threadIdx.x / kWarpThreads] = values[v];
    }
    __syncthreads();
#pragma unroll
    for (u32 v = 0; v < kValues; ++v) {
      const float4* const sums = reinterpret_cast<const float4*>(shared_.warps[turn_][v]);
      float total = 0.0f;
#pragma unroll
      for (u32 i = 0; i < kRowWarps / 4; ++i) {
        const float4 four = sums[i];  // of warps that are not there zero
        total += (four.x + four.y) + (four.z + four.w);
      }
      values[v] = total;
    }
  }

  // Every block writes its sums into all of them. One that is two rows ahead would need this block's sums of the row
  // between, which it sends when all of its threads have read these.
  __device__ __forceinline__ void over_cluster(float (&values)[kValues]) {
    const u32 blocks = cluster_blocks(), met = shared_address(&shared_.met[turn_]);
    if (threadIdx.x == 0) barrier_arrive_expect_bytes(met, blocks * kValues * 4);
    if (threadIdx.x < blocks) {
      u32 barrier;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(met), "r"(threadIdx.x));
#pragma unroll
      for (u32 v = 0; v < kValues; ++v) {
        u32 slot;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                     : "=r"(slot)
                     : "r"(shared_address(&shared_.blocks[turn_][v][cluster_rank()])), "r"(threadIdx.x));
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(slot),
                     "r"(__float_as_uint(values[v])), "r"(barrier)
                     : "memory");
      }
    }
    barrier_wait(met, parity_ >> turn_ & 1u);
    parity_ ^= 1u << turn_;
#pragma unroll
    for (u32 v = 0; v < kValues; ++v) {
      const float4* const sums = reinterpret_cast<const float4*>(shared_.blocks[turn_][v]);
      const float4 low = sums[0], high = sums[1];
      values[v] = ((low.x + low.y) + (low.z + low.w)) + ((high.x + high.y) + (high.z + high.w));
    }
  }

  RowShared& shared_;
  u32 turn_ = 0, parity_ = 0;
};

// By all threads, behind the loop: no block leaves while another may still write to it.
template <bool kCluster>
__device__ __forceinline__ void leave_rows() {
  if constexpr (kCluster) {
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace ridge::cuda
