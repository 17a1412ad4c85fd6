// C[m,n] = A[m,k] * B[k,n], fp32, row-major: from the textbook loops to a kernel near the peak of one core.
//
// With every tunable at its default this is the textbook triple loop. Each tunable adds one classical idea; together
// they are the usual structure of a fast matrix product:
//
//   for columns in blocks of NC          the part of B in use stays in the last-level cache        (section 6)
//     for depth in blocks of KC          one panel of B stays in the L1 cache, A in L2
//       pack B                           strided rows become one contiguous stream                 (section 4)
//       for rows in blocks of MC
//         pack A
//         for panels of NV*VECTOR columns
//           for tiles of MR rows         MR x NV vectors of C live in registers                    (section 3)
//             for k                      one multiply-add per accumulator, VECTOR lanes wide
//
// Needs: fp32, layout nn, last stride 1. Any m, n, k >= 0 and any row stride.
//
// The library builds the configurations below; `ridge optimize gemm` and `ridge demo` start from the textbook, and
// `ridge promote` adds a line for what a campaign found.

// clang-format off
/* ridge-kernel
op = "gemm"
rank = 50
[configs]
avx512_6x4 = { VECTOR = 16, MR = 6, NV = 4, instructions = "avx512" }
avx2_4x3 = { VECTOR = 8, MR = 4, NV = 3, instructions = "avx2" }
default = { }
*/
/* ridge-scope
dtype = ["f32"]
layout = ["nn"]
accumulate = [0]
batch = [1]
bias = [0]
activation = ["none"]
residual = [0]
*/
/* ridge-tunables
[[tunable]]
name = "ORDER"
values = [0, 1]
default = 0
kind = "structure"
category = "algorithm"
title = "loop order of the scalar code: 0 is i,j,k, 1 is i,k,j"
effect = "the inner loop runs along a row of B and C, so the compiler may vectorise it"
needs = "VECTOR * MR * NV == 1"
model = "loop_order"

[[tunable]]
name = "VECTOR"
values = [1, 4, 8, 16]
default = 1
kind = "structure"
category = "resource"
title = "fp32 lanes of one vector along n"
effect = "one instruction does VECTOR multiply-adds"
model = "vector_width"

[[tunable]]
name = "MR"
values = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14]
default = 1
kind = "parameter"
category = "tile"
title = "rows of the register tile"
effect = "a loaded vector of B is used MR times; MR * NV independent sums hide the latency of the multiply-add"
model = "register_rows"
group = "register tile"

[[tunable]]
name = "NV"
values = [1, 2, 3, 4, 5, 6]
default = 1
kind = "parameter"
category = "tile"
title = "vectors across the register tile"
effect = "each broadcast element of A is used NV times"
model = "register_cols"
group = "register tile"

[[tunable]]
name = "PACK_B"
values = [0, 1, 2]
default = 0
kind = "structure"
category = "layout"
title = "panels of B in contiguous memory: 1 copied ahead, block by block; 2 while their first tile runs"
effect = "the inner loop reads B as one stream: no cache-set conflicts, no page per row, prefetchers can follow"
needs = "VECTOR * MR * NV > 1"
model = "pack"

[[tunable]]
name = "PACK_A"
values = [0, 1]
default = 0
kind = "structure"
category = "layout"
title = "copy the block of A into rows of a fixed length"
effect = "row addresses become constant offsets from one register, and long rows of A stop colliding in the cache"
needs = "VECTOR * MR * NV > 1"
model = "pack"

[[tunable]]
name = "KC"
values = [0, 64, 96, 128, 192, 256, 320, 384, 512]
default = 0
kind = "parameter"
category = "tile"
title = "depth of one cache block (0: all of k)"
effect = "a panel of B, KC * NV * VECTOR elements, fits the L1 cache"
needs = "VECTOR * MR * NV > 1"
model = "block_k"
group = "cache blocking"

[[tunable]]
name = "MC"
values = [0, 48, 96, 192, 384]
default = 0
kind = "parameter"
category = "tile"
title = "rows of one cache block (0: all of m)"
effect = "the block of A, MC * KC elements, fits the L2 cache"
needs = "VECTOR * MR * NV > 1"
model = "block_m"
group = "cache blocking"

[[tunable]]
name = "NC"
values = [0, 192, 384, 768, 1536]
default = 0
kind = "parameter"
category = "tile"
title = "columns of one cache block (0: all of n)"
effect = "the block of B, KC * NC elements, fits the last-level cache"
needs = "VECTOR * MR * NV > 1"
model = "block_n"
group = "cache blocking"

[[tunable]]
name = "PREFETCH_C"
values = [0, 1]
default = 0
kind = "parameter"
category = "pipeline"
title = "ask for the tile of C before its loop over k"
effect = "the stores at the end of the tile find their lines in the L1 cache"
needs = "VECTOR * MR * NV > 1"
model = "prefetch"
group = "prefetch"

[[tunable]]
name = "PREFETCH_AB"
values = [0, 1]
default = 0
kind = "parameter"
category = "pipeline"
title = "ask for the next rows of A and the next panel of B while this tile computes"
effect = "first touches of A and B overlap with arithmetic instead of stalling it"
needs = "VECTOR * MR * NV > 1"
model = "prefetch"
group = "prefetch"

[[tunable]]
name = "UNROLL"
values = [1, 2, 4, 8]
default = 1
kind = "parameter"
category = "pipeline"
title = "steps of k per trip of the inner loop"
effect = "fewer branches and address updates per multiply-add"
needs = "VECTOR * MR * NV > 1"
model = "unroll"

[[tunable]]
name = "THREADS"
values = [1, 2, 4, 8, 16]
default = 1
kind = "structure"
category = "algorithm"
title = "threads at most, each with its own columns of C"
effect = "every core multiplies"
needs = "VECTOR * MR * NV > 1"
model = "threads"

[[constraint]]
expression = "MR * NV + NV + 1 <= 32"
reason = "the accumulators, one row of B and one element of A live in 32 vector registers"
[[constraint]]
expression = "NV == 1 || MR > 1"
reason = "a tile of one row never reuses B"
[[constraint]]
expression = "VECTOR > 1 || MR * NV <= 8"
reason = "scalar tiles above 8 sums only cost compile time"
[[constraint]]
expression = "MC == 0 || MC >= 3 * MR"
reason = "a block of rows holds several tiles"
[[constraint]]
expression = "PACK_A == 0 || KC > 0"
reason = "packed rows of A have the fixed length KC"
*/
// clang-format on

