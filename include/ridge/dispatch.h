// Control over which implementation of an operator runs.
// Choice, highest first: force() in code; environment RIDGE_<OP>_BACKEND; tuned table; default order.
// Tuned tables are *.jsonl in the folders of RIDGE_TUNED_DIR and in `tuned` of the cache folder. A choice is an
// implementation, or one in a named configuration: "cuda_wgmma/pp_128x192".
//
//   RIDGE_GEMM_BACKEND=cpu_openblas                 for every case
//   RIDGE_GEMM_BACKEND=bf16:cpu_simd,other:cpu_blis by the case's dtype; what is not named keeps the normal order
//   RIDGE_GEMM_BACKEND=autotune                     measure new cases of this operator, as autotune(true) does for all
//   RIDGE_AUTOTUNE=1                                the same for every operator
//   RIDGE_LOG_LEVEL=warning                         what on_fallback() would be told, on standard error
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"
#include "ridge/stream.h"

namespace ridge::dispatch {

// Forces `implementation` for every later call of operator `op` in this process: a name ("cpu_simd",
// "cuda_wgmma/pp_128x192", "autotune"), or names by the case's dtype, as in the environment
// ("bf16:cpu_simd,other:cpu_blis"; what is not named is as before). Every name must exist; a forced implementation that
// cannot run a case is an error of that call, never a fallback.
Status force(std::string_view op, std::string_view implementation);
// Back to the normal order.
void unforce(std::string_view op);
// As when the process began: nothing is forced, autotune() is off, what this process measured is forgotten, and
// environment variables and tuned tables are read again. Agreement and receiver stay.
void reset();
// Removes the tuned tables that autotune() and `ridge tune` kept in the cache folder, of all devices; how many there
// were. They count in this process until reset().
Result<int> remove_kept_tables();
// The implementation that ran in this thread's last successful call of `op`; empty before the first.
std::string last_used(std::string_view op);
// Operators known to this build, and the implementations of one, best first.
std::vector<std::string> operators();
Result<std::vector<std::string>> implementations(std::string_view op);

// The walk for a case such as "gemm m=512 n=512 k=512 dtype=bf16" as text: every implementation, best first, with its
// refusal and the values that caused it, and the choice.
Result<std::string> explain_text(std::string_view case_text, const Stream& stream);

// While on, a case that nothing forces and no tuned table knows is measured before its first run, on scratch memory and
// for at most about two seconds, and the result is kept in the table of the cache folder. Off at first. Never while a
// graph is recorded on the call's stream; while another thread records one in CUDA's global mode no case may be new,
// because measuring allocates.
void autotune(bool on);

// For programs of several ranks, which must all take the same implementation or their replicas drift apart: called once
// for every new case that nothing forces, in the order in which the cases come, with the case and this rank's own
// choice; the implementation that all ranks take is returned (for instance rank 0's, broadcast). One that cannot run
// here is an error of the call. An empty function ends it.
using Agreement = std::function<std::string(std::string_view case_text, std::string_view own_choice)>;
void agree_with(Agreement agreement);

// Receives one line, once per operator and reason, when the best implementation of a device cannot run a case and the
// next one is taken. Without a receiver nothing is said; explain() always tells.
void on_fallback(std::function<void(std::string_view message)> receiver);

}  // namespace ridge::dispatch
