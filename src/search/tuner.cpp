#include "search/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace ridge::search {
namespace {

constexpr std::uint64_t kWholePool = 16'384;  // a space up to this size is scored whole
constexpr std::size_t kSampledPool = 6'000;
// So few that one drawn at random is a large part of what is measured at all, and all are neighbours.
constexpr std::uint64_t kFew = 64;
constexpr std::size_t kElite = 6;          // whose neighbours are in a sampled pool
constexpr std::size_t kDesign = 4;         // measured before there is a model
constexpr std::size_t kDesignDraws = 4;    // of which the farthest from those before is taken; of many, always a corner
constexpr std::size_t kLocalCentres = 3;   // of the neighbours that the model ranks
constexpr std::size_t kWideCentres = 8;    // of those that are drawn
constexpr std::uint64_t kNextCentre = 60;  // percent: from one of them to the next
constexpr double kForget = 0.9;            // of the gain of an arm, per use
constexpr double kFirstGain = 0.02;        // what an arm is credited with before it was used
constexpr double kFirstModel = 10;         // so many times as much for the model's
// With a past: after so many measurements one is drawn, for what is promised is alike and says nothing of the others.
constexpr std::array<std::size_t, 2> kContrasts = {3, 7};
constexpr double kTrustVariance = 0.1, kTrustDeviation = 0.3, kFailurePenalty = 2;

double density(double z) { return std::exp(-0.5 * z * z) / std::sqrt(2 * std::numbers::pi); }
double share_below(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

}  // namespace

std::vector<Prior> priors_of(const Space& space, std::span<const PastSource> past) {
  const auto same = std::ranges::count_if(past, [&](const PastSource& source) { return source.same_kernel(space); });
  std::vector<Prior> priors;
  for (const PastSource& source : past) {
    const double weight = source.same_kernel(space) ? 1 / static_cast<double>(same) : 0;
    const auto view = std::make_shared<const PastSource::View>(source.view(space));
    priors.push_back({[view](const Point& point) { return view->value(point); },
                      [view](const Point& point) { return view->failed(point); }, weight});
  }
  return priors;
}

Tuner::Tuner(const Space& space, std::uint64_t seed, std::vector<Prior> priors, std::vector<std::uint64_t> among)
    : space_(space),
      encoding_(space),
      priors_(std::move(priors)),
      guided_(std::ranges::any_of(priors_, [](const Prior& one) { return one.weight > 0; })),
      few_(space.count() <= kFew),
      surrogate_(encoding_, trust_of(priors_)),
      coin_(seed),
      among_(std::move(among)),
      allowed_(among_.begin(), among_.end()),
      pool_is_whole_(!among_.empty() || space.count() <= kWholePool) {
  choose_pool();
}

Trust Tuner::trust_of(const std::vector<Prior>& priors) {
  Trust trust{{}, kTrustVariance, kTrustDeviation};
  for (const Prior& one : priors) trust.weight.push_back(one.weight);
  return trust;
}

Expectation Tuner::expected_of(const Point& point) const {
  Expectation expected;
  for (const Prior& one : priors_) {
    expected.values.push_back(one.value(point));
    if (one.fails && one.fails(point)) expected.failing += one.weight;
  }
  return expected;
}

// How slow it is believed to be; what is expected to fail is as slow as a failure is unwelcome.
double Tuner::promise_of(const Expectation& expected) const {
  double sum = expected.failing * kFailurePenalty;
  for (std::size_t s = 0; s < priors_.size(); ++s) sum += priors_[s].weight * expected.values[s];
  return sum;
}

// Before anything is measured: what is promised most.
std::optional<std::uint64_t> Tuner::promised() {
  std::optional<std::uint64_t> best;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < next_pool_.size(); ++i) {
    if (promise_[i] >= least || seen_.contains(next_pool_[i])) continue;
    least = promise_[i];
    best = next_pool_[i];
  }
  return best;
}

