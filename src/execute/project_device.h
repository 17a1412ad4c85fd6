// What the device calls itself that the commands of a project run on: another machine than this one where they have a
// prefix (ssh, a container).
#pragma once

#include <string>

#include "project/project.h"

namespace ridge::execute {

// project.device where the file says it; otherwise asked through the project's own prefix: the processor's model for
// cpu, nvidia-smi for cuda, that or rocminfo for triton, rocminfo for hip. Triton's interpreter (TRITON_INTERPRET=1)
// runs on the processor. An error says which questions failed.
Result<std::string> device_of(const project::Project& project);

}  // namespace ridge::execute
