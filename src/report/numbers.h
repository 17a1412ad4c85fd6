// Numbers as a person reads them: three significant digits, units, signs.
#pragma once

#include <string>

#include "record/campaign.h"

namespace ridge::report {

// One unit for all the speeds of a page, so that an axis and the text beside it can be compared.
struct SpeedUnit {
  double scale = 1;
  std::string name;
  [[nodiscard]] std::string text(double speed) const;  // "0.41 TFLOP/s"
};
SpeedUnit speed_unit(double speed, const std::string& unit);  // the multiple of a unit in which this speed reads best
SpeedUnit time_unit(double seconds);                          // the same of a time

std::string plain(double value);    // three digits at most, no trailing zeros: "5", "0.05", "1.5"
std::string digits3(double value);  // "8.91", "0.0123", "141"
std::string rate_text(double value, const std::string& unit);
std::string latency_text(double seconds);                      // "1.23 ms"
std::string percent_text(double fraction);                     // "84.1 %"
std::string plain_percent(double fraction);                    // "5 %", for chosen numbers
std::string gain_text(double fraction);                        // "+23.1 %", "−4.0 %"
std::string ratio_text(double ratio);                          // "8.91×", "1.012×"
std::string interval_text(const record::Effect& effect);       // "8.80 to 9.02"
std::string gain_interval_text(const record::Effect& effect);  // "+22.0 % to +24.1 %"
std::string count_text(double value);                          // "12 345"
std::string duration_text(double seconds);                     // base's, with a proper micro sign

}  // namespace ridge::report