// All of a small space; of a large one a sample, and the neighbours of the best.
void Tuner::choose_pool() {
  next_pool_.clear();
  std::unordered_set<std::uint64_t> chosen;
  const auto add = [&](std::uint64_t one) {
    if (chosen.insert(one).second) next_pool_.push_back(one);
  };
  if (!among_.empty()) {
    for (const std::uint64_t one : among_) add(one);
  } else if (pool_is_whole_) {
    for (std::uint64_t i = 0; i < space_.count(); ++i) add(i);
  } else {
    std::vector<Measured> elite = measured_;
    std::ranges::sort(elite, {}, &Measured::value);
    for (std::size_t i = 0; i < std::min(kElite, elite.size()); ++i) {
      for (const std::uint64_t near : space_.neighbours(space_.point(elite[i].configuration))) add(near);
    }
    for (std::size_t i = 0; i < kSampledPool; ++i) add(space_.sample(coin_));
  }
  std::vector<std::vector<std::uint8_t>> levels;
  std::vector<Expectation> expected;
  levels.reserve(next_pool_.size());
  promise_.clear();
  for (const std::uint64_t one : next_pool_) {
    const Point point = space_.point(one);
    levels.push_back(encoding_.encode(point));
    expected.push_back(expected_of(point));
    promise_.push_back(promise_of(expected.back()));
  }
  surrogate_.set_pool(levels, expected);
}

void Tuner::take_pool() {
  pool_ = std::move(next_pool_);
  next_pool_.clear();
  place_.clear();
  for (std::size_t i = 0; i < pool_.size(); ++i) place_[pool_[i]] = i;
}

bool Tuner::is_open(std::uint64_t configuration) const {
  return !seen_.contains(configuration) && (allowed_.empty() || allowed_.contains(configuration));
}

std::uint64_t Tuner::draw() { return among_.empty() ? space_.sample(coin_) : among_[coin_.below(among_.size())]; }

std::optional<std::uint64_t> Tuner::unseen() {
  constexpr int kTries = 64;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t drawn = draw();
    if (is_open(drawn)) return drawn;
  }
  const std::uint64_t count = among_.empty() ? space_.count() : among_.size();
  const std::uint64_t start = coin_.below(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t place = (start + i) % count, next = among_.empty() ? place : among_[place];
    if (is_open(next)) return next;
  }
  return std::nullopt;
}

// Of some drawn at random the one that is farthest from everything before.
std::optional<std::uint64_t> Tuner::first_design() {
  std::optional<std::uint64_t> farthest;
  double widest = -1;
  std::vector<std::uint8_t> levels_of_it;
  for (std::size_t i = 0; i < kDesignDraws; ++i) {
    const auto drawn = unseen();
    if (!drawn) return farthest;
    const std::vector<std::uint8_t> levels = encoding_.encode(space_.point(*drawn));
    double nearest = std::numeric_limits<double>::infinity();
    for (const auto& other : design_) {
      double distance = 0;
      for (std::size_t f = 0; f < levels.size(); ++f) {
        const Feature& feature = encoding_.features()[f];
        if (feature.derived) continue;
        const double d = static_cast<double>(feature.levels[levels[f]]) - static_cast<double>(feature.levels[other[f]]);
        distance += feature.is_word ? (levels[f] == other[f] ? 0 : 1) : d * d;
      }
      nearest = std::min(nearest, distance);
    }
    if (nearest <= widest) continue;
    widest = nearest;
    farthest = drawn;
    levels_of_it = levels;
    if (design_.empty()) break;
  }
  design_.push_back(levels_of_it);
  return farthest;
}

void Tuner::observe(std::uint64_t configuration, std::optional<double> seconds) {
  seen_.insert(configuration);
  const Point point = space_.point(configuration);
  surrogate_.add(encoding_.encode(point), expected_of(point), !seconds);
  double gained = 0;
  if (seconds) {
    const Measured one{configuration, std::log(*seconds)};
    measured_.push_back(one);
    if (!best_ || one.value < best_->value) {
      if (best_) gained = best_->value - one.value;
      best_ = one;
    }
  }
  if (arm_) {
    gain_[*arm_] = kForget * gain_[*arm_] + gained;
    uses_[*arm_] = kForget * uses_[*arm_] + 1;
  }
}

// Differences among slow configurations matter little, and are often of another kind.
// With a past they are shown as that shows them.
double Tuner::shown(double value) const {
  if (guided_) return best_->value + shown_beyond(value - best_->value);
  return value <= median_ ? value : median_ + kSlowShare * (value - median_);
}

void Tuner::update() {
  std::vector<double> sorted;
  for (const Measured& one : measured_) sorted.push_back(one.value);
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
  median_ = sorted[sorted.size() / 2];
  values_.clear();
  for (const Measured& one : measured_) values_.push_back(shown(one.value));
  if (!pool_is_whole_ && surrogate_.fit_is_due()) choose_pool();
  if (surrogate_.update(values_) && !next_pool_.empty()) take_pool();
}

