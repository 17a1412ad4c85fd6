// One subject in one process over the problems of a request: fresh secret inputs for every call, cold caches, and every
// output verified before its time counts.
//
// Cold: the harness writes every operand on another processor just before the call, which takes each line away from the
// private caches of the measured one. Where the two share a processor, the operands are flushed from all caches.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "evaluate/arena.h"
#include "evaluate/subject.h"
#include "evaluate/verify.h"

namespace ridge::evaluate {

class Station {
 public:
  static std::variant<std::unique_ptr<Station>, Failure> open(const Subject& subject, const ops::Operator& op,
                                                              const std::vector<ops::Problem>& problems,
                                                              const Harness& harness,
                                                              RowPadding padding = RowPadding::kNone);

  // One verified call of problem `index`.
  CallResult launch(std::size_t index, Depth depth, numerics::Family family = numerics::Family::kMixture);
  // Work after the last answer.
  std::optional<Failure> finish() { return host_.finish(); }

  [[nodiscard]] const Verification& verification(std::size_t index) const { return verifications_[index]; }
  [[nodiscard]] const HostProcess& host() const { return host_; }

 private:
  Station(HostProcess host, const ops::Operator& op, const std::vector<ops::Problem>& problems, const Harness& harness,
          RowPadding padding);
  Result<std::optional<Failure>> verify(std::size_t index, Depth depth);

  HostProcess host_;
  const ops::Operator& op_;
  bool warm_, evict_;
  std::int64_t threads_;
  measure::Coin coin_;
  std::vector<std::unique_ptr<Operands>> operands_;
  std::vector<Verification> verifications_;
};

}  // namespace ridge::evaluate
