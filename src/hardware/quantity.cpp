#include "hardware/quantity.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"

namespace ridge::hardware {
namespace {

struct Unit {
  std::string_view name;
  Dimension dimension;
  double scale;
};

constexpr double kKi = 1024.0;
constexpr Unit kKnownUnits[] = {
    {"GFLOPS", Dimension::kFlops, 1e9},
    {"TFLOPS", Dimension::kFlops, 1e12},
    {"PFLOPS", Dimension::kFlops, 1e15},
    {"GFLOP/s", Dimension::kFlops, 1e9},
    {"TFLOP/s", Dimension::kFlops, 1e12},
    {"TOPS", Dimension::kOps, 1e12},
    {"POPS", Dimension::kOps, 1e15},
    {"GB/s", Dimension::kBandwidth, 1e9},
    {"TB/s", Dimension::kBandwidth, 1e12},
    {"B", Dimension::kBytes, 1},
    {"KiB", Dimension::kBytes, kKi},
    {"MiB", Dimension::kBytes, kKi* kKi},
    {"GiB", Dimension::kBytes, kKi* kKi* kKi},
    {"KB", Dimension::kBytes, 1e3},
    {"MB", Dimension::kBytes, 1e6},
    {"GB", Dimension::kBytes, 1e9},
    {"MHz", Dimension::kFrequency, 1e6},
    {"GHz", Dimension::kFrequency, 1e9},
    {"Gbit/s", Dimension::kDataRate, 1e9},
    {"FLOP/clk", Dimension::kFlopPerClock, 1},
    {"OP/clk", Dimension::kOpPerClock, 1},
    {"W", Dimension::kPower, 1},
    {"bit", Dimension::kBits, 1},
    {"SMs", Dimension::kUnits, 1},
    {"CUs", Dimension::kUnits, 1},
    {"processor cores", Dimension::kUnits, 1},
    {"XCDs", Dimension::kUnits, 1},
    {"cores", Dimension::kCores, 1},
    {"threads", Dimension::kThreads, 1},
    {"warps", Dimension::kWarps, 1},
    {"blocks", Dimension::kBlocks, 1},
    {"registers", Dimension::kRegisters, 1},
    {"schedulers", Dimension::kSchedulers, 1},
    {"FMAs", Dimension::kFmaUnits, 1},
    {"channels", Dimension::kChannels, 1},
};

bool is_count(Dimension dimension) {
  return dimension >= Dimension::kBits || dimension == Dimension::kFlopPerClock || dimension == Dimension::kOpPerClock;
}

std::string known_units() {
  std::string names;
  for (const Unit& unit : kKnownUnits) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names;
}

bool plain_number(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' && text.back() != '.' &&
         text.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::count(text.begin(), text.end(), '.') <= 1;
}

}  // namespace

std::string_view to_string(Dimension dimension) {
  switch (dimension) {
    case Dimension::kFlops: return "FLOP/s";
    case Dimension::kOps: return "integer operations per second";
    case Dimension::kBandwidth: return "bytes per second";
    case Dimension::kBytes: return "bytes";
    case Dimension::kFrequency: return "a frequency";
    case Dimension::kDataRate: return "bits per second of a pin";
    case Dimension::kFlopPerClock: return "FLOP per clock";
    case Dimension::kOpPerClock: return "integer operations per clock";
    case Dimension::kPower: return "watts";
    case Dimension::kBits: return "bits";
    case Dimension::kUnits: return "compute units";
    case Dimension::kCores: return "cores";
    case Dimension::kThreads: return "threads";
    case Dimension::kWarps: return "warps";
    case Dimension::kBlocks: return "blocks";
    case Dimension::kRegisters: return "registers";
    case Dimension::kSchedulers: return "schedulers";
    case Dimension::kFmaUnits: return "FMA units";
    case Dimension::kChannels: return "channels";
  }
  return "?";
}

Result<Quantity> parse_quantity(std::string_view text) {
  const std::size_t space = text.find(' ');
  const std::string_view number = text.substr(0, space);
  if (space == std::string_view::npos || !plain_number(number)) {
    return with_hint(invalid("\"{}\" is not a number, one space and a unit", text),
                     "write for instance 989.4 TFLOPS; no sign, exponent, grouping or words");
  }
  const std::string_view name = text.substr(space + 1);
  const auto* unit =
      std::find_if(std::begin(kKnownUnits), std::end(kKnownUnits), [&](const Unit& u) { return u.name == name; });
  if (unit == std::end(kKnownUnits)) {
    return with_hint(invalid("\"{}\": there is no unit \"{}\"", text, name), "units are " + known_units());
  }
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  const std::size_t point = number.find('.');
  const auto decimals = point == std::string_view::npos ? 0 : static_cast<int>(number.size() - point - 1);
  const double half_ulp = is_count(unit->dimension) ? 0.0 : 0.5 * std::pow(10.0, -decimals);
  return Quantity{value * unit->scale, half_ulp * unit->scale, unit->dimension, std::string(text)};
}

bool agree(const Quantity& a, double value, double slack) {
  // The tiny term forgives the conversion of decimal digits, not a digit.
  return std::abs(a.value - value) <= a.half_ulp + (slack + 1e-12) * std::max(std::abs(a.value), std::abs(value));
}

bool agree(const Quantity& a, const Quantity& b, double slack) {
  return a.dimension == b.dimension &&
         std::abs(a.value - b.value) <=
             a.half_ulp + b.half_ulp + (slack + 1e-12) * std::max(std::abs(a.value), std::abs(b.value));
}

}  // namespace ridge::hardware
