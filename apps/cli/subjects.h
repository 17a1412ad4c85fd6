// What `ridge check`, `bench` and `calibrate` run: flags and their request, the same for all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.h"
#include "record/worker.h"
#include "ridge/result.h"

namespace ridge::cli {

struct SubjectOptions {
  std::string op;
  std::vector<std::string> words, implementations, candidates, defines;
  std::int64_t threads = 1;
};

// Declares operator, cases and the flags --impl, --candidate, -D and --threads.
Command& add_subject_options(Command& command, SubjectOptions& options, const std::string& about_cases);

// Puts implementations, candidates and threads into a request. Errors: a source that cannot be read, a malformed
// definition, definitions without a candidate, two candidates of one name.
Status fill_subjects(const SubjectOptions& options, record::WorkerRequest& request);

}  // namespace ridge::cli
