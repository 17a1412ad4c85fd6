// Something that can be measured: a built candidate, or an implementation of this library.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "evaluate/host_process.h"
#include "measure/machine.h"
#include "ops/op.h"
#include "record/measurement.h"

namespace ridge::evaluate {

// What stays the same for all measurements of one request.
struct Harness {
  std::filesystem::path host_program;
  measure::Placement placement;
  record::Protocol protocol;
};

// Keeps this process off the measured processors for as long as it lives.
class HarnessPin {
 public:
  explicit HarnessPin(const Harness& harness) : placement_(harness.placement) {
    (void)measure::pin(0, placement_.harness);
  }
  HarnessPin(const HarnessPin&) = delete;
  HarnessPin& operator=(const HarnessPin&) = delete;
  ~HarnessPin() { (void)measure::pin(0, placement_.all()); }

 private:
  const measure::Placement& placement_;
};

struct Subject {
  std::string name;
  std::filesystem::path artifact;                       // of a candidate
  const ops::Implementation* implementation = nullptr;  // or this
};

// Fresh process for a subject, with room for any of the problems. Both kinds are called in exactly the same way, so
// that a candidate and a library can be compared.
std::variant<HostProcess, Failure> start(const Subject& subject, const std::vector<ops::Problem>& problems,
                                         const Harness& harness);

}  // namespace ridge::evaluate
