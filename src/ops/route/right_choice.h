// Which experts the contract says a row has, in fp64, for the reference and for the check after every launch.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/route/route.h"

namespace ridge::ops::route {

// The choice of one row. Scores of which fp64 cannot say to which of two numbers of fp32 they round are both; where the
// choice hangs on one, the row is open.
class RightChoice {
 public:
  // `bias` is empty where there is none.
  RightChoice(const Shape& shape, const std::vector<double>& logits, const std::vector<double>& bias);

  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] const std::vector<std::int64_t>& experts() const { return experts_; }
  // Whether the contract leaves these experts to an open row: in range, different, and in an order that no score
  // excludes.
  [[nodiscard]] bool allows(const std::vector<std::int64_t>& experts) const;

 private:
  // A number that is compared: what it is, and between which numbers of fp32 it is for certain.
  struct Key {
    float value = 0, low = 0, high = 0;
    double logit = 0, bias = 0;  // equal ones have equal keys
  };
  [[nodiscard]] static bool before(const Key& a, std::int64_t at_a, const Key& b, std::int64_t at_b);
  [[nodiscard]] static bool surely_before(const Key& a, std::int64_t at_a, const Key& b, std::int64_t at_b);
  // The first `count` of those that can be chosen. Sets `open_` where another one may be right: in any place, or only
  // among the first.
  std::vector<std::int64_t> first_of(const std::vector<Key>& keys, const std::vector<bool>& closed, std::int64_t count,
                                     bool in_order);
  void make_keys(const Shape& shape, const std::vector<double>& logits, const std::vector<double>& bias);
  void make_marks(const Shape& shape);

  std::vector<Key> keys_, marks_;
  std::vector<std::int64_t> experts_;
  std::int64_t group_size_ = 1, group_top_ = 1;
  bool open_ = false;
};

}  // namespace ridge::ops::route
