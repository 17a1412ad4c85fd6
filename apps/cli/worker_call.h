// One question to ridge-worker, with progress and Ctrl-C; everything that touches an operator or a device goes this
// way.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "execute/executor.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "terminal.h"

namespace ridge::cli {

// How often Ctrl-C or SIGTERM arrived since install_signal_handlers().
int interruptions();
void install_signal_handlers();

// Directory for built artefacts: --cache-dir, RIDGE_CACHE_DIR, XDG_CACHE_HOME/ridge, ~/.cache/ridge.
std::string cache_directory();

// The worker beside this program.
std::unique_ptr<execute::Executor> local_executor();
// Beside this program.
std::filesystem::path worker_program();

Result<record::WorkerResponse> ask_worker(record::WorkerRequest request);

// The same of the worker in another folder, that of a build.
std::function<Result<record::WorkerResponse>(record::WorkerRequest)> ask_worker_in(std::filesystem::path programs);

// What the subjects of a request run on: "cuda" for CUDA candidates and implementations called cuda_..., else "cpu".
std::string backend_of(const record::WorkerRequest& request);

// The implementation that dispatch chooses for each case. kUnsupported where there is none.
Result<std::vector<std::string>> chosen_for(const std::vector<record::Case>& cases, const std::string& backend);

// What the ceilings are of: "cpu" with so many threads, or "cuda", the first GPU.
struct CeilingSubject {
  std::string backend = "cpu";
  std::int64_t threads = 1;
};
Result<std::vector<record::Ceiling>> measure_ceilings(const CeilingSubject& subject);
// Ceilings measured earlier on this very device (model, identity, driver), or measured now (with a note that this takes
// some seconds).
Result<std::vector<record::Ceiling>> known_ceilings(const CeilingSubject& subject);

// For known_ceilings. Disturbed ones are not kept.
Status keep_ceilings(const CeilingSubject& subject, const std::vector<record::Ceiling>& ceilings);
// What others used while they were measured, in words; empty: nothing that matters.
std::string disturbance_of(const std::vector<record::Ceiling>& ceilings);

// Words of the command line as cases of `op` (record/case_list.h); none: the operator's own target cases.
Result<std::vector<record::Case>> cases_of(const std::string& op, const std::vector<std::string>& words);

}  // namespace ridge::cli
