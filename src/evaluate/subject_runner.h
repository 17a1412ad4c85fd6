// One subject in one process over the problems of a request: fresh secret inputs for every call, cold caches, and every
// output verified before its time counts.
//
// Cold: the harness writes every operand on another processor just before the call, which takes each line away from the
// private caches of the measured one. Where the two share a processor, the operands are flushed from all caches.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "evaluate/arena.h"
#include "evaluate/secrets.h"
#include "evaluate/subject.h"
#include "evaluate/verify.h"

namespace ridge::evaluate {

// Where the content of the last call is offered again.
enum class Place { kSame, kElsewhere };

class SubjectRunner {
 public:
  static Attempt<std::unique_ptr<SubjectRunner>> open(const Subject& subject, const ops::Operator& op,
                                                      const std::vector<ops::Problem>& problems, const Harness& harness,
                                                      RowPadding padding = RowPadding::kNone, Secrets secrets = {});
  // What is drawn from here on, whatever was drawn before.
  void draw_from(Secrets secrets);

  // From here on the operands of problem `index` lie at edges of pages, and the pages between them are inaccessible to
  // the subject; those of other problems may not be launched any more.
  Verdict fence(std::size_t index, Edge edge);

  // One verified call of problem `index` on content that never was before.
  CallResult launch(std::size_t index, Depth depth, numerics::Family family = numerics::Family::kMixture);
  // The content of the last call again, fully compared. A pair of calls that must agree whatever the reference says.
  CallResult launch_again(std::size_t index, Place place);
  // The same but for one element of one input, fully compared: who remembers a call by a part of its content is wrong.
  CallResult launch_altered(std::size_t index);
  // Elements of the outputs in which the last launch_again differs in bits from the call before; nothing where an
  // element has less than a byte.
  [[nodiscard]] std::int64_t other_bits() const { return other_bits_; }
  // Work after the last answer.
  Verdict finish() { return host_.finish(); }

  [[nodiscard]] const Verification& verification(std::size_t index) const { return verifications_[index]; }
  [[nodiscard]] const HostProcess& host() const { return host_; }

 private:
  SubjectRunner(HostProcess host, const ops::Operator& op, const std::vector<ops::Problem>& problems,
                const Harness& harness, RowPadding padding, Secrets secrets);
  Verdict warm_up(std::size_t index);
  CallResult run(std::size_t index, Depth depth);
  [[nodiscard]] Failure explain(std::size_t index, Failure failure) const;
  void look_again(std::size_t index, Failure& failure);
  Verdict verify(std::size_t index, Depth depth);

  HostProcess host_;
  const ops::Operator& op_;
  Defences defences_;
  RowPadding padding_;
  Edge edge_ = Edge::kAnywhere;
  bool warm_, evict_;
  std::int64_t threads_;
  std::uint64_t last_seed_ = 0;
  numerics::Family last_family_ = numerics::Family::kMixture;
  std::int64_t other_bits_ = 0;
  std::optional<std::uint64_t> alteration_;  // of the call in progress
  Secrets secrets_;
  measure::Coin coin_;  // addresses, which a candidate sees
  std::vector<std::unique_ptr<Operands>> operands_;
  std::vector<Verification> verifications_;
};

}  // namespace ridge::evaluate
