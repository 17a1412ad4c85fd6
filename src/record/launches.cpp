#include "record/launches.h"

#include <algorithm>

namespace ridge::record {

namespace {

void add(std::vector<double>& values, const std::vector<ShapeSamples>& shapes, std::string_view label, Arm arm) {
  const char letter = arm == Arm::kIncumbent ? 'A' : 'B';
  for (const ShapeSamples& shape : shapes) {
    if (shape.label != label) continue;
    for (const Quad& quad : shape.quads) {
      for (std::size_t i = 0; i < std::min(quad.order.size(), quad.blocks.size()); ++i) {
        if (quad.order[i] == letter) values.insert(values.end(), quad.blocks[i].begin(), quad.blocks[i].end());
      }
    }
  }
}

}  // namespace

std::vector<double> launches(std::span<const Session> sessions, std::string_view label, Arm arm) {
  std::vector<double> values;
  for (const Session& session : sessions) {
    if (!session.voided) add(values, session.shapes, label, arm);
  }
  return values;
}

std::vector<double> column_values(std::span<const Session> sessions, std::string_view column, std::string_view label,
                                  Arm arm) {
  std::vector<double> values;
  for (const Session& session : sessions) {
    if (session.voided) continue;
    for (const ColumnSamples& one : session.columns) {
      if (one.name == column) add(values, one.shapes, label, arm);
    }
  }
  return values;
}

const ColumnSamples* metric_column(const Session& session) {
  using Holds = ColumnSamples::Holds;
  const auto found = std::find_if(session.columns.begin(), session.columns.end(), [](const ColumnSamples& one) {
    return one.holds == Holds::kHigher || one.holds == Holds::kLower;
  });
  return found == session.columns.end() ? nullptr : &*found;
}

}  // namespace ridge::record
