#include "search/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "search/tuner.h"

namespace ridge::search {
namespace {

// A random order of all numbers below a count, without a list of them: the shuffle of Fisher and Yates, of which only
// the places that were touched are kept.
class RandomOrder {
 public:
  RandomOrder(std::uint64_t count, std::uint64_t seed) : left_(count), coin_(seed) {}
  std::optional<std::uint64_t> next() {
    if (left_ == 0) return std::nullopt;
    const std::uint64_t place = coin_.below(left_);
    const std::uint64_t drawn = at(place);
    moved_[place] = at(--left_);
    return drawn;
  }
  Coin& coin() { return coin_; }

 private:
  [[nodiscard]] std::uint64_t at(std::uint64_t place) const {
    const auto found = moved_.find(place);
    return found == moved_.end() ? place : found->second;
  }
  std::uint64_t left_;
  Coin coin_;
  std::unordered_map<std::uint64_t, std::uint64_t> moved_;
};

class RandomStrategy : public Strategy {
 public:
  RandomStrategy(const Space& space, std::uint64_t seed) : order_(space.count(), seed) {}
  std::optional<std::uint64_t> propose() override { return order_.next(); }
  void observe(std::uint64_t, std::optional<double>) override {}

 private:
  RandomOrder order_;
};

// Climbs to a configuration none of whose neighbours is faster, then starts again elsewhere.
class LocalStrategy : public Strategy {
 public:
  LocalStrategy(const Space& space, std::uint64_t seed) : space_(space), order_(space.count(), seed) {}

  std::optional<std::uint64_t> propose() override {
    while (!waiting_.empty()) {
      const std::uint64_t next = waiting_.back();
      waiting_.pop_back();
      if (seen_.insert(next).second) return next;
    }
    here_.reset();
    for (auto next = order_.next(); next; next = order_.next()) {
      if (seen_.insert(*next).second) return next;
    }
    return std::nullopt;
  }
  void observe(std::uint64_t configuration, std::optional<double> seconds) override {
    if (!seconds || (here_ && *seconds >= *here_)) return;
    here_ = seconds;
    waiting_ = space_.neighbours(space_.point(configuration));
    for (std::size_t i = waiting_.size(); i > 1; --i) std::swap(waiting_[i - 1], waiting_[order_.coin().below(i)]);
  }

 private:
  const Space& space_;
  RandomOrder order_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<std::uint64_t> waiting_;
  std::optional<double> here_;
};

}  // namespace

std::vector<std::string> strategy_names() { return {"ours", "random", "local"}; }

Result<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const Space& space, std::uint64_t seed,
                                                std::span<const PastSource> past) {
  if (name == "ours") return std::unique_ptr<Strategy>(std::make_unique<Tuner>(space, seed, priors_of(space, past)));
  if (name == "random") return std::unique_ptr<Strategy>(std::make_unique<RandomStrategy>(space, seed));
  if (name == "local") return std::unique_ptr<Strategy>(std::make_unique<LocalStrategy>(space, seed));
  return with_hint(invalid("strategy \"{}\" is not known", name),
                   fmt::format("known: {}", fmt::join(strategy_names(), ", ")));
}

}  // namespace ridge::search