#include <stdint.h>
#include <stdlib.h>

#include <initializer_list>

#include "ridge/candidate.h"

#ifndef ORDER
#define ORDER 0
#endif
#ifndef VECTOR
#define VECTOR 1
#endif
#ifndef MR
#define MR 1
#endif
#ifndef NV
#define NV 1
#endif
#ifndef PACK_B
#define PACK_B 0
#endif
#ifndef PACK_A
#define PACK_A 0
#endif
#ifndef KC
#define KC 0
#endif
#ifndef MC
#define MC 0
#endif
#ifndef NC
#define NC 0
#endif
#ifndef PREFETCH_C
#define PREFETCH_C 0
#endif
#ifndef PREFETCH_AB
#define PREFETCH_AB 0
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef THREADS
#define THREADS 1
#endif

#if THREADS > 1
#include <pthread.h>
#endif

namespace {

// ---- 1. What is multiplied ------------------------------------------------------------------------------------------

using Index = int64_t;

struct Problem {
  Index m, n, k;
  const float* a;
  Index lda;  // elements between consecutive rows
  const float* b;
  Index ldb;
  float* c;
  Index ldc;
};

constexpr Index min_of(Index x, Index y) { return x < y ? x : y; }
constexpr Index ceil_div(Index x, Index y) { return (x + y - 1) / y; }

#if VECTOR * MR * NV == 1

// ---- 2. The textbook ------------------------------------------------------------------------------------------------
// i,j,k: one running sum. Every addition waits for the one before, and B is read down a column, one cache line per
// element. i,k,j walks rows of B and C instead, at the price of reading and writing C k times.

void multiply(const Problem& p) {
  for (Index i = 0; i < p.m; ++i) {
#if ORDER == 0
    for (Index j = 0; j < p.n; ++j) {
      float sum = 0;
      for (Index k = 0; k < p.k; ++k) sum += p.a[i * p.lda + k] * p.b[k * p.ldb + j];
      p.c[i * p.ldc + j] = sum;
    }
#else
    float* __restrict row = p.c + i * p.ldc;
    for (Index j = 0; j < p.n; ++j) row[j] = 0;
    for (Index k = 0; k < p.k; ++k) {
      const float x = p.a[i * p.lda + k];
      const float* __restrict from = p.b + k * p.ldb;
      for (Index j = 0; j < p.n; ++j) row[j] += x * from[j];
    }
#endif
  }
}

#else

// ---- 3. The register tile -------------------------------------------------------------------------------------------
// ROWS x NV vectors of C are summed in registers while k runs. Per step of k: NV loads of B, ROWS broadcasts of A and
// ROWS * NV multiply-adds. A core starts two multiply-adds per cycle and each takes four, so at least eight independent
// sums are needed, and with two loads per cycle ROWS + NV may not exceed ROWS * NV.

#if VECTOR == 1
using Vec = float;
using LooseVec = float;
#else
typedef float Vec __attribute__((vector_size(4 * VECTOR)));
typedef Vec LooseVec __attribute__((aligned(4)));  // the same at any address
#endif

constexpr Index kPanel = NV * VECTOR;  // columns of a tile
constexpr Index kPackedRow = KC + 16;
constexpr Index kLine = 16;  // elements of a cache line; the loop over k runs in chunks of this length

inline Vec load(const float* from) { return *reinterpret_cast<const LooseVec*>(from); }
inline void store(float* to, Vec value) { *reinterpret_cast<LooseVec*>(to) = value; }

struct Tile {
  Index depth;  // steps of k
  const float* a;
  Index lda;
  const float* b;
  Index ldb;
  float* packed;        // where to leave a copy of the panel of B, if that is wanted
  const float* next_a;  // rows that the following tile needs, or null
  float* c;
  Index ldc;
  Index columns;  // of the panel that exist in C, 1..kPanel
  bool add;       // to what C holds from the block of k before
};

// The panel that comes after this one, asked for piece by piece while the tiles of this one run.
struct NextPanel {
  const float* b;  // null: there is none
  Index ldb, row, depth, share;
  void touch() {
    if (b == nullptr) return;
    for (const Index end = min_of(row + share, depth); row < end; ++row) {
      for (Index j = 0; j < kPanel; j += kLine) __builtin_prefetch(b + row * ldb + j);
    }
  }
};

// One k: COLS vectors of B, ROWS elements of A, ROWS * COLS multiply-adds.
template <int ROWS, int COLS, bool COPY>
[[gnu::always_inline]] inline void step(Vec (&sum)[ROWS][COLS], const float* a, Index lda, const float* b,
                                        float* copy) {
  Vec row[COLS];
#pragma GCC unroll 8
  for (int v = 0; v < COLS; ++v) {
    row[v] = load(b + v * VECTOR);
    if constexpr (COPY) store(copy + v * VECTOR, row[v]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i) {
    const float x = a[i * lda];
#pragma GCC unroll 8
    for (int v = 0; v < COLS; ++v) sum[i][v] += x * row[v];
  }
}

template <int ROWS, int COLS>
[[gnu::always_inline]] inline void write_back(const Vec (&sum)[ROWS][COLS], const Tile& t) {
  if (t.columns >= COLS * VECTOR) {
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < COLS; ++v) {
        float* to = t.c + i * t.ldc + v * VECTOR;
        store(to, t.add ? load(to) + sum[i][v] : sum[i][v]);
      }
    }
    return;
  }
  float edge[ROWS][COLS * VECTOR];
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < COLS; ++v) store(&edge[i][v * VECTOR], sum[i][v]);
  }
  for (int i = 0; i < ROWS; ++i) {
    float* to = t.c + i * t.ldc;
    for (Index j = 0; j < t.columns; ++j) to[j] = t.add ? to[j] + edge[i][j] : edge[i][j];
  }
}

