#include "journal/protocol.h"

#include "stats/bounds.h"

namespace ridge::journal {

stats::SequentialRule sequential_rule(const record::Protocol& protocol) {
  return stats::bounded_rule(protocol.min_effect, protocol.alpha, protocol.max_decisions, protocol.max_sessions);
}

stats::GuardRule guard_rule(const record::Protocol& protocol, const record::Calibration& known) {
  return {protocol.decision_rule == record::Protocol::kVoiding,
          protocol.max_clock_gap,
          protocol.max_steal,
          protocol.max_foreign_load,
          known.clock_gap,
          protocol.min_effect};
}

}  // namespace ridge::journal
