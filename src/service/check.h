// Are implementations, or candidate sources, right? Compared with the fp64 reference.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "record/measurement.h"
#include "ridge/result.h"
#include "service/subjects.h"

namespace ridge::service {

struct CheckRequest {
  Subjects subjects;                 // no words: the operator's own edge cases
  std::optional<std::int64_t> seed;  // repeats the check that gave this seed
};
Result<std::vector<record::CheckReport>> check_subjects(const Context& context, const CheckRequest& request);

// Of one row: right, wrong, or left out because the subject does not claim or declines it.
enum class RowVerdict { kPassed, kFailed, kLeftOut };
RowVerdict verdict_of(const record::CheckRow& row);
// Nothing failed, and something was checked.
bool all_passed(const std::vector<record::CheckReport>& reports);

}  // namespace ridge::service
