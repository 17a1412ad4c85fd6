// Which implementation runs a case, and why.
#pragma once

#include <functional>
#include <string>

#include "dispatch/choice.h"
#include "ops/op.h"
#include "record/worker.h"
#include "ridge/dispatch.h"

namespace ridge::dispatch {

// What is wanted for a case and who wants it; an empty name leaves it to the order.
struct ForcedChoice {
  std::string implementation;  // "cuda_wgmma" or "cuda_wgmma/pp_128x192"
  std::string by;              // "code", "environment RIDGE_GEMM_BACKEND", "tuned table"
  bool autotune = false;       // the environment asks for measuring, with an empty name
};

// What a tuned table answers: a preference, not a force. When it cannot run the case, or is refused, the default order
// goes on; `refused` says why for explain() and on_fallback().
struct Preferred {
  Preferred(std::string name = {}, std::string why = {})  // NOLINT: a name alone is an answer
      : implementation(std::move(name)), refused(std::move(why)) {}
  std::string implementation, refused;  // as in ForcedChoice
  std::string note;                     // what was measured, for explain()
};
using Preference = std::function<Preferred(const ops::Problem&, const ops::DeviceInfo&)>;
// In place of the tables of this machine (dispatch/tuned.h); empty: those again.
void set_preference(Preference preference);

// One line to the receiver of on_fallback(), once.
void warn_once(std::string message);

// Reads RIDGE_<OP>_BACKEND again; otherwise each variable is read once per process.
void reload_environment();

// What forces the choice for this problem: code first, then the environment. An error names an unknown implementation.
Result<ForcedChoice> forced(const ops::Operator& op, const ops::Problem& problem);

Result<Choice> choose(const ops::Operator& op, const ops::Problem& problem, const Stream& stream);

// The ordered list with every refusal and the choice, for `ridge ops explain`.
Result<record::Explanation> explain(const record::Case& wanted, const Stream& stream);

// Changes whenever a past choice may no longer hold.
std::uint64_t generation();

}  // namespace ridge::dispatch
