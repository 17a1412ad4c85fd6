// Documents of a packed batch: where their tiles of queries and of keys lie, from offsets that nothing has checked, by
// one block. Stands behind the
// names of whole numbers; it includes nothing.
#pragma once

namespace ridge::cuda {
namespace {

inline constexpr u32 kDocumentThreads = 1024;

// Offsets [count + 1] of documents, as the launch plan gives them. One that falls is taken for the one before it, one
// outside of the rows for the nearer end.
struct DocumentOffsets {
  const int* queries;
  const int* keys;
  u32 count;
  u32 query_rows, key_rows;  // of all
};

// Rows of a document. Rows before the first and behind the last one are documents, too, whose queries see none of their
// keys.
struct Document {
  u32 first_query, queries, first_key, keys;
  u32 query_tiles, key_tiles;  // of those before it and its own
  u32 first_tile;              // of its queries
  bool outside;
};

// Inclusive, over the threads of the block: a sum, or the largest.
template <bool kSum>
__device__ __forceinline__ u32 scan_block(u32 x, u32 (&of_warps)[kDocumentThreads / kWarpThreads]) {
  const auto join = [](u32 a, u32 b) { return kSum ? a + b : max(a, b); };
  const u32 lane = threadIdx.x % kWarpThreads, warp = threadIdx.x / kWarpThreads;
  for (u32 reach = 1; reach < kWarpThreads; reach *= 2) {
    const u32 other = __shfl_up_sync(0xffffffffu, x, reach);
    if (lane >= reach) x = join(x, other);
  }
  __syncthreads();  // the totals of the last scan were read
  if (lane == kWarpThreads - 1) of_warps[warp] = x;
  __syncthreads();
  for (u32 w = 0; w < warp; ++w) x = join(x, of_warps[w]);
  return x;
}

// Calls `give` for the tiles from `from` on of the documents of a step, of `rows` rows each, and returns where they
// end. `size` and `tiles` are the members of a document that count its rows and its tiles.
template <class Give>
__device__ __forceinline__ u32 give_tiles(const Document (&documents)[kDocumentThreads], u32 from, u32 rows,
                                          u32 Document::*size, u32 Document::*tiles, const Give& give) {
  const u32 end = documents[kDocumentThreads - 1].*tiles;
  for (u32 tile = from + threadIdx.x; tile < end; tile += kDocumentThreads) {
    u32 low = 0, high = kDocumentThreads - 1;  // the first document that ends behind the tile
    while (low < high) {
      const u32 middle = (low + high) / 2;
      if (documents[middle].*tiles > tile) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const Document& of = documents[low];
    const u32 own = (of.*size + rows - 1) / rows;
    give(tile, of, (tile + own - of.*tiles) * rows);
  }
  return end;
}

// Calls `queries(tile, document, first)` for every tile of kQueryRows queries and `keys` for every one of kKeyRows
// keys, where `first` is the tile's first row within its document, and returns how many of each there are. kKeyRows 0:
// none.
template <u32 kQueryRows, u32 kKeyRows, class Queries, class Keys>
__device__ __forceinline__ uint2 cut_documents(const DocumentOffsets& offsets, Queries queries, Keys keys) {
  __shared__ Document documents[kDocumentThreads];
  __shared__ u32 of_warps[kDocumentThreads / kWarpThreads];
  const u32 thread = threadIdx.x, last_thread = kDocumentThreads - 1;
  const auto place = [&](const int* of, u32 at, u32 rows) {
    if (at > offsets.count) return rows;
    return static_cast<u32>(min(max(of[at], 0), static_cast<int>(rows)));
  };
  u32 query_end = 0, key_end = 0, query_tiles = 0, key_tiles = 0;  // of the documents before
  for (u32 first = 0; first < offsets.count + 2; first += kDocumentThreads) {
    const u32 at = first + thread;
    const u32 end_of_queries =
        max(query_end, scan_block<false>(place(offsets.queries, at, offsets.query_rows), of_warps));
    const u32 end_of_keys = max(key_end, scan_block<false>(place(offsets.keys, at, offsets.key_rows), of_warps));
    documents[thread].queries = end_of_queries;  // the ends, for the next thread
    documents[thread].keys = end_of_keys;
    __syncthreads();
    Document own{};
    own.first_query = thread == 0 ? query_end : documents[thread - 1].queries;
    own.first_key = thread == 0 ? key_end : documents[thread - 1].keys;
    query_end = documents[last_thread].queries;
    key_end = documents[last_thread].keys;
    own.queries = end_of_queries - own.first_query;
    own.keys = end_of_keys - own.first_key;
    own.outside = at == 0 || at > offsets.count;
    const u32 own_tiles = (own.queries + kQueryRows - 1) / kQueryRows;
    own.query_tiles = query_tiles + scan_block<true>(own_tiles, of_warps);
    own.first_tile = own.query_tiles - own_tiles;
    if constexpr (kKeyRows != 0) {
      own.key_tiles = key_tiles + scan_block<true>((own.keys + kKeyRows - 1) / kKeyRows, of_warps);
    }
    documents[thread] = own;
    __syncthreads();
    query_tiles = give_tiles(documents, query_tiles, kQueryRows, &Document::queries, &Document::query_tiles, queries);
    if constexpr (kKeyRows != 0) {
      key_tiles = give_tiles(documents, key_tiles, kKeyRows, &Document::keys, &Document::key_tiles, keys);
    }
    __syncthreads();
  }
  return make_uint2(query_tiles, key_tiles);
}

// Places of lengths, the longest first; of 64 and more those within 3 % have the same.
__device__ __forceinline__ u32 place_of_length(u32 length) {
  u32 place = length;
  if (length >= 64) {
    const u32 exponent = 31 - static_cast<u32>(__clz(static_cast<int>(length)));
    place = 64 + (exponent - 6) * 32 + (length >> (exponent - 5)) % 32;
  }
  return kDocumentThreads - 1 - place;
}

// Calls `give(tile, document, first)` for every tile of kRows queries, once, and returns how many there are. With
// `sorted` the tiles are counted so that those of a larger `length(document, first)` come first, and those of one
// length are in no order: a pass over the tiles finds how many there are of a length, another one which is where.
// Without, they are in the order of documents.
template <u32 kRows, class Length, class Give>
__device__ __forceinline__ u32 sort_documents(const DocumentOffsets& offsets, bool sorted, Length length, Give give) {
  __shared__ u32 places[kDocumentThreads];  // tiles of a length, then where the next one of them goes
  __shared__ u32 of_warps[kDocumentThreads / kWarpThreads];
  places[threadIdx.x] = 0;
  __syncthreads();
  u32 count = 0;
  for (u32 pass = sorted ? 0 : 1; pass < 2; ++pass) {
    const auto place = [&](u32 tile, const Document& of, u32 first) {
      if (sorted) tile = atomicAdd(&places[place_of_length(length(of, first))], 1u);
      if (pass == 1) give(tile, of, first);
    };
    count = cut_documents<kRows, 0>(offsets, place, [](u32, const Document&, u32) {}).x;
    if (pass == 1) break;
    const u32 own = places[threadIdx.x];
    places[threadIdx.x] = scan_block<true>(own, of_warps) - own;
    __syncthreads();
  }
  return count;
}

}  // namespace
}  // namespace ridge::cuda
