// One question to ridge-worker, with progress and Ctrl-C; everything that touches an operator or a device goes this
// way.
#pragma once

#include <atomic>
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

Result<record::WorkerResponse> ask_worker(record::WorkerRequest request);

// Ceilings measured earlier on this machine, or measured now (with a note that this takes some seconds).
Result<std::vector<record::Ceiling>> known_ceilings(std::int64_t threads);

Status keep_ceilings(std::int64_t threads, const std::vector<record::Ceiling>& ceilings);

// Words of the command line as cases of `op` (record/case_list.h); none: the operator's own target cases.
Result<std::vector<record::Case>> cases_of(const std::string& op, const std::vector<std::string>& words);

// A candidate from a source file and NAME=VALUE definitions.
Result<record::Candidate> candidate_of(const std::string& op, const std::string& path,
                                       const std::vector<std::string>& defines);

}  // namespace ridge::cli
