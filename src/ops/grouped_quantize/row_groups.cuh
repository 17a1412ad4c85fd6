// Which row of m a row of the padded matrix y is, from offsets that nothing has checked, by whole warps. Stands behind
// u32 and i64; it includes nothing.
#pragma once

namespace ridge::cuda {

constexpr u32 kGroupLanes = 32;  // that go through groups together

// Rows begin .. end of m are rows first .. last of y, padding included.
struct RowGroup {
  u32 begin, end, first, last;

  // The next one, which ends at that offset; one that falls counts as the one before. `align` is a power of two.
  __device__ __forceinline__ void next(u32 offset, u32 align) {
    begin = end, first = last;
    end = offset > begin ? offset : begin;
    last = first + ((end - begin + align - 1) & ~(align - 1));
  }
};

// As the launch plan gives it.
template <bool kWide>
struct RowGroups {
  const void* offsets;  // [count + 1], of 4 or 8 bytes
  void* padded;         // the same
  u32 rows, count;      // of m; of groups
  i64 align;            // a multiple of 16 that is a power of two

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

  // Consecutive groups at .. to of a lane: all of them as one, none for the lanes behind the last.
  struct Share {
    u32 at, to;
    RowGroup all;
  };
  __device__ __forceinline__ Share share() const {
    const u32 lane = threadIdx.x % kGroupLanes, each = (count + kGroupLanes - 1) / kGroupLanes;
    Share own{};
    own.at = lane * each < count ? lane * each : count;
    own.to = own.at + each < count ? own.at + each : count;
    own.all.begin = offset(own.at);
    bool falls = false;
    RowGroup group = before(own);
#pragma unroll 1
    for (u32 g = own.at; g < own.to; ++g) {
      const u32 end = offset(g + 1);
      falls |= end < group.end;
      group.next(end, static_cast<u32>(align));
    }
    own.all.end = group.end, own.all.last = group.last;
    if (__any_sync(~0u, falls)) raise(own);
    for (u32 reach = 1; reach < kGroupLanes; reach *= 2) {
      const u32 other = __shfl_up_sync(~0u, own.all.last, reach);
      if (lane >= reach) own.all.last += other;
    }
    const u32 last = __shfl_up_sync(~0u, own.all.last, 1);
    own.all.first = lane == 0 ? 0 : last;
    return own;
  }

  // Rows first .. end of m are rows `row` .. of y, up to the last one of their group; none where end <= first. The
  // rows that the lanes ask for are of one 16.
  struct Rows {
    u32 first, end;
  };
  __device__ __forceinline__ Rows rows_of(u32 row) const {
    RowGroup group{};
    if (find(row / 16 * 16, group) == count) return {0, 0};
    return {group.begin + (row - group.first), group.end};
  }
  // The number of the group of a row of y, the same for all lanes; behind all groups that of the last one.
  __device__ __forceinline__ u32 group_of(u32 row) const {
    RowGroup group{};
    const u32 found = find(row, group);
    return found < count ? found : count - 1;
  }

  // All rows of m that are of a group.
  __device__ __forceinline__ Rows rows_of_all() const {
    const Share own = share();
    return {offset(0), __shfl_sync(~0u, own.all.end, kGroupLanes - 1)};
  }

  // Where groups begin in y; by a warp.
  __device__ __forceinline__ void write_padded() const {
    const Share own = share();
    RowGroup group = before(own);
    if (threadIdx.x % kGroupLanes == 0) store(0, 0);
#pragma unroll 1
    for (u32 g = own.at; g < own.to;) {
      group.next(offset(g + 1), static_cast<u32>(align));
      store(++g, group.last);
    }
  }

 private:
  // A group without rows in front of a lane's.
  __device__ __forceinline__ static RowGroup before(const Share& own) {
    return {own.all.begin, own.all.begin, own.all.first, own.all.first};
  }
  // Where offsets fall somewhere: a lane's groups begin at the largest offset up to there.
  __device__ __forceinline__ void raise(Share& own) const {
    const u32 lane = threadIdx.x % kGroupLanes;
    u32 end = offset(0);
#pragma unroll 1
    for (u32 g = own.at; g < own.to; ++g) end = offset(g + 1) > end ? offset(g + 1) : end;
    for (u32 reach = 1; reach < kGroupLanes; reach *= 2) {
      const u32 other = __shfl_up_sync(~0u, end, reach);
      if (lane >= reach && other > end) end = other;
    }
    const u32 behind = __shfl_up_sync(~0u, end, 1);
    own.all = {lane == 0 ? offset(0) : behind, end, 0, 0};
    RowGroup group = before(own);
#pragma unroll 1
    for (u32 g = own.at; g < own.to; ++g) group.next(offset(g + 1), static_cast<u32>(align));
    own.all.last = group.last;
  }
  // The number of the group of a row of y, the same for all lanes; `count` behind all groups.
  __device__ __forceinline__ u32 find(u32 row, RowGroup& group) const {
    const Share own = share();
    const u32 here = __ballot_sync(~0u, own.all.first <= row && row < own.all.last);
    if (here == 0) return count;
    const int lane = __ffs(static_cast<int>(here)) - 1;
    u32 g = __shfl_sync(~0u, own.at, lane);
    group.end = __shfl_sync(~0u, own.all.begin, lane), group.last = __shfl_sync(~0u, own.all.first, lane);
#pragma unroll 1
    while (group.last <= row) group.next(offset(++g), static_cast<u32>(align));
    return g - 1;
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
