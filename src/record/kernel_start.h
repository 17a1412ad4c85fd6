// A kernel of the library as a candidate: a small source, the start, that includes it and names the case whose macros
// it is compiled with. A campaign measures one build, and the library compiles a kernel for every case anew.
//
//   /* ridge-campaign
//   op = "softmax"
//   cases = ["rows=4096 cols=32768"]
//   */
//   /* ridge-build
//   case = "softmax rows=4096 cols=32768"   # the kernel's [define] macros are those of this case
//   */
//   #include "ops/softmax/cuda_softmax.cu"
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/candidate.h"
#include "record/case.h"
#include "record/expression.h"
#include "record/kernel_description.h"
#include "ridge/result.h"

namespace ridge::record {

// The start of the kernel at `path` (from src/) for an operator and cases without its name, at least one; built for the
// first.
std::string start_text(std::string_view path, std::string_view op, std::span<const std::string> cases);

// What a candidate says that it is built for; nothing where it says nothing. An error names the line and the key.
Result<std::optional<Case>> built_for(const Candidate& candidate);

// The kernel that a candidate includes and that describes itself; nothing where there is none.
Result<std::optional<KernelDescription>> described_kernel_of(const Candidate& candidate);

// "NAME=VALUE" of every macro of [define], by the numbers of a case and of a configuration (plan_variables).
Result<std::vector<std::string>> macros_of(const KernelDescription& kernel, const Variables& variables,
                                           const Reals& reals);

}  // namespace ridge::record