template <int ROWS, int COLS, bool COPY>
[[gnu::noinline]] void run_tile(const Tile& t, [[maybe_unused]] NextPanel& next) {
  constexpr bool kMain = ROWS == MR && COLS == NV;
  constexpr int kUnroll = kMain ? UNROLL : 1;
  Vec sum[ROWS][COLS] = {};
#if PREFETCH_C
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 8
    for (Index j = 0; j < COLS * VECTOR; j += kLine) __builtin_prefetch(t.c + i * t.ldc + j, 1);
  }
#endif
  const float *a = t.a, *b = t.b;
  const Index lda = PACK_A ? kPackedRow : t.lda, ldb = PACK_B != 0 && !COPY ? kPanel : t.ldb;
  [[maybe_unused]] float* copy = t.packed;
  Index k = 0;
  for (; k + kLine <= t.depth; k += kLine) {
#if PREFETCH_AB
    if (t.next_a != nullptr) {
#pragma GCC unroll 16
      for (int i = 0; i < ROWS; ++i) __builtin_prefetch(t.next_a + i * t.lda + k);
    }
    next.touch();
#endif
    for (Index s = 0; s < kLine; s += kUnroll) {
#pragma GCC unroll 16
      for (int u = 0; u < kUnroll; ++u, ++a, b += ldb, copy += kPanel) step<ROWS, COLS, COPY>(sum, a, lda, b, copy);
    }
  }
  for (; k < t.depth; ++k, ++a, b += ldb, copy += kPanel) step<ROWS, COLS, COPY>(sum, a, lda, b, copy);
  write_back<ROWS, COLS>(sum, t);
}

