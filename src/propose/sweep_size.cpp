#include "propose/sweep_size.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace ridge::propose {

std::size_t sweep_most_of(std::size_t devices) {
  return devices < kSweepMost / kSweepOfADevice ? kSweepOfADevice * std::max<std::size_t>(devices, 1) : kSweepMost;
}

Result<std::size_t> sweep_most(const record::CampaignSpec& spec) {
  const auto stated = spec.extra.find(kSweepMostKey);
  if (stated == spec.extra.end()) return kSweepOfADevice;
  const std::string& text = stated->second;
  std::size_t most = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), most);
  if (problem == std::errc() && end == text.data() + text.size() && most >= kSweepLeast && most <= kSweepMost)
    return most;
  return with_hint(
      invalid("{}: {}: {} to {} configurations are possible", kSweepMostKey, text, kSweepLeast, kSweepMost),
      "leave it out, and --screen-on says how many there are");
}

}  // namespace ridge::propose
