// Is the output of one call right? Every element against the fp64 reference, or the operator's cheap projection.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "evaluate/arena.h"
#include "evaluate/defences.h"
#include "ops/op.h"
#include "record/measurement.h"

namespace ridge::evaluate {

enum class Depth {
  kQuick,  // spot check, and the full comparison for calls drawn after the fact
  kFull    // full comparison
};

// Which outputs of a case some full comparison has shown something about. Inputs of one family may make an output
// constant; then a constant is right, and whether the kernel computes it is for another family to tell.
class Evidence {
 public:
  // `trivial`: what a kernel that computes nothing would have passed with, in words; empty: with nothing.
  void add(std::size_t output, const std::string& trivial);
  // Those words for an output that every comparison so far leaves open; empty: there is none.
  [[nodiscard]] std::string missing() const;

 private:
  std::map<std::size_t, std::string> open_;  // by output; empty: shown
};

// Adds up over the verified calls of one case.
struct Verification {
  double max_error_ratio = 0, rms_error_ratio = 0, snr_db = 0;
  std::int64_t calls = 0, elements = 0;
  // Why the case shows nothing (see trivial_predictor), empty: it does. On the host of every output, found at the first
  // two full comparisons; on a GPU what `evidence` is missing.
  std::string uninformative;
  std::int64_t full_comparisons = 0;
  std::int64_t compared = 0;  // outputs, element by element
  // Of the first full comparison, by output: what "the previous output" would be at the second.
  std::vector<std::vector<double>> first_outputs;
  Evidence evidence;
};

// All outputs, all elements, NaN and infinities by kind and sign, and the memory around them. A Failure names the gate,
// and for a wrong element what it holds, what was expected and what was allowed.
Verdict verify_fully(const ops::Operator& op, const Operands& operands, Verification& into);

// The operator's spot check with a secret seed; on a suspicion, the full comparison decides what is said about it.
Verdict verify_quickly(const ops::Operator& op, const Operands& operands, std::uint64_t seed, Verification& into);

}  // namespace ridge::evaluate