// ---- 4. Packing -----------------------------------------------------------------------------------------------------

// Kept for as long as the process lives: a destructor would have to be registered while the kernel is loaded, when
// nothing of it may run.
struct Buffer {
  float* data = nullptr;
  Index size = 0;
  bool reserve(Index elements) {
    if (elements <= size) return true;
    free(data);
    size = ceil_div(elements, 1024) * 1024;
    data = static_cast<float*>(aligned_alloc(64, static_cast<size_t>(size) * sizeof(float)));
    if (data == nullptr) size = 0;
    return data != nullptr;
  }
};

// One panel of B: `columns` of kPanel columns exist, the others become zero.
void pack_panel(const float* b, Index ldb, Index depth, Index columns, float* to) {
  for (Index k = 0; k < depth; ++k, b += ldb, to += kPanel) {
    if (columns == kPanel) {
      for (int v = 0; v < NV; ++v) store(to + v * VECTOR, load(b + v * VECTOR));
    } else {
      for (Index j = 0; j < kPanel; ++j) to[j] = j < columns ? b[j] : 0.0f;
    }
  }
}

// Rows of A one after the other, each followed by a gap of one cache line so that they start in different cache sets.
#if PACK_A
void pack_rows(const float* a, Index lda, Index rows, Index depth, float* to) {
  for (Index i = 0; i < rows; ++i, a += lda, to += kPackedRow) {
    for (Index k = 0; k < depth; ++k) to[k] = a[k];
  }
}
#endif

// ---- 5. One panel of B against a block of rows ----------------------------------------------------------------------

// All whole tiles of ROWS rows; `t` moves on to the first row that is left.
template <int ROWS, int COLS>
[[gnu::always_inline]] inline void run_tiles(Tile& t, Index& rows, NextPanel& next) {
  for (; rows >= ROWS; rows -= ROWS) {
    run_tile<ROWS, COLS, false>(t, next);
    t.a += ROWS * t.lda;
    t.c += ROWS * t.ldc;
  }
}

