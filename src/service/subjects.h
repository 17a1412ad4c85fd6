// What `check`, `bench` and `calibrate` run: implementations of the library and candidates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

struct Subjects {
  std::string op;
  std::vector<std::string> words, implementations, candidates, defines;
  std::int64_t threads = 1;
  std::optional<std::int64_t> seed;
};

// A result whose inputs come from a fixed seed says so among the facts of its environment: a subject could know them.
void mark_seed(const Subjects& asked, record::Environment& environment);

// Puts implementations, candidates, threads and the seed into a request. Errors: a source that cannot be read, a
// malformed definition, definitions without a candidate, two candidates of one name.
Status fill_subjects(const Context& context, const Subjects& asked, record::WorkerRequest& request);

}  // namespace ridge::service
