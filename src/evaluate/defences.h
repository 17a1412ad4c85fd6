// Which defences are in force. All of them, always: no request and no command line reaches this. A test switches one
// off to show that something then slips through, because a defence nothing depends on is not being tested.
#pragma once

#include <cstdint>

#include "record/measurement.h"

namespace ridge::evaluate {

class Defences {
 public:
  Defences() = default;
  [[nodiscard]] bool on(record::Gate gate) const { return ((off_ >> static_cast<unsigned>(gate)) & 1u) == 0; }
  [[nodiscard]] Defences without(record::Gate gate) const {
    Defences fewer = *this;
    fewer.off_ |= std::uint64_t{1} << static_cast<unsigned>(gate);
    return fewer;
  }
  // One timed call in so many is compared element by element, drawn after its output was taken.
  std::uint64_t full_draw_one_in = 64;
  // A broken instrument, for showing that the gates which watch it notice: caches that nothing displaces before a call,
  // events that report so many times the span, and all clocks of the device that do.
  bool displaces_caches = true;
  double event_scale = 1, device_clock_scale = 1;

 private:
  std::uint64_t off_ = 0;
};

}  // namespace ridge::evaluate