// The rows that fill no whole tile go in powers of two.
template <int COLS>
void finish_rows(Tile t, Index rows, NextPanel& next) {
  t.next_a = nullptr;
  if constexpr (MR > 8) run_tiles<8, COLS>(t, rows, next);
  if constexpr (MR > 4) run_tiles<4, COLS>(t, rows, next);
  if constexpr (MR > 2) run_tiles<2, COLS>(t, rows, next);
  if constexpr (MR > 1) run_tiles<1, COLS>(t, rows, next);
}

void multiply_panel(Tile t, Index rows, bool copy, bool first_use_of_a, NextPanel next) {
  if (NV > 1 && t.columns <= VECTOR) {  // a narrow last panel
    run_tiles<MR, 1>(t, rows, next);
    finish_rows<1>(t, rows, next);
    return;
  }
  if (PACK_B == 2 && copy) {
    run_tile<MR, NV, true>(t, next);
    t.b = t.packed;
    rows -= MR;
    t.a += MR * t.lda;
    t.c += MR * t.ldc;
  }
  for (; rows >= MR; rows -= MR) {
    if (PREFETCH_AB) t.next_a = first_use_of_a && rows >= 2 * MR ? t.a + MR * t.lda : nullptr;
    run_tile<MR, NV, false>(t, next);
    t.a += MR * t.lda;
    t.c += MR * t.ldc;
  }
  finish_rows<NV>(t, rows, next);
}

// ---- 6. Cache blocks ------------------------------------------------------------------------------------------------

struct Workspace {
  Buffer a, b;
};

// One block of rows x depth against one block of depth x columns: everything here is meant to stay in cache.
bool multiply_block(const Problem& p, Index i0, Index rows, Index k0, Index depth, Index j0, Index columns,
                    Workspace& work) {
  const bool first_rows = i0 == 0;
  const bool keep_panels = PACK_B == 1 || (PACK_B == 2 && rows < p.m);  // later blocks of rows need them again
  const Index panels = ceil_div(columns, kPanel);
  if (!work.b.reserve((keep_panels ? panels : 1) * kPanel * depth)) return false;
  const float* a = p.a + i0 * p.lda + k0;
  Index lda = p.lda;
#if PACK_A
  if (!work.a.reserve(rows * kPackedRow)) return false;
  pack_rows(a, p.lda, rows, depth, work.a.data);
  a = work.a.data;
  lda = kPackedRow;
#endif
  if (PACK_B == 1 && first_rows) {
    for (Index q = 0; q < panels; ++q) {
      pack_panel(p.b + k0 * p.ldb + j0 + q * kPanel, p.ldb, depth, min_of(kPanel, columns - q * kPanel),
                 work.b.data + q * kPanel * depth);
    }
  }
  for (Index q = 0; q < panels; ++q) {
    const float* source = p.b + k0 * p.ldb + j0 + q * kPanel;
    float* packed = work.b.data + (keep_panels ? q * kPanel * depth : 0);
    const Index width = min_of(kPanel, columns - q * kPanel);
    const bool whole = width == kPanel;
    const bool is_packed = PACK_B == 1 || (PACK_B == 2 && keep_panels && !first_rows);
    const bool copy_first = PACK_B == 2 && !is_packed && whole && rows >= MR;
    const bool copy_now = !is_packed && !copy_first && (PACK_B == 2 || !whole);  // a ragged panel is always copied
    if (copy_now) pack_panel(source, p.ldb, depth, width, packed);
    const bool from_packed = is_packed || copy_now;
    const Tile tile{.depth = depth,
                    .a = a,
                    .lda = lda,
                    .b = from_packed ? packed : source,
                    .ldb = from_packed ? kPanel : p.ldb,
                    .packed = packed,
                    .next_a = nullptr,
                    .c = p.c + i0 * p.ldc + j0 + q * kPanel,
                    .ldc = p.ldc,
                    .columns = width,
                    .add = k0 > 0};
    const bool another = first_rows && PACK_B != 1 && columns - q * kPanel >= 2 * kPanel;
    const NextPanel next{another ? source + kPanel : nullptr, p.ldb, 0, depth,
                         ceil_div(kLine, rows / MR + (rows < MR))};
    multiply_panel(tile, rows, copy_first, PACK_A == 0 && q == 0 && j0 == 0, next);
  }
  return true;
}

