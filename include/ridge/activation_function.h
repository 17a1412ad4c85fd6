// The functions that activations are made of (ridge/ops/activation.h).
#pragma once

#include <cstdint>

namespace ridge {

enum class ActivationFunction : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu, kRelu2, kClampedSilu };

}  // namespace ridge
