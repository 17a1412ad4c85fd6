#include "service/subjects.h"

#include <algorithm>

#include "base/error.h"
#include "record/backend.h"
#include "service/candidate_file.h"
#include "service/worker_call.h"

namespace ridge::service {

void mark_seed(const Subjects& asked, record::Environment& environment) {
  if (!asked.seed) return;
  environment.facts["measure.inputs"] = fmt::format(
      "from the fixed seed {}: a subject could know them, so this shows speed and not honesty", *asked.seed);
}

Status fill_subjects(const Context& context, const Subjects& asked, record::WorkerRequest& request) {
  request.implementations = asked.implementations;
  request.protocol.threads = asked.threads;
  if (asked.candidates.empty() && !asked.defines.empty()) {
    return with_hint(invalid("-D {} has no candidate to be defined in", asked.defines[0]), "name one with --candidate");
  }
  for (const std::string& path : asked.candidates) {
    RIDGE_TRY(candidate, candidate_of(context, asked.op, path, asked.defines));
    const auto same = [&](const record::Candidate& one) { return one.name == candidate.name; };
    if (std::any_of(request.candidates.begin(), request.candidates.end(), same)) {
      return with_hint(invalid("two candidates are called {}", candidate.name), "give their files different names");
    }
    request.candidates.push_back(std::move(candidate));
  }
  if (asked.seed && !record::backend_of_name(backend_of(request)).host) {
    return with_hint(make_error(ErrorCode::kUnsupported, "--seed {} is for calls on a processor", *asked.seed),
                     "leave it out: inputs on a GPU are secret");
  }
  if (asked.seed) request.seed = asked.seed;
  return ok_status();
}

}  // namespace ridge::service