bool multiply_columns(const Problem& p, Workspace& work) {
  const Index nc = NC > 0 ? NC : p.n, mc = MC > 0 ? MC : p.m;
  // Blocks of equal depth, whole cache lines, none longer than KC.
  const Index kc = KC > 0 ? min_of(KC, ceil_div(ceil_div(p.k, ceil_div(p.k, KC + (KC == 0))), kLine) * kLine) : p.k;
  for (Index j0 = 0; j0 < p.n; j0 += nc) {
    for (Index k0 = 0; k0 < p.k; k0 += kc) {
      for (Index i0 = 0; i0 < p.m; i0 += mc) {
        if (!multiply_block(p, i0, min_of(mc, p.m - i0), k0, min_of(kc, p.k - k0), j0, min_of(nc, p.n - j0), work)) {
          return false;
        }
      }
    }
  }
  return true;
}

// ---- 7. Threads -----------------------------------------------------------------------------------------------------
// Every thread multiplies its own panels of columns; no two write the same cache line of packed data or the same C.

Workspace workspaces[THREADS];  // kept between calls; the content is not

#if THREADS > 1
struct Share {
  Problem problem;
  Workspace* work;
  bool done;
};

void* run_share(void* share) {
  auto* mine = static_cast<Share*>(share);
  mine->done = multiply_columns(mine->problem, *mine->work);
  return nullptr;
}
#endif

bool multiply(const Problem& p, [[maybe_unused]] Index threads) {
  if (p.k == 0) {
    for (Index i = 0; i < p.m; ++i) {
      for (Index j = 0; j < p.n; ++j) p.c[i * p.ldc + j] = 0;
    }
    return true;
  }
#if THREADS > 1
  const Index panels = ceil_div(p.n, kPanel), count = min_of(min_of(THREADS, threads), panels);
  pthread_t handles[THREADS];
  bool started[THREADS] = {};
  Share shares[THREADS];
  for (Index i = count - 1; i >= 0; --i) {
    const Index from = panels * i / count * kPanel, to = min_of(p.n, panels * (i + 1) / count * kPanel);
    Problem part = p;
    part.n = to - from;
    part.b += from;
    part.c += from;
    shares[i] = {part, &workspaces[i], false};
    started[i] = i > 0 && pthread_create(&handles[i], nullptr, run_share, &shares[i]) == 0;
    if (!started[i]) run_share(&shares[i]);  // the caller's own share comes last, and any that got no thread
  }
  bool done = true;
  for (Index i = 0; i < count; ++i) {
    if (started[i]) pthread_join(handles[i], nullptr);
    done = done && shares[i].done;
  }
  return done;
#else
  return multiply_columns(p, workspaces[0]);
#endif
}

#endif

}  // namespace

// ---- 8. The entry point ---------------------------------------------------------------------------------------------

extern "C" int ridge_kernel(const ridge_call* call) {
  if (call->version != RIDGE_CANDIDATE_VERSION || call->operand_count != 3) return 1;
  const ridge_tensor &a = call->operands[0], &b = call->operands[1], &c = call->operands[2];
  for (const ridge_tensor* t : {&a, &b, &c}) {
    if (t->dtype != RIDGE_F32 || t->rank != 2) return 2;
    if (t->shape[1] > 1 && t->stride[1] != 1) return 3;
  }
  if (a.shape[1] != b.shape[0] || c.shape[0] != a.shape[0] || c.shape[1] != b.shape[1]) return 4;
  const Problem problem{c.shape[0],  c.shape[1],
                        a.shape[1],  static_cast<const float*>(a.data),
                        a.stride[0], static_cast<const float*>(b.data),
                        b.stride[0], static_cast<float*>(c.data),
                        c.stride[0]};
  if (problem.m == 0 || problem.n == 0) return 0;
#if VECTOR * MR * NV == 1
  multiply(problem);
  return 0;
#else
  return multiply(problem, call->threads) ? 0 : 5;
#endif
}
