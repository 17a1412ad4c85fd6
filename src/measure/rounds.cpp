#include "measure/rounds.h"

#include <algorithm>
#include <numeric>

namespace ridge::measure {
namespace {

std::vector<std::size_t> random_order(std::size_t count, Coin& coin) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[coin.below(i)]);
  return order;
}

}  // namespace

std::vector<Round> run_rounds(const LaunchSubject& launch, std::size_t subjects, std::int64_t rounds, Coin& coin) {
  std::vector<bool> alive(subjects, true);
  std::vector<Round> result;
  for (std::int64_t r = 0; r < rounds; ++r) {
    std::vector<std::size_t> order = random_order(subjects, coin);
    std::vector<std::array<double, 2>> times(subjects);
    for (std::size_t half = 0; half < 2; ++half) {
      for (const std::size_t subject : order) {
        if (!alive[subject]) continue;
        const std::optional<double> latency = launch(subject);
        alive[subject] = latency.has_value();
        times[subject][half] = latency.value_or(0.0);
      }
      std::reverse(order.begin(), order.end());
    }
    Round round(subjects);
    for (std::size_t i = 0; i < subjects; ++i) {
      if (alive[i]) round[i] = times[i];
    }
    result.push_back(std::move(round));
  }
  return result;
}

}  // namespace ridge::measure
