// What a project's training command told about a kernel, as it stands among the figures of its build.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "project/training.h"

namespace ridge::execute {

inline constexpr const char* kTrainingOfCandidate = "training.";
inline constexpr const char* kTrainingOfIncumbent = "incumbent_training.";

void note_training(const project::TrainingTrace& trace, const std::string& prefix,
                   std::map<std::string, double>& counts);
// Nothing when no training command was run.
std::optional<project::TrainingTrace> training_of(const std::map<std::string, double>& counts,
                                                  const std::string& prefix);

}  // namespace ridge::execute
