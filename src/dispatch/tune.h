// Measuring which implementation is fastest, in which of its configurations, on scratch memory, for a tuned table.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/earlier_tuning.h"
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
  std::size_t configurations =
      8;  // of one implementation, at most; of more the search chooses (configuration_search.h)
  std::optional<std::uint64_t> seed =
      std::nullopt;  // of the order in which contenders are called; none: another each time
};
// What suits the backend: a GPU's clock is fine and its calls short, but its clock rate follows the load within
// milliseconds.
TuneOptions options_for(Backend backend);

// What a comparison found. Times are medians over the rounds.
struct Ranking {
  std::size_t best = 0;           // by position among the contenders
  double gain = 0;                // log of the first one's time over the best one's, paired
  std::vector<double> latencies;  // seconds of one call, by contender; 0: it failed, or was called no more
  std::int64_t rounds = 0;
  std::vector<bool> hopeless;  // by contender
  bool first_failed = false;   // then nothing was compared
};
// Interleaves blocks of calls. The first contender is the one that the others are compared with, and wins unless
// another one beats it by the margin.
Ranking rank(std::size_t contenders,
             const std::function<std::optional<double>(std::size_t, std::int64_t calls)>& seconds,
             const TuneOptions& options);

// Tunes case after case on one device and remembers what does not change between them: whose numbers are right, who
// was hopeless on a smaller case of the same kind (everything but sizes equal), and how configurations compared.
class Tuner {
 public:
  // `cache`: whose store of measurements guides the search, and keeps what it measures; empty: neither.
  Tuner(const ops::Operator& op, const Stream& stream, std::filesystem::path cache = {});

  // Probes everything that can run the case (a reference only where it is alone), interleaves what is right, and names
  // the fastest. Of an implementation with many configurations the search looks at some, and the fastest few take part.
  // Never touches a caller's memory or stream. Not while a graph is recorded: it allocates and waits.
  Result<record::TunedChoice> tune(const ops::Problem& problem, const TuneOptions& options);

 private:
  struct Session;  // of one case
  [[nodiscard]] std::vector<Choice> implementations(const ops::Problem& problem) const;
  [[nodiscard]] bool known_as_hopeless(const Choice& choice, const ops::Problem& problem) const;
  void add_configurations(Session& session, const Choice& own);
  void search(Session& session, const ops::Implementation& one, const std::vector<int>& fitting, bool own_right);
  [[nodiscard]] static Ranking compare(Session& session, const TuneOptions& options);
  void remember(Session& session, const Ranking& found);
  void keep_looks(const Session& session);

  const ops::Operator& op_;
  Stream stream_;
  Prober prober_;
  EarlierTuning earlier_;
  std::map<std::string, double> hopeless_;  // by implementation and kind: FLOP of the smallest case
};

}  // namespace ridge::dispatch
