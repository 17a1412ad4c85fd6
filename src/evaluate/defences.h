// Which defences are in force. All of them, always: no request and no command line reaches this. A test switches one
// off to show that something then slips through, because a defence nothing depends on is not being tested.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "record/measurement.h"

namespace ridge::evaluate {

// Parts of a gate that stop cheats which the rest of it lets through.
enum class Part {
  kLargerShapes,    // held_out: shapes several times as large as the case
  kSingleElements,  // fresh_inputs: content that differs from the last call's in one element
  kWholeAccount,    // clock: processor time is read when none of the host is running
  kHiddenCharge     // clock: what a candidate could hide of a call is added to it
};
inline constexpr std::array<std::pair<Part, std::string_view>, 4> kParts = {{{Part::kLargerShapes, "larger_shapes"},
                                                                             {Part::kSingleElements, "single_elements"},
                                                                             {Part::kWholeAccount, "whole_account"},
                                                                             {Part::kHiddenCharge, "hidden_charge"}}};

class Defences {
 public:
  Defences() = default;
  [[nodiscard]] bool on(record::Defence gate) const { return ((off_ >> static_cast<unsigned>(gate)) & 1u) == 0; }
  [[nodiscard]] bool on(Part part) const { return ((parts_off_ >> static_cast<unsigned>(part)) & 1u) == 0; }
  [[nodiscard]] Defences without(Part part) const {
    Defences fewer = *this;
    fewer.parts_off_ |= 1u << static_cast<unsigned>(part);
    return fewer;
  }
  [[nodiscard]] Defences without(record::Defence gate) const {
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
  std::uint32_t parts_off_ = 0;
};

}  // namespace ridge::evaluate
