// A number with its unit, as a source prints it: "989.4 TFLOPS", "4.8 TB/s", "132 SMs".
//
// How many digits a source prints says how much it claims: "8 TB/s" is any value from 7.5 to 8.5, "7.99 TB/s" is not.
// Every comparison of two quantities uses that, so that rounding is never an error and a wrong digit always is.
#pragma once

#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge::hardware {

// What a unit measures. Floating-point and integer rates are different dimensions: a TOPS is not a TFLOPS.
enum class Dimension {
  kFlops,         // FLOP/s
  kOps,           // integer operations per second
  kBandwidth,     // byte/s
  kBytes,         // byte
  kFrequency,     // Hz
  kDataRate,      // bit/s of one pin
  kFlopPerClock,  // FLOP per clock of one unit
  kOpPerClock,    // integer operations per clock of one unit
  kPower,         // W
  kBits,          // width of a bus or a register
  kUnits,         // compute units: SMs, CUs, cores of a processor, chiplets
  kCores,         // lanes or cores inside units
  kThreads,
  kWarps,
  kBlocks,
  kRegisters,
  kSchedulers,
  kFmaUnits,
  kChannels,
};
std::string_view to_string(Dimension dimension);  // "FLOP/s", for messages

struct Quantity {
  double value = 0;     // in base units: FLOP/s, byte/s, byte, Hz, ...
  double half_ulp = 0;  // half of the last printed digit, in base units; 0 for a count
  Dimension dimension = Dimension::kUnits;
  std::string text;  // as printed
};

// "<number> <unit>", one space, digits with an optional point; no sign, exponent, grouping or "~".
Result<Quantity> parse_quantity(std::string_view text);

// Whether the two may be the same value, given how both are rounded and `slack` as a fraction.
bool agree(const Quantity& a, const Quantity& b, double slack = 0.0);
bool agree(const Quantity& a, double value, double slack);

}  // namespace ridge::hardware
