// Will training see the gain? What a cache may be keyed on, how often such a key hits when every step brings new
// activations and gradients, and how the gains of a campaign add up to what a training step keeps.
//
//   K1..K4  inside one call: the gain is real
//   W1      a cache of something made from a weight, keyed on its identity and version: bounded by what it skips
//   W2, W3  a cache keyed on a tensor that is new in every step: no gain outside of a benchmark
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "record/training.h"

namespace ridge::campaign {

enum class KeyPart { kWeightId, kWeightVersion, kLayout, kTensorId, kUnknown };
// "id(weight)", "weight._version", "shape" | "stride" | "dtype", "id(activation)" | "id(grad_out)" | "data_ptr" | ...
KeyPart key_part(std::string_view text);

// Why a cache with this key is refused, part by part; empty: it is a bounded weight cache (W1).
std::string refuse_key(const std::vector<std::string>& key);

// Looks the key up as training does: each step one forward and one backward call with a fresh activation and a fresh
// gradient, the same weight, and an optimizer step after both that bumps the weight's version.
struct KeyTrace {
  int steps = 0, lookups = 0, hits = 0;
  int weight_hits = 0, tensor_hits = 0;  // hits of keys with, and of keys without, nothing but the weight in them
  [[nodiscard]] double hit_rate() const { return lookups == 0 ? 0.0 : static_cast<double>(hits) / lookups; }
};
KeyTrace trace_key(const std::vector<std::string>& key, int steps);
inline constexpr int kTraceSteps = 4, kSimulationSteps = 8;
inline constexpr double kLeastHitRate = 0.5;

// What speaks against a candidate in the training steps that it was run through; empty: nothing.
std::string training_problem(const record::TrainingTrace& trace, bool has_cache);

enum class TransferDecision { kReal, kAsterisk, kOverfit };
std::string_view to_string(TransferDecision decision);  // ACCEPT-as-real | ACCEPT-with-asterisk | REJECT-as-overfit
// Derived from what is known, never from what is claimed. `skew_ok`: a grouped operator gained on skewed loads too.
TransferDecision transfer_decision(std::string_view bucket, bool key_allowed, bool weight_bound_known, bool skew_ok);

// One accepted round.
struct LedgerRow {
  std::int64_t round = 0;
  std::string bucket;
  double ratio = 1;             // measured speed-up
  std::optional<double> bound;  // of a weight cache, as a fraction of a step
};
// Gains combined as they compound; beside them the sum of percentages that people write down.
struct Ledger {
  double structural = 1, weight = 1, residual = 1;  // S (K1-K4), W (capped W1), R (must be 1)
  double headline = 1;                              // product of everything measured
  double sum_percent = 0;                           // sum of the rounds' percentages
  [[nodiscard]] double equivalent() const { return structural * weight; }
  [[nodiscard]] double gap_percent() const { return 100.0 * (headline / equivalent() - 1.0); }
  [[nodiscard]] std::string verdict() const;  // clean | inflated | rolled-back
};
Ledger add_up(const std::vector<LedgerRow>& rows);
inline constexpr double kInflationPercent = 1.0;

}  // namespace ridge::campaign
