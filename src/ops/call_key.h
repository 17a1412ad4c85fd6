// What finds a call again in the table of a thread: words of a fixed number for everything that a decision or a
// prepared launch depends on. Hashed and compared are the words in use only, so room for large operators costs a small
// one nothing; a call that needs more words than there is room for takes them from the heap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/short_list.h"
#include "ops/op.h"

namespace ridge::ops {

class CallKey {
 public:
  // Parameters and operands that need no heap, each operand of rank kMaxRank.
  static constexpr std::size_t kRoom = kWarmParams + kWarmOperands * (1 + kMaxRank) + 8;

  void add(std::int64_t word) { words_.push_back(word); }
  void add(std::span<const std::int64_t> words) { words_.append(words.data(), words.size()); }
  // Type, rank, alignment and every stride; the parameters of a case say its shape.
  void add_layout(const TensorView& view) {
    const auto rank = static_cast<std::size_t>(view.rank);
    add(view.rank + 256 * static_cast<std::int64_t>(view.dtype) + 65536 * view_alignment(view));
    add({view.stride.data(), rank});
  }
  [[nodiscard]] std::span<const std::int64_t> words() const { return words_; }

 private:
  ShortList<std::int64_t, kRoom> words_;
};

// Everything that a prepared launch depends on but the addresses: parameters, configuration, device and how much of it,
// and of every operand type, strides and alignment.
inline CallKey launch_key(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  CallKey key;
  key.add(stream.device);
  key.add(stream.multiprocessors);
  key.add(problem.configuration);
  key.add(problem.values);
  for (const TensorView& view : operands) key.add_layout(view);
  return key;
}

// By the words of a CallKey.
template <class Value>
class CallTable {
 public:
  [[nodiscard]] Value* find(const CallKey& key) {
    const auto found = known_.find(key.words());
    return found == known_.end() ? nullptr : &found->second;
  }
  Value& add(const CallKey& key, Value value) {
    const std::span<const std::int64_t> words = key.words();
    return known_.insert_or_assign({words.begin(), words.end()}, std::move(value)).first->second;
  }
  [[nodiscard]] std::size_t size() const { return known_.size(); }
  void clear() { known_.clear(); }

 private:
  using Words = std::span<const std::int64_t>;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(Words words) const {
      std::uint64_t hash = words.size();
      for (const std::int64_t word : words) {
        hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(Words a, Words b) const { return std::ranges::equal(a, b); }
  };
  std::unordered_map<std::vector<std::int64_t>, Value, Hash, Equal> known_;
};

}  // namespace ridge::ops
