#include "record/launches.h"

#include <algorithm>

namespace ridge::record {

std::vector<double> launches(std::span<const Session> sessions, std::string_view label, Arm arm) {
  const char letter = arm == Arm::kIncumbent ? 'A' : 'B';
  std::vector<double> values;
  for (const Session& session : sessions) {
    if (session.voided) continue;
    for (const ShapeSamples& shape : session.shapes) {
      if (shape.label != label) continue;
      for (const Quad& quad : shape.quads) {
        for (std::size_t i = 0; i < std::min(quad.order.size(), quad.blocks.size()); ++i) {
          if (quad.order[i] == letter) values.insert(values.end(), quad.blocks[i].begin(), quad.blocks[i].end());
        }
      }
    }
  }
  return values;
}

}  // namespace ridge::record
