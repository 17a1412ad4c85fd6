#include "subjects.h"

#include <algorithm>

#include "base/error.h"
#include "candidate_file.h"
#include "record/backend.h"
#include "worker_call.h"

namespace ridge::cli {

Command& add_subject_options(Command& command, SubjectOptions& options, const std::string& about_cases) {
  return command.positional("operator", options.op, "Operator, for instance gemm")
      .positional("case", options.words, about_cases, false)
      .option("--impl NAME", options.implementations,
              "Only this implementation, or this configuration of one (cuda_wgmma/pp_128x192); repeatable")
      .option("--candidate FILE", options.candidates, "This candidate source (repeatable); alone or beside --impl")
      .option("-D,--define NAME=VALUE", options.defines, "NAME=VALUE of a tunable of the candidates (repeatable)")
      .option("--threads", options.threads, "CPU threads of one call");
}

Command& add_seed_option(Command& command, SubjectOptions& options) {
  return command.option(
      "--seed", options.seed,
      "Fixes the inputs of all calls on a processor, to repeat a run; a subject could then know them, "
      "and the result is marked so (default: secret inputs)");
}

void mark_seed(const SubjectOptions& options, record::Environment& environment) {
  if (!options.seed) return;
  environment.facts["measure.inputs"] = fmt::format(
      "from the fixed seed {}: a subject could know them, so this shows speed and not honesty", *options.seed);
}

Status fill_subjects(const SubjectOptions& options, record::WorkerRequest& request) {
  request.implementations = options.implementations;
  request.protocol.threads = options.threads;
  if (options.candidates.empty() && !options.defines.empty()) {
    return with_hint(invalid("-D {} has no candidate to be defined in", options.defines[0]),
                     "name one with --candidate");
  }
  for (const std::string& path : options.candidates) {
    RIDGE_TRY(candidate, candidate_of(options.op, path, options.defines));
    const auto same = [&](const record::Candidate& one) { return one.name == candidate.name; };
    if (std::any_of(request.candidates.begin(), request.candidates.end(), same)) {
      return with_hint(invalid("two candidates are called {}", candidate.name), "give their files different names");
    }
    request.candidates.push_back(std::move(candidate));
  }
  if (options.seed && !record::backend_of_name(backend_of(request)).host) {
    return with_hint(make_error(ErrorCode::kUnsupported, "--seed {} is for calls on a processor", *options.seed),
                     "leave it out: inputs on a GPU are secret");
  }
  if (options.seed) request.seed = options.seed;
  return ok_status();
}

}  // namespace ridge::cli
