// Which row of m a row of the padded matrix y is, from offsets that nothing has checked, by whole warps. Stands behind
// u32 and i64; it includes nothing.
#pragma once

namespace ridge::cuda {

constexpr u32 kGroupLanes = 32;  // groups that a warp looks at at once

// What a lane knows of its group: rows begin .. end of m are rows first .. last of y, padding included.
struct RowGroup {
  u32 begin, end, first, last;
};

// As the launch plan gives it.
template <bool kWide>
struct RowGroups {
  const void* offsets;  // [count + 1], of 4 or 8 bytes
  void* padded;         // the same
  u32 rows, count;      // of m; of groups
  i64 align;            // a multiple of 16

  // Within m.
  __device__ __forceinline__ u32 offset(u32 at) const {
    i64 found = 0;
    if constexpr (kWide) {
      found = static_cast<const i64*>(offsets)[at];
    } else {
      found = static_cast<const int*>(offsets)[at];
    }
    const i64 most = rows;
    return static_cast<u32>(found < 0 ? 0 : found > most ? most : found);
  }

  // The groups before those of a step.
  struct Before {
    u32 next, begin, place;  // the first group that is not among them, and where it begins in m and in y
  };
  __device__ __forceinline__ Before start() const { return {0, offset(0), 0}; }
  // Group before.next + lane; behind the last one a group without rows. An offset that falls counts as the one before.
  __device__ __forceinline__ RowGroup step(Before& before) const {
    const u32 lane = threadIdx.x % kGroupLanes, at = before.next + lane, wide = static_cast<u32>(align);
    u32 end = at < count ? offset(at + 1) : 0;
    if (end < before.begin) end = before.begin;
    for (u32 reach = 1; reach < kGroupLanes; reach *= 2) {
      const u32 other = __shfl_up_sync(~0u, end, reach);
      if (lane >= reach && other > end) end = other;
    }
    const u32 behind = __shfl_up_sync(~0u, end, 1), begin = lane == 0 ? before.begin : behind;
    const u32 size = (end - begin + wide - 1) / wide * wide;
    u32 last = size;
    for (u32 reach = 1; reach < kGroupLanes; reach *= 2) {
      const u32 other = __shfl_up_sync(~0u, last, reach);
      if (lane >= reach) last += other;
    }
    last += before.place;
    before = {before.next + kGroupLanes, __shfl_sync(~0u, end, kGroupLanes - 1),
              __shfl_sync(~0u, last, kGroupLanes - 1)};
    return {begin, end, last - size, last};
  }

  // Rows first .. end of m are rows `row` .. of y, up to the last one of their group; none where end <= first. The
  // rows that the lanes ask for are of one 16.
  struct Rows {
    u32 first, end;
  };
  __device__ __forceinline__ Rows rows_of(u32 row) const {
    return of_row(row / 16 * 16, Rows{0, 0}, [row](const RowGroup& group, int lane, u32) -> Rows {
      const u32 begin = __shfl_sync(~0u, group.begin, lane), first = __shfl_sync(~0u, group.first, lane);
      return {begin + (row - first), __shfl_sync(~0u, group.end, lane)};
    });
  }
  // The number of the group of a row of y, the same for all lanes; behind all groups that of the last one.
  __device__ __forceinline__ u32 group_of(u32 row) const {
    return of_row(row, count - 1, [](const RowGroup&, int, u32 number) { return number; });
  }

  // All rows of m that are of a group.
  __device__ __forceinline__ Rows rows_of_all() const {
    Before before = start();
    const u32 first = before.begin;
    while (before.next < count) step(before);
    return {first, before.begin};
  }

  // Where groups begin in y; by a warp.
  __device__ __forceinline__ void write_padded() const {
    const u32 lane = threadIdx.x % kGroupLanes;
    if (lane == 0) store(0, 0);
    for (Before before = start(); before.next < count;) {
      const u32 at = before.next + lane, last = step(before).last;
      if (at < count) store(at + 1, last);
    }
  }

 private:
  // take(group, lane, number) with what the lanes know and which of them has the group of a row of y.
  template <class Result, class Take>
  __device__ __forceinline__ Result of_row(u32 row, Result none, const Take& take) const {
    for (Before before = start(); before.next < count;) {
      const u32 number = before.next;
      const RowGroup group = step(before);
      const u32 here = __ballot_sync(~0u, group.first <= row && row < group.last);
      if (here == 0) continue;
      const int lane = __ffs(static_cast<int>(here)) - 1;
      return take(group, lane, number + static_cast<u32>(lane));
    }
    return none;
  }
  __device__ __forceinline__ void store(u32 at, u32 place) const {
    if constexpr (kWide) {
      static_cast<i64*>(padded)[at] = place;
    } else {
      static_cast<int*>(padded)[at] = static_cast<int>(place);
    }
  }
};

}  // namespace ridge::cuda