// Expected improvement on the best, times the chance that it runs at all.
double Tuner::merit(std::size_t candidate) const {
  const auto deviation = static_cast<double>(surrogate_.deviation()[candidate]);
  const double gain = best_->value - static_cast<double>(surrogate_.mean()[candidate]);
  const double z = gain / deviation;
  if (z < -6) return 0;
  const double expected = gain * share_below(z) + deviation * density(z);
  return expected * (1 - static_cast<double>(surrogate_.failure()[candidate]));
}

Tuner::Arm Tuner::choose_arm() {
  std::array<double, kArms> credit{};
  double sum = 0;
  for (std::size_t arm = 0; arm < kArms; ++arm) {
    credit[arm] = (gain_[arm] + kFirstGain * (arm == kImprovement ? kFirstModel : 1.0)) / (uses_[arm] + 1);
    sum += credit[arm];
  }
  double drawn = sum * static_cast<double>(coin_.next() >> 11) * 0x1p-53;
  for (std::size_t arm = 0; arm + 1 < kArms; ++arm) {
    if (drawn < credit[arm]) return static_cast<Arm>(arm);
    drawn -= credit[arm];
  }
  return static_cast<Arm>(kArms - 1);
}

// A neighbour, drawn at random, of one of the best: what the model is wrong about is found without it.
std::optional<std::uint64_t> Tuner::draw_around() {
  std::vector<Measured> centres = measured_;
  std::ranges::sort(centres, {}, &Measured::value);
  const std::size_t most = std::min(kWideCentres, centres.size());
  for (std::size_t i = 0; i < most; ++i) {
    std::size_t place = 0;
    while (place + 1 < most && coin_.below(100) < kNextCentre) ++place;
    std::vector<std::uint64_t> near = space_.neighbours(space_.point(centres[place].configuration));
    std::erase_if(near, [&](std::uint64_t one) { return !is_open(one); });
    if (!near.empty()) return near[coin_.below(near.size())];
  }
  return std::nullopt;
}

std::optional<std::size_t> Tuner::best_of(Arm arm) {
  std::optional<std::size_t> best;
  double most = -1;
  const auto consider = [&](std::size_t candidate, double value) {
    if (value > most && !seen_.contains(pool_[candidate])) {
      most = value;
      best = candidate;
    }
  };
  if (arm == kImprovement) {
    for (std::size_t c = 0; c < pool_.size(); ++c) consider(c, merit(c));
    return best;
  }
  std::vector<Measured> centres = measured_;
  std::ranges::sort(centres, {}, &Measured::value);
  for (std::size_t i = 0; i < std::min(kLocalCentres, centres.size()) && !best; ++i) {
    for (const std::uint64_t near : space_.neighbours(space_.point(centres[i].configuration))) {
      if (const auto found = place_.find(near); found != place_.end()) consider(found->second, merit(found->second));
    }
  }
  return best;
}

std::optional<Tuner::Outlook> Tuner::outlook(std::uint64_t configuration) {
  if (measured_.empty()) return std::nullopt;
  do update();
  while (surrogate_.is_behind());
  const auto found = place_.find(configuration);
  if (found == place_.end()) return std::nullopt;
  return Outlook{static_cast<double>(surrogate_.mean()[found->second]),
                 static_cast<double>(surrogate_.deviation()[found->second])};
}

void Tuner::suppose(std::uint64_t configuration) {
  const std::optional<Outlook> expected = outlook(configuration);
  arm_.reset();  // nothing was gained
  if (expected) observe(configuration, std::exp(expected->mean));
}

std::optional<std::uint64_t> Tuner::propose() {
  std::optional<std::uint64_t> next;
  arm_.reset();
  if (guided_ && measured_.empty()) {
    next = promised();
    if (!next) next = unseen();
  } else if (guided_ && !few_ && std::ranges::find(kContrasts, seen_.size()) != kContrasts.end()) {
    next = first_design();
  } else if (!guided_ && (seen_.size() < kDesign || measured_.size() < 2)) {
    next = first_design();
  } else {
    update();
    arm_ = guided_ && (few_ || seen_.size() < kDesign) ? kImprovement : choose_arm();
    if (*arm_ == kAround) next = draw_around();
    if (!next) {
      if (const auto found = best_of(*arm_ == kAround ? kImprovement : *arm_)) next = pool_[*found];
    }
    if (!next) next = unseen();
  }
  if (next) seen_.insert(*next);
  return next;
}

}  // namespace ridge::search
