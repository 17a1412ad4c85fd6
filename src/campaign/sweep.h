// Which configuration of a sweep is measured, by the looks at all of them and at the incumbent. Looks accept nothing:
// they save the check and the sessions of a round that would be rolled back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record/journal.h"

namespace ridge::campaign {

// Takes the incumbent's row out of those of a sweep, unless it is one of the proposal's; nothing when it did not run.
std::optional<record::ScreenRow> take_incumbent(std::vector<record::ScreenRow>& rows, const std::string& incumbent,
                                                const record::Proposal& proposal);

// The id of the fastest usable configuration of the proposal other than the incumbent; empty when there is none, or
// when its look says that it will not be accepted.
std::string worth_measuring(const record::Screened& screened, const record::Proposal& proposal,
                            const std::string& incumbent);

// Why the fastest of a sweep is not measured, with the speeds; nothing where it is, or where none was usable.
std::optional<std::string> why_not_measured(const record::Screened& screened);

}  // namespace ridge::campaign
