// Whether ridgeline.torch works in the Python that the user would start: PyTorch's version, and whether the library
// that was built for it loads.
#pragma once

#include <filesystem>
#include <vector>

#include "record/worker.h"

namespace ridge::execute {

// Asks $RIDGE_PYTHON, else the Python of the active virtual environment, else that of .venv in the clone that
// `programs` (the folder of ridge) was built in, else python3. Where that one has no package ridgeline, it looks at the
// package and the library of the clone. One capability for each of Python, PyTorch and ridgeline.torch, as far as they
// are there.
std::vector<record::Capability> python_front_end(const std::filesystem::path& programs);

}  // namespace ridge::execute
