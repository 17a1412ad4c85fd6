// The trace of a project's training command: a few steps of training around the kernel, each with a new activation, a
// new gradient and a weight that the optimizer has changed. It tells what a gain is worth in a step, and whether
// something remembers tensors.
#pragma once

#include <string_view>

#include "record/training.h"
#include "ridge/result.h"

namespace ridge::project {

inline constexpr int kTrainingSteps = 8;
// Frozen byte for byte. Times in milliseconds: of the whole step, of the kernel's calls in it, and of the part of those
// that depends on the weight alone, which is all that a weight cache can skip. Hits are those that a cache counts, and
// those that the script found out itself by changing a tensor in place. Check: PASS when every output of the step is
// right for the weight as it is now.
inline constexpr std::string_view kTrainingHeader = "step,step_ms,kernel_ms,weight_ms,weight_hits,tensor_hits,Check";

// Errors name the line: another header, steps that are not 1, 2, ..., kTrainingSteps, a time or a count that is none,
// a part that is longer than the whole.
Result<record::TrainingTrace> read_training_trace(std::string_view text);

}  // namespace ridge::project
