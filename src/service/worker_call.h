// One question to ridge-worker; everything that touches an operator or a device goes this way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// The worker of the context.
std::unique_ptr<execute::Executor> local_executor(const Context& context);

// An answer that says no is an error with its words.
Result<record::WorkerResponse> checked_answer(Result<record::WorkerResponse> response);

Result<record::WorkerResponse> ask_worker(const Context& context, record::WorkerRequest request);

// The same of the worker in another folder, that of a build. The context has to outlive the function.
std::function<Result<record::WorkerResponse>(record::WorkerRequest)> ask_worker_in(const Context& context,
                                                                                   std::filesystem::path programs);

// What the subjects of a request run on: "cuda" for CUDA candidates and implementations called cuda_..., else "cpu".
std::string backend_of(const record::WorkerRequest& request);

// What dispatch does with each case, and why.
Result<std::vector<record::Explanation>> explanations_of(const Context& context, std::vector<record::Case> cases,
                                                         const std::string& backend = "cpu");
// The implementation that dispatch chooses for each case. kUnsupported where there is none.
Result<std::vector<std::string>> chosen_for(const Context& context, const std::vector<record::Case>& cases,
                                            const std::string& backend);

// What the ceilings are of: "cpu" with so many threads, or "cuda", the first GPU.
struct CeilingSubject {
  std::string backend = "cpu";
  std::int64_t threads = 1;
};
Result<std::vector<record::Ceiling>> measure_ceilings(const Context& context, const CeilingSubject& subject);
// Ceilings measured earlier on this very device (model, identity, driver; of a GPU power limit and largest clocks,
// too), or measured now, which takes some seconds.
Result<std::vector<record::Ceiling>> known_ceilings(const Context& context, const CeilingSubject& subject);

// What others used while they were measured, in words; empty: nothing that matters. Disturbed ones are not kept.
std::string disturbance_of(const std::vector<record::Ceiling>& ceilings);

// Words of a person as cases of `op` (record/case_list.h); none: the operator's own target cases of a backend.
Result<std::vector<record::Case>> cases_of(const Context& context, const std::string& op,
                                           const std::vector<std::string>& words, const std::string& backend = "cpu");

}  // namespace ridge::service
