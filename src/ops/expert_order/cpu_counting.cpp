// Counting sort. Every thread takes a run of the choices: it counts those of each expert, and once all runs are counted
// and each has its place among the rows of each expert, it writes them there. Bound by the scattered writes.
#include <algorithm>

#include "device/cpu/thread_pool.h"
#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {
namespace {

// The four outputs and the input.
struct Operands {
  Shape shape;
  TensorView experts, rows;
  std::int32_t *offsets, *tokens, *choices;

  [[nodiscard]] std::int64_t expert(std::int64_t token, std::int64_t k) const {
    return static_cast<const std::int32_t*>(experts.data)[token * experts.stride[0] + k];
  }
  [[nodiscard]] bool is_one(std::int64_t expert) const { return expert >= 0 && expert < shape.experts; }
  void put(std::int64_t token, std::int64_t k, std::int64_t row) const {
    static_cast<std::int32_t*>(rows.data)[token * rows.stride[0] + k] = static_cast<std::int32_t>(row);
    if (row < 0) return;
    tokens[row] = static_cast<std::int32_t>(token);
    choices[row] = static_cast<std::int32_t>(token * shape.top + k);
  }
  void put_none(std::int64_t first, std::int64_t last) const {
    std::fill(tokens + first, tokens + last, -1);
    std::fill(choices + first, choices + last, -1);
  }
};

// Of each run and expert the number of choices, which becomes the row of the first.
using Counts = std::vector<std::vector<std::int64_t>>;

void place_runs(const Operands& o, Counts& counts) {
  std::int64_t row = 0;
  for (std::int64_t e = 0; e < o.shape.experts; ++e) {
    o.offsets[e] = static_cast<std::int32_t>(row);
    for (std::vector<std::int64_t>& run : counts) {
      const std::int64_t count = std::exchange(run[static_cast<std::size_t>(e)], row);
      row += count;
    }
    const std::int64_t end = (row + o.shape.align - 1) / o.shape.align * o.shape.align;
    o.put_none(row, end);
    row = end;
  }
  o.offsets[o.shape.experts] = static_cast<std::int32_t>(row);
  o.put_none(row, o.shape.places());
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const auto data = [&](OperandAt at) { return static_cast<std::int32_t*>(arguments[at].data); };
  const Operands o{shape_of(problem), arguments[kChosen], arguments[kRows],
                   data(kOffsets),    data(kTokenOf),     data(kChoices)};
  const Shape& s = o.shape;
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.tokens, 1, std::max(stream.threads, 1)));
  Counts counts(static_cast<std::size_t>(threads), std::vector<std::int64_t>(static_cast<std::size_t>(s.experts)));
  const auto each = [&](const auto& work) {
    device::cpu::thread_pool().run(threads, [&](int thread) {
      std::vector<std::int64_t>& own = counts[static_cast<std::size_t>(thread)];
      const std::int64_t last = s.tokens * (thread + 1) / threads;
      for (std::int64_t token = s.tokens * thread / threads; token < last; ++token) {
        for (std::int64_t k = 0; k < s.top; ++k) work(token, k, o.expert(token, k), own);
      }
    });
  };
  each([&](std::int64_t, std::int64_t, std::int64_t expert, std::vector<std::int64_t>& own) {
    if (o.is_one(expert)) ++own[static_cast<std::size_t>(expert)];
  });
  place_runs(o, counts);
  each([&](std::int64_t token, std::int64_t k, std::int64_t expert, std::vector<std::int64_t>& own) {
    o.put(token, k, o.is_one(expert) ? own[static_cast<std::size_t>(expert)]++ : -1);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_counting() {
  Implementation own;
  own.name = "cpu_counting";
  own.summary = "a counting sort of runs of choices, one for each thread";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::expert_order
