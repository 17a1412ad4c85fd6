#include "campaign/transfer.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace ridge::campaign {
namespace {

bool contains(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// What a key's part is worth in one call of the synthetic training run.
std::string part_value(KeyPart part, int step, int call) {
  switch (part) {
    case KeyPart::kWeightId: return "w";
    case KeyPart::kWeightVersion: return fmt::format("v{}", step);  // the optimizer bumps it after every step
    case KeyPart::kLayout: return "s";
    case KeyPart::kTensorId:
    case KeyPart::kUnknown: break;
  }
  return fmt::format("t{}.{}", step, call);  // the activation of the forward call, the gradient of the backward call
}

}  // namespace

KeyPart key_part(std::string_view text) {
  if (text == "shape" || text == "stride" || text == "strides" || text == "dtype" || text == "device") {
    return KeyPart::kLayout;
  }
  const bool weight = contains(text, "weight");
  if (weight && contains(text, "version")) return KeyPart::kWeightVersion;
  if (weight && (contains(text, "id(") || contains(text, "data_ptr") || contains(text, "weakref")) &&
      !contains(text, "scale")) {
    return KeyPart::kWeightId;
  }
  if (contains(text, "id(") || contains(text, "data_ptr") || contains(text, "weakref") || contains(text, "version")) {
    return KeyPart::kTensorId;
  }
  return KeyPart::kUnknown;
}

std::string refuse_key(const std::vector<std::string>& key) {
  bool identity = false, version = false, layout = false;
  for (const std::string& text : key) {
    switch (key_part(text)) {
      case KeyPart::kWeightId: identity = true; break;
      case KeyPart::kWeightVersion: version = true; break;
      case KeyPart::kLayout: layout = true; break;
      case KeyPart::kTensorId: return fmt::format("\"{}\" is new in every training step", text);
      case KeyPart::kUnknown: return fmt::format("\"{}\" is not a part that is known to be stable", text);
    }
  }
  if (!identity) return "the key does not name the weight";
  if (!version) return "the key has no version: a weight that the optimizer changed would still hit";
  if (!layout) return "the key has no shape";
  return {};
}

KeyTrace trace_key(const std::vector<std::string>& key, int steps) {
  KeyTrace trace;
  trace.steps = steps;
  std::set<std::string> cached;
  const bool tensor_in_key = std::any_of(key.begin(), key.end(), [](const std::string& text) {
    return key_part(text) == KeyPart::kTensorId || key_part(text) == KeyPart::kUnknown;
  });
  for (int step = 0; step < steps; ++step) {
    for (int call = 0; call < 2; ++call) {
      std::string entry;
      for (const std::string& text : key) entry += part_value(key_part(text), step, call) + "|";
      ++trace.lookups;
      if (!cached.insert(entry).second) {
        ++trace.hits;
        ++(tensor_in_key ? trace.tensor_hits : trace.weight_hits);
      }
    }
  }
  return trace;
}

std::string training_problem(const record::TrainingTrace& trace, bool has_cache) {
  if (trace.failed > 0) {
    return fmt::format("{} of {} training steps are wrong for the weight as it then is", trace.failed, trace.steps);
  }
  if (trace.tensor_hits > 0) {
    return fmt::format("{} hits in {} training steps on tensors that are new in every step", trace.tensor_hits,
                       trace.steps);
  }
  if (has_cache && trace.least_weight_hits < 1) return "there is a training step without a hit of the weight's entry";
  if (!has_cache && trace.weight_hits > 0) {
    return fmt::format("{} hits of a cache that was not declared", trace.weight_hits);
  }
  return {};
}

std::string_view to_string(TransferDecision decision) {
  switch (decision) {
    case TransferDecision::kReal: return "ACCEPT-as-real";
    case TransferDecision::kAsterisk: return "ACCEPT-with-asterisk";
    case TransferDecision::kOverfit: break;
  }
  return "REJECT-as-overfit";
}

TransferDecision transfer_decision(std::string_view bucket, bool key_allowed, bool weight_bound_known, bool skew_ok) {
  if (!key_allowed || !skew_ok) return TransferDecision::kOverfit;
  const bool structural = bucket == "K1" || bucket == "K2" || bucket == "K3" || bucket == "K4";
  if (structural) return TransferDecision::kReal;
  return bucket == "W1" && weight_bound_known ? TransferDecision::kAsterisk : TransferDecision::kOverfit;
}

Ledger add_up(const std::vector<LedgerRow>& rows) {
  Ledger ledger;
  for (const LedgerRow& row : rows) {
    ledger.headline *= row.ratio;
    ledger.sum_percent += 100.0 * (row.ratio - 1.0);
    if (row.bucket.starts_with("K")) {
      ledger.structural *= row.ratio;
    } else if (row.bucket == "W1" && row.bound) {
      ledger.weight *= std::min(row.ratio, 1.0 + *row.bound);
    } else {
      ledger.residual *= row.ratio;
    }
  }
  return ledger;
}

std::string Ledger::verdict() const {
  if (residual != 1.0) return "rolled-back";
  return gap_percent() > kInflationPercent ? "inflated" : "clean";
}

}  // namespace ridge::campaign
