// What `ridge check`, `bench` and `calibrate` run: flags and their request, the same for all of them.
#pragma once

#include <cstdint>
#include <optional>
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
  std::optional<std::int64_t> seed;
};

// Declares operator, cases and the flags --impl, --candidate, -D and --threads.
Command& add_subject_options(Command& command, SubjectOptions& options, const std::string& about_cases);

// Declares --seed: of the inputs of all calls.
Command& add_seed_option(Command& command, SubjectOptions& options);
// A result whose inputs come from a fixed seed says so among the facts of its environment: a subject could know them.
void mark_seed(const SubjectOptions& options, record::Environment& environment);

// Puts implementations, candidates, threads and the seed into a request. Errors: a source that cannot be read, a
// malformed definition, definitions without a candidate, two candidates of one name.
Status fill_subjects(const SubjectOptions& options, record::WorkerRequest& request);

}  // namespace ridge::cli
