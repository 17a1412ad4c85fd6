// The spec database as records.
#pragma once

#include "hardware/lint.h"
#include "hardware/spec.h"
#include "record/hardware.h"

namespace ridge::service {

record::SpecFact fact_of(const hardware::Fact& fact, const hardware::Wiki& wiki);
record::SpecSheet sheet_of(const hardware::Spec& spec, const hardware::Wiki& wiki);
record::SpecSummary summary_of(const hardware::Spec& spec);

// Metrics that the two do not state alike.
std::vector<record::SpecDifference> differences_of(const hardware::Spec& left, const hardware::Spec& right);

// What a check of the database alone finds.
record::LintReport report_of(const hardware::Database& database);
void add_text(record::LintReport& report, const hardware::TextLint& lint);

}  // namespace ridge::service
