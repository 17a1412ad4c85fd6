// Control over which implementation of an operator runs.
// Choice, highest first: force() in code; environment RIDGE_<OP>_BACKEND; tuned table; default order.
//
//   RIDGE_GEMM_BACKEND=cpu_openblas                 for every case
//   RIDGE_GEMM_BACKEND=bf16:cpu_simd,other:cpu_blis by the case's dtype; what is not named keeps the normal order
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::dispatch {

// Forces `implementation` (for instance "cpu_simd") for every later call of operator `op` in this process.
// The name must exist; a forced implementation that cannot run a case is an error of that call, never a fallback.
Status force(std::string_view op, std::string_view implementation);
// Back to the normal order.
void unforce(std::string_view op);
// The implementation that ran in this thread's last successful call of `op`; empty before the first.
std::string last_used(std::string_view op);
// Operators known to this build, and the implementations of one, best first.
std::vector<std::string> operators();
Result<std::vector<std::string>> implementations(std::string_view op);

// Receives one line, once per operator and reason, when the best implementation of a device cannot run a case and the
// next one is taken. Without a receiver nothing is said; explain() always tells.
void on_fallback(std::function<void(std::string_view message)> receiver);

}  // namespace ridge::dispatch
