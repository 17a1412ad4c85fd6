// What the files of this folder share.
#pragma once

#include <vector>

#include "ops/rope/norm/backward/contract.h"
#include "ops/rope/norm/norm.h"

namespace ridge::ops::rope_norm_backward {

Result<Call> make_call(const Args& args);

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
record::Cost cost(const Problem& problem);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::rope_norm_backward
