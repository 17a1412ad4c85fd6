// What the calls of a look come to. Pure functions.
//
// From a call's wall time that of a hand-shake is taken off, the quickest seen so far. On a busy machine a short call
// can come to nothing by that: its time is then unknown, it counts nowhere, and the others count.
#pragma once

#include <optional>
#include <vector>

namespace ridge::evaluate {

// The middle one of the calls whose time is known; nothing where it is known of none.
std::optional<double> known_median(const std::vector<double>& calls);

// Calls of a configuration for one shape, looked at in turn with the incumbent.
class LookTimes {
 public:
  // A call, and the incumbent's before or after it where there was one.
  void add(double latency, std::optional<double> incumbent);
  // Nothing where no call's time is known. Beside an incumbent a latency is the incumbent's over all looks times the
  // ratio of their calls, so that what else the machine did during one look falls on neither.
  [[nodiscard]] std::optional<double> latency(const std::vector<double>& of_incumbent) const;

 private:
  std::vector<double> all_;
  std::vector<double> own_, beside_;  // of pairs in which both times are known
};

}  // namespace ridge::evaluate
