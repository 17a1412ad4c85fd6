// dispatch::explain as text, for front ends.
#include <fmt/format.h>

#include "dispatch/choose.h"
#include "record/case.h"

namespace ridge::dispatch {

Result<std::string> explain_text(std::string_view case_text, const Stream& stream) {
  RIDGE_TRY(wanted, record::parse_case(case_text));
  RIDGE_TRY(explanation, explain(wanted, stream));
  std::string text = fmt::format("{} {}: {:.4g} FLOP, {:.4g} bytes\n", wanted.op, explanation.label,
                                 explanation.cost.flop, explanation.cost.bytes);
  if (!explanation.forced_by.empty()) text += fmt::format("  forced by {}\n", explanation.forced_by);
  for (const record::ExplainRow& row : explanation.rows) {
    text += fmt::format("  {} {:<14} {}\n",
                        row.chosen      ? "->"
                        : row.supported ? "  "
                                        : " x",
                        row.implementation, row.reason);
  }
  return text;
}

}  // namespace ridge::dispatch
