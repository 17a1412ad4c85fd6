// When the confirmation of a candidate may stop: the suite's test has its verdict, and after an accept every shape has
// one as well. Both tests are bets (decide.h, noninferiority.h), which hold at whatever session one stops; so waiting
// for the shapes costs sessions and no error.
//
// It stops at the first of: the suite is rejected; the suite is accepted and every shape is shown not to be worse; a
// shape is shown to be worse; a shape that is not yet shown cannot be by the last session.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "stats/decide.h"
#include "stats/noninferiority.h"
#include "stats/session.h"

namespace ridge::stats {

struct ConfirmationRule {
  SequentialRule suite;
  double margin = 0.05;  // no shape may be slower by this much or more
  double level = 0.05;   // of all statements about the shapes of one decision together
};

class Confirmation {
 public:
  Confirmation(const ConfirmationRule& rule, std::span<const std::string> labels);

  // One valid session; shapes in the order of the labels. After the stop further sessions are ignored.
  void add(const SessionStatistic& session);
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] int sessions() const { return sessions_; }
  // One sentence with the values: of the suite, and of the shapes when they decide.
  [[nodiscard]] std::string reason() const;

 private:
  [[nodiscard]] bool shapes_settled() const;

  ConfirmationRule rule_;
  SequentialTest suite_;
  std::vector<ShapeSeries> shapes_;
  NonInferiority noninferiority_;
  int sessions_ = 0;
  bool stopped_ = false;
};

}  // namespace ridge::stats
