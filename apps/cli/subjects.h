// The flags that say what `ridge check`, `bench` and `calibrate` run.
#pragma once

#include <string>

#include "command.h"
#include "service/subjects.h"

namespace ridge::cli {

// Declares operator, cases and the flags --impl, --candidate, -D and --threads.
Command& add_subject_options(Command& command, service::Subjects& subjects, const std::string& about_cases);

// Declares --seed: of the inputs of all calls.
Command& add_seed_option(Command& command, service::Subjects& subjects);

}  // namespace ridge::cli
