#include "ops/route/right_choice.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ridge::ops::route {
namespace {

constexpr double kSlack = 0x1p-44;  // of a score: the contract's

// Exact scores of a row; NaN of NaN.
std::vector<long double> scores_of(const Shape& shape, const std::vector<double>& logits) {
  std::vector<long double> scores;
  if (shape.sigmoid) {
    for (const double x : logits) scores.push_back(1.0L / (1.0L + std::exp(-static_cast<long double>(x))));
    return scores;
  }
  double most = -HUGE_VAL;
  for (const double x : logits) most = x > most ? x : most;
  long double sum = 0;
  for (const double x : logits) {
    scores.push_back(x == most ? 1.0L : std::exp(static_cast<long double>(x) - static_cast<long double>(most)));
    if (!std::isnan(x)) sum += scores.back();
  }
  for (long double& score : scores) score /= sum;
  return scores;
}

float nearest(long double x) { return static_cast<float>(x); }

}  // namespace

RightChoice::RightChoice(const Shape& shape, const std::vector<double>& logits, const std::vector<double>& bias)
    : group_size_(shape.experts / shape.groups), group_top_(shape.group_top) {
  make_keys(shape, logits, bias);
  make_marks(shape);
  std::vector<bool> closed(keys_.size(), true);
  const std::vector<bool> all_open(marks_.size(), false);
  for (const std::int64_t group : first_of(marks_, all_open, group_top_, false)) {
    std::fill_n(closed.begin() + group * group_size_, group_size_, false);
  }
  experts_ = first_of(keys_, closed, shape.top, true);
}

void RightChoice::make_keys(const Shape& shape, const std::vector<double>& logits, const std::vector<double>& bias) {
  const std::vector<long double> scores = shape.by_logits() ? std::vector<long double>() : scores_of(shape, logits);
  for (std::size_t e = 0; e < logits.size(); ++e) {
    Key key;
    key.logit = logits[e];
    key.value = key.low = key.high = static_cast<float>(logits[e]);
    if (!shape.by_logits()) {
      key.value = nearest(scores[e]);
      key.low = nearest(scores[e] * (1 - kSlack)), key.high = nearest(scores[e] * (1 + kSlack));
    }
    if (shape.bias) {
      key.bias = bias[e];
      const auto more = static_cast<float>(bias[e]);
      key.value += more, key.low += more, key.high += more;
    }
    keys_.push_back(key);
  }
}

void RightChoice::make_marks(const Shape& shape) {
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    const auto sum_of_best = [&](float Key::*bound) {
      std::vector<float> numbers;
      for (std::int64_t e = g * group_size_; e < (g + 1) * group_size_; ++e) {
        const float one = keys_[static_cast<std::size_t>(e)].*bound;
        numbers.push_back(std::isnan(one) ? -INFINITY : one);
      }
      std::sort(numbers.begin(), numbers.end(), std::greater<>());
      return numbers.size() == 1 ? numbers[0] : numbers[0] + numbers[1];
    };
    Key mark;
    mark.value = sum_of_best(&Key::value), mark.low = sum_of_best(&Key::low), mark.high = sum_of_best(&Key::high);
    mark.logit = mark.bias = static_cast<double>(g);  // no two are equal by what they are made of
    marks_.push_back(mark);
  }
}

bool RightChoice::before(const Key& a, std::int64_t at_a, const Key& b, std::int64_t at_b) {
  if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);
  if (std::isnan(a.value) || a.value == b.value) return at_a < at_b;
  return a.value > b.value;
}

bool RightChoice::surely_before(const Key& a, std::int64_t at_a, const Key& b, std::int64_t at_b) {
  const bool certain = a.low == a.high && b.low == b.high, same = a.logit == b.logit && a.bias == b.bias;
  if (certain || same || std::isnan(a.value) || std::isnan(b.value)) return before(a, at_a, b, at_b);
  return a.low > b.high;
}

std::vector<std::int64_t> RightChoice::first_of(const std::vector<Key>& keys, const std::vector<bool>& closed,
                                                std::int64_t count, bool in_order) {
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!closed[i]) order.push_back(static_cast<std::int64_t>(i));
  }
  const auto key = [&](std::int64_t at) { return keys[static_cast<std::size_t>(at)]; };
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return before(key(a), a, key(b), b); });
  const auto all = std::ssize(order);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t a = order[static_cast<std::size_t>(i)];
    for (std::int64_t j = in_order ? i + 1 : count; j < all; ++j) {
      const std::int64_t b = order[static_cast<std::size_t>(j)];
      open_ = open_ || !surely_before(key(a), a, key(b), b);
    }
  }
  order.resize(static_cast<std::size_t>(count));
  return order;
}

bool RightChoice::allows(const std::vector<std::int64_t>& experts) const {
  const auto key = [&](std::int64_t at) { return keys_[static_cast<std::size_t>(at)]; };
  std::set<std::int64_t> groups;
  std::vector<bool> left(keys_.size(), true);
  for (const std::int64_t expert : experts) {
    if (expert < 0 || expert >= std::ssize(keys_) || !left[static_cast<std::size_t>(expert)]) return false;
    left[static_cast<std::size_t>(expert)] = false;
    groups.insert(expert / group_size_);
  }
  for (const std::int64_t group : groups) {
    std::int64_t better = 0;
    const Key& own = marks_[static_cast<std::size_t>(group)];
    for (std::int64_t g = 0; g < std::ssize(marks_); ++g) {
      better += g != group && surely_before(marks_[static_cast<std::size_t>(g)], g, own, group) ? 1 : 0;
    }
    if (better >= group_top_) return false;
  }
  if (std::ssize(groups) > group_top_) return false;
  std::vector<bool> named(keys_.size(), false);
  for (const std::int64_t expert : experts) {
    for (std::int64_t e = 0; e < std::ssize(keys_); ++e) {
      const bool rival = e != expert && !named[static_cast<std::size_t>(e)] && groups.contains(e / group_size_);
      if (rival && surely_before(key(e), e, key(expert), expert)) return false;
    }
    named[static_cast<std::size_t>(expert)] = true;
  }
  return true;
}

}  // namespace ridge::ops::route
