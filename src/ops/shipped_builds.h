// The builds of the described kernels that the compile check makes: every variant of a kernel's description in the
// first configuration that fits it, or in every one.
#pragma once

#include "record/shipped_build.h"
#include "ridge/result.h"

namespace ridge::ops {

// Binds every variant's case as a call on an H100 would be and resolves its launch plan, so that an expression that
// does not evaluate, a macro without a name or an operand that the operator lacks is an error here: kernel, variant,
// reason.
Result<record::ShippedBuilds> shipped_builds();

}  // namespace ridge::ops
