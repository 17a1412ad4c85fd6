// Scratch operands of a problem, and whether an implementation gets a problem right: what tuning measures on and asks
// before anything may win. Host memory only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace ridge::dispatch {

// Operands in memory of their own, filled at random; never a caller's.
class Scratch {
 public:
  Scratch(const ops::Problem& problem, std::uint64_t seed);
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<std::unique_ptr<unsigned char[]>> memory_;
  std::vector<TensorView> views_;
};

// Runs it on a small case of the same kind (the case itself where that is small) and holds every element and the RMS of
// all errors against the operator's error model. Why it is wrong, in words with the values; nothing when it is right or
// refuses every such case.
std::optional<std::string> probe(const ops::Operator& op, const ops::Implementation& implementation,
                                 const ops::Problem& problem, const Stream& stream);

}  // namespace ridge::dispatch
