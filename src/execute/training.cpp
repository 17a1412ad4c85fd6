#include "execute/training.h"

namespace ridge::execute {

void note_training(const project::TrainingTrace& trace, const std::string& prefix,
                   std::map<std::string, double>& counts) {
  counts[prefix + "steps"] = trace.steps;
  counts[prefix + "failed"] = trace.failed;
  counts[prefix + "step"] = trace.step;
  counts[prefix + "kernel"] = trace.kernel;
  counts[prefix + "weight"] = trace.weight;
  counts[prefix + "least_weight_hits"] = static_cast<double>(trace.least_weight_hits);
  counts[prefix + "weight_hits"] = static_cast<double>(trace.weight_hits);
  counts[prefix + "tensor_hits"] = static_cast<double>(trace.tensor_hits);
}

std::optional<project::TrainingTrace> training_of(const std::map<std::string, double>& counts,
                                                  const std::string& prefix) {
  const auto value = [&](const char* name) {
    const auto found = counts.find(prefix + name);
    return found == counts.end() ? 0.0 : found->second;
  };
  if (value("steps") < project::kTrainingSteps) return std::nullopt;
  project::TrainingTrace trace;
  trace.steps = static_cast<int>(value("steps"));
  trace.failed = static_cast<int>(value("failed"));
  trace.step = value("step");
  trace.kernel = value("kernel");
  trace.weight = value("weight");
  trace.least_weight_hits = static_cast<long>(value("least_weight_hits"));
  trace.weight_hits = static_cast<long>(value("weight_hits"));
  trace.tensor_hits = static_cast<long>(value("tensor_hits"));
  return trace;
}

}  // namespace ridge::execute
