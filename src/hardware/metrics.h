// What a spec may state: the name of every metric, what it measures, and between which values it can lie at all.
#pragma once

#include <span>
#include <string_view>

#include "hardware/quantity.h"

namespace ridge::hardware {

struct Metric {
  std::string_view name;
  Dimension dimension;
  double low, high;  // in base units; a product outside does not exist, a slipped unit does
  std::string_view meaning;
  bool of_every_gpu = true;  // a GPU's file must state it, call it UNKNOWN, or say that there is none
};

std::span<const Metric> metrics();
const Metric* find_metric(std::string_view name);  // nullptr: no such metric

}  // namespace ridge::hardware
