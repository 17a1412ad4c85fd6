// Rates and times as people read them.
#pragma once

#include <string>
#include <string_view>

namespace ridge::roofline {

std::string rate_text(double value, std::string_view unit);  // "989.4 TFLOP/s", "4.800 TB/s"
std::string time_text(double seconds);                       // "138.9 us"

}  // namespace ridge::roofline
