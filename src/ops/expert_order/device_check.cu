// Checks of the sorted choices on the GPU: every element of every output, always. check_numbers.cuh comes before this.
// Nothing is sorted: the outputs are right if every choice is in the row that it names, between the offsets of its
// expert, behind an earlier choice or at the first of them, and if no expert has more rows than `align` asks for.
namespace ridge::expert_order_check {

constexpr i64 kMostExperts = 4096;
enum Output : i64 { kOffsets, kTokens, kRows, kChoices };

// By its place in a matrix, row after row.
__device__ inline i64 at(const Matrix& x, i64 place) {
  const i64 row = place / x.columns;
  return static_cast<i64>(load(x, row, place - row * x.columns));
}

struct Order {
  Matrix experts, offsets, tokens, rows, choices;
  i64 align;

  __device__ inline i64 count() const { return experts.rows * experts.columns; }
  __device__ inline i64 places() const { return choices.columns; }
  __device__ inline i64 limit() const { return offsets.columns - 1; }

  __device__ inline bool choice_is_right(i64 choice) const {
    const i64 expert = at(experts, choice), row = at(rows, choice);
    if (expert < 0 || expert >= limit()) return row == -1;
    if (row < at(offsets, expert) || row >= at(offsets, expert + 1) || row < 0 || row >= places()) return false;
    return at(choices, row) == choice && at(tokens, row) == choice / experts.columns;
  }
  // Behind the choice of an earlier place, unless it is the first of its expert.
  __device__ inline bool row_is_right(i64 row) const {
    const i64 choice = at(choices, row);
    if (choice == -1) return at(tokens, row) == -1;
    if (choice < 0 || choice >= count() || at(rows, choice) != row) return false;
    const i64 expert = at(experts, choice);
    if (expert < 0 || expert >= limit() || row == at(offsets, expert)) return true;  // the choice itself is looked at
    const i64 before = row == 0 ? -1 : at(choices, row - 1);
    return before >= 0 && before < choice;
  }
  // Whole multiples, and something in the last of them.
  __device__ inline bool expert_is_right(i64 expert) const {
    const i64 begin = at(offsets, expert), end = at(offsets, expert + 1);
    if ((expert == 0 && begin != 0) || begin < 0 || end < begin || end > places()) return false;
    if (begin % align != 0 || end % align != 0) return false;
    return end == begin || at(choices, end - align) != -1;
  }
};

// How many choices each expert has and where its rows begin, by all threads of a block.
struct Table {
  u32 counts[kMostExperts], starts[kMostExperts + 1];

  __device__ inline void fill(const Matrix& experts, i64 limit, i64 align) {
    for (i64 e = threadIdx.x; e < limit; e += blockDim.x) counts[e] = 0;
    __syncthreads();
    for (i64 choice = threadIdx.x; choice < experts.rows * experts.columns; choice += blockDim.x) {
      const i64 expert = at(experts, choice);
      if (expert >= 0 && expert < limit) atomicAdd(&counts[expert], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      starts[0] = 0;
      for (i64 e = 0; e < limit; ++e) {
        starts[e + 1] = starts[e] + static_cast<u32>((counts[e] + align - 1) / align * align);
      }
    }
    __syncthreads();
  }
  // The row of a choice: as many further as there are of its expert in front of it.
  __device__ inline i64 row_of(const Matrix& experts, i64 limit, i64 choice) const {
    const i64 expert = at(experts, choice);
    if (expert < 0 || expert >= limit) return -1;
    i64 row = starts[expert];
    for (i64 other = 0; other < choice; ++other) row += at(experts, other) == expert ? 1 : 0;
    return row;
  }
  __device__ inline i64 choice_of(const Matrix& experts, i64 limit, i64 row) const {
    i64 expert = 0;
    while (expert < limit && starts[expert + 1] <= row) ++expert;
    if (expert == limit || row - starts[expert] >= counts[expert]) return -1;
    i64 choice = -1;
    for (i64 left = row - starts[expert]; left >= 0; --left) {
      do ++choice;
      while (at(experts, choice) != expert);
    }
    return choice;
  }
};

}  // namespace ridge::expert_order_check

using namespace ridge::expert_order_check;

extern "C" __global__ void expert_order_all(Matrix experts, Matrix offsets, Matrix tokens, Matrix rows, Matrix choices,
                                            i64 align, Projection* result) {
  const Order order{experts, offsets, tokens, rows, choices, align};
  const i64 numbers[] = {order.count(), order.places(), order.limit()};
  double seen = 0;
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x;
       i < numbers[0] || i < numbers[1] || i < numbers[2]; i += static_cast<i64>(gridDim.x) * blockDim.x) {
    bool right = i >= numbers[0] || order.choice_is_right(i);
    right = right && (i >= numbers[1] || order.row_is_right(i));
    right = right && (i >= numbers[2] || order.expert_is_right(i));
    if (!right) note_worst(result, 1e30, i);
    seen += 1;
  }
  add_to(result, 0, seen);
}

// `columns`: of a row of the output.
extern "C" __global__ void expert_order_reference(Matrix experts, i64 limit, i64 align, i64 output, i64 columns,
                                                  i64 first, i64 count, ElementArrays to) {
  __shared__ Table table;
  table.fill(experts, limit, align);
  for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count * columns;
       i += static_cast<i64>(gridDim.x) * blockDim.x) {
    const i64 place = first * columns + i;
    i64 found = 0;
    if (output == kOffsets) {
      found = table.starts[place];
    } else if (output == kRows) {
      found = table.row_of(experts, limit, place);
    } else {
      found = table.choice_of(experts, limit, place);
      if (output == kTokens && found >= 0) found /= experts.columns;
    }
    to.put(i, {static_cast<double>(found), 0, 0, 0});
  }
}
