// Measuring which implementation is fastest, in which of its configurations, on scratch memory, for a tuned table.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/tuning_run.h"
#include "ops/op.h"
#include "record/tuned.h"

namespace ridge::dispatch {

struct TuneOptions {
  std::int64_t rounds = 15;  // of two blocks of calls of every contender, interleaved
  double seconds = 2;        // and not longer
  double margin = 0.03;      // what another one than the default order's first must gain
  double block = 0;          // seconds of calls in a row; 0: single calls
  double hopeless = 3;       // so many times slower in its first calls: it is not called again, nor for larger cases
  double beaten = 1e9;       // so many times slower after the first round: it does not take part in the others
  std::size_t configurations = 6;  // of one implementation, by expected time
  std::optional<std::uint64_t> seed =
      std::nullopt;  // of the order in which contenders are called; none: another each time
};
// What suits the backend: a GPU's clock is fine and its calls short, but its clock rate follows the load within
// milliseconds.
TuneOptions options_for(Backend backend);

// What a comparison found. Times are medians over the rounds.
struct Ranking {
  std::size_t best = 0;  // by position among the contenders
  double gain = 0;       // log of the first one's time over the best one's, paired
  double latency = 0;    // seconds of one call of the best
  std::int64_t rounds = 0;
  std::vector<bool> hopeless;  // by contender
  bool first_failed = false;   // then nothing was compared
};
// Interleaves blocks of calls. The first contender is the one that the others are compared with, and wins unless
// another one beats it by the margin.
Ranking rank(std::size_t contenders,
             const std::function<std::optional<double>(std::size_t, std::int64_t calls)>& seconds,
             const TuneOptions& options);

// Tunes case after case on one device and remembers what does not change between them: whose numbers are right, and who
// was hopeless on a smaller case of the same kind (everything but sizes equal).
class Tuner {
 public:
  Tuner(const ops::Operator& op, const Stream& stream);

  // Probes everything that can run the case (a reference only where it is alone), interleaves what is right, and names
  // the fastest. Never touches a caller's memory or stream. Not while a graph is recorded: it allocates and waits.
  Result<record::TunedChoice> tune(const ops::Problem& problem, const TuneOptions& options);

 private:
  [[nodiscard]] std::vector<Choice> contenders(const ops::Problem& problem, const TuneOptions& options) const;
  [[nodiscard]] bool known_as_hopeless(const Choice& choice, const ops::Problem& problem) const;

  const ops::Operator& op_;
  Stream stream_;
  Prober prober_;
  std::map<std::string, double> hopeless_;  // by implementation and kind: FLOP of the smallest case
};

Result<record::TunedChoice> tune(const ops::Operator& op, const ops::Problem& problem, const Stream& stream,
                                 const TuneOptions& options = {});

}  // namespace ridge::dispatch
