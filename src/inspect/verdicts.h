// What stands out in a kernel's code.
#pragma once

#include "record/inspection.h"

namespace ridge::inspect {

// A kernel whose name says that it multiplies matrices.
bool named_like_matrix_product(const std::string& name);

std::vector<record::InspectionVerdict> verdicts(const record::KernelInspection& kernel, bool gpu, bool expect_matrix);

}  // namespace ridge::inspect
