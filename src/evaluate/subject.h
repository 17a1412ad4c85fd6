// Something that can be measured: a built candidate, or an implementation of this library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/host_process.h"
#include "measure/machine.h"
#include "ops/op.h"
#include "record/candidate.h"
#include "record/measurement.h"
#include "record/scope.h"
#include "toolchain/sealed_object.h"

namespace ridge::evaluate {

// What stays the same for all measurements of one request.
struct Harness {
  std::filesystem::path host_program;
  measure::Placement placement;
  record::Protocol protocol;
  Defences defences;  // all of them, except in tests of the defences
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

namespace cuda {
struct Program;  // evaluate/cuda/program.h
}

struct Subject {
  std::string name;
  std::filesystem::path artifact;                       // of a candidate: of `object`
  const ops::Implementation* implementation = nullptr;  // or this
  const record::Candidate* candidate =
      nullptr;                              // what `artifact` was built from, so that it can be built in other ways
  std::filesystem::path sanitizer_runtime;  // to preload, where `artifact` was built with sanitizers
  std::shared_ptr<const cuda::Program> program = nullptr;           // of a CUDA candidate, in place of `artifact`
  std::shared_ptr<const record::Scope> scope = nullptr;             // that a candidate declares
  std::shared_ptr<const toolchain::SealedObject> object = nullptr;  // keeps `artifact` for as long as it may be loaded
  int configuration = -1;                                           // of an implementation; -1: its own choice

  [[nodiscard]] Backend backend() const {
    if (implementation != nullptr) return implementation->backend;
    return program != nullptr ? Backend::kCuda : Backend::kCpu;
  }
  // Whether it says of itself that equal calls give equal bits: a candidate by a line "// ridge: deterministic".
  [[nodiscard]] bool deterministic() const;
};

// Fresh process for a subject, with room for any of the problems. Both kinds are called in exactly the same way, so
// that a candidate and a library can be compared.
Attempt<HostProcess> start(const Subject& subject, const std::vector<ops::Problem>& problems, const Harness& harness);

}  // namespace ridge::evaluate
