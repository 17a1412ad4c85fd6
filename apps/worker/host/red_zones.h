// Tells AddressSanitizer which parts of the shared memory are operands, so that reading one byte beside them is found.
#pragma once

#include <cstddef>

#include "ridge/candidate.h"

namespace ridge::host {

class RedZones {
 public:
  // Does nothing unless `sanitized` and the run time is in the process.
  RedZones(void* region, std::size_t bytes, bool sanitized);
  // Everything but the operands of this call, from the first to behind the last element of each, is out of bounds.
  void raise(const ridge_call& call) const;
  void lower() const;

 private:
  using Mark = void (*)(const volatile void*, std::size_t);
  const void* region_;
  std::size_t bytes_;
  Mark poison_ = nullptr, clear_ = nullptr;
};

}  // namespace ridge::host
