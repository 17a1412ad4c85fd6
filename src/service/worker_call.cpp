#include "service/worker_call.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "execute/local.h"
#include "execute/unit.h"
#include "record/backend.h"
#include "record/case_list.h"
#include "record/json.h"
#include "service/devices.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// A ceiling older than this is measured again: what a shared machine gives changes with its neighbours.
constexpr double kCeilingLifetime = 24 * 3600.0;

Result<fs::path> ceilings_path(const Context& context, const CeilingSubject& subject) {
  record::WorkerRequest describe;
  describe.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(described, ask_worker(context, std::move(describe)));
  const record::Environment there = described.environment.value_or(record::Environment{});
  const record::BackendInfo& info = record::backend_of_name(subject.backend);
  std::string device = device_of(there, subject.backend);
  // Two machines of one kind share a cache folder, and not what they reach; nor do two cards of one.
  if (!device.empty()) {
    device += "\n" + there.fact(info.host ? "cpu.usable" : "gpu.uuid") + "\n" +
              there.fact("node.host", execute::this_place().host);
  }
  const std::string of = info.host ? std::to_string(subject.threads) : subject.backend;
  const std::string fingerprint = device.empty() ? "" : "-" + sha256(device).substr(0, 12);
  return context.cache_directory / fmt::format("ceilings-{}{}.json", of, fingerprint);
}

}  // namespace

std::unique_ptr<execute::Executor> local_executor(const Context& context) {
  return context.make_worker ? context.make_worker() : execute::make_local_executor(context.worker_program);
}

Result<record::WorkerResponse> checked_answer(Result<record::WorkerResponse> response) {
  if (!response || response->error.empty()) return response;
  const ErrorCode code = response->unavailable ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument;
  return with_hint(make_error(code, "{}", response->error), response->error_hint);
}

namespace {

Result<record::WorkerResponse> ask(const Context& context, execute::Executor& worker, record::WorkerRequest request) {
  request.cache_directory = context.cache_directory.string();
  Result<record::WorkerResponse> response = worker.run(
      request, [&](const record::Progress& progress) { context.progress(progress); },
      [&] { return context.stopped(); });
  context.settled();
  return checked_answer(std::move(response));
}

}  // namespace

Result<record::WorkerResponse> ask_worker(const Context& context, record::WorkerRequest request) {
  return ask(context, *local_executor(context), std::move(request));
}

std::function<Result<record::WorkerResponse>(record::WorkerRequest)> ask_worker_in(const Context& context,
                                                                                   fs::path programs) {
  return [&context, programs = std::move(programs)](record::WorkerRequest request) {
    return ask(context, *execute::make_local_executor(programs / "ridge-worker"), std::move(request));
  };
}

std::string backend_of(const record::WorkerRequest& request) {
  std::vector<record::Candidate> candidates = request.candidates;
  if (request.incumbent) candidates.push_back(*request.incumbent);
  for (const record::BackendInfo& row : record::backends()) {
    const std::string prefix = std::string(row.name) + "_";
    const bool candidate =
        std::any_of(candidates.begin(), candidates.end(), [&](const auto& c) { return c.backend == row.name; });
    const bool implementation = std::any_of(request.implementations.begin(), request.implementations.end(),
                                            [&](const std::string& name) { return name.starts_with(prefix); });
    if (!row.host && (candidate || implementation)) return std::string(row.name);
  }
  return std::string(record::info_of(Backend::kCpu).name);
}

Result<std::vector<record::Explanation>> explanations_of(const Context& context, std::vector<record::Case> cases,
                                                         const std::string& backend) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kExplain;
  request.cases = std::move(cases);
  request.backend = backend;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  return std::move(response.explanations);
}

Result<std::vector<std::string>> chosen_for(const Context& context, const std::vector<record::Case>& cases,
                                            const std::string& backend) {
  RIDGE_TRY(explanations, explanations_of(context, cases, backend));
  std::vector<std::string> names;
  for (const record::Explanation& one : explanations) {
    if (one.choice.empty()) {
      return with_hint(make_error(ErrorCode::kUnsupported, "the library runs nothing for {} on {}", one.label, backend),
                       "`ridge ops explain` says why; name a candidate instead");
    }
    names.push_back(one.choice);
  }
  if (names.empty() || names.size() != cases.size()) {
    return make_error(ErrorCode::kToolFailed, "the worker explained {} choices of {}", names.size(), cases.size());
  }
  return names;
}

std::string disturbance_of(const std::vector<record::Ceiling>& ceilings) {
  for (const record::Ceiling& one : ceilings) {
    if (!one.disturbed.empty()) return one.disturbed;
  }
  return {};
}

namespace {

// For known_ceilings.
Status keep_ceilings(const Context& context, const CeilingSubject& subject,
                     const std::vector<record::Ceiling>& ceilings) {
  if (!disturbance_of(ceilings).empty()) return ok_status();
  RIDGE_TRY(path, ceilings_path(context, subject));
  return write_file_durably(path, record::to_pretty(ceilings));
}

}  // namespace

Result<std::vector<record::Ceiling>> measure_ceilings(const Context& context, const CeilingSubject& subject) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kCeilings;
  request.backend = subject.backend;
  request.protocol.threads = subject.threads;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  RIDGE_CHECK_OK(keep_ceilings(context, subject, response.ceilings));
  return response.ceilings;
}

Result<std::vector<record::Ceiling>> known_ceilings(const Context& context, const CeilingSubject& subject) {
  RIDGE_TRY(path, ceilings_path(context, subject));
  std::error_code missing;
  const auto written = fs::last_write_time(path, missing);
  if (!missing) {
    const std::chrono::duration<double> age = fs::file_time_type::clock::now() - written;
    const Result<std::string> text = read_file(path);
    if (text && age.count() < kCeilingLifetime) {
      auto ceilings = record::parse_record<std::vector<record::Ceiling>>(*text, "ceilings");
      if (ceilings) return ceilings;  // an unreadable file is measured again
    }
  }
  return measure_ceilings(context, subject);
}

Result<std::vector<record::Case>> cases_of(const Context& context, const std::string& op,
                                           const std::vector<std::string>& words, const std::string& backend) {
  if (!words.empty()) return record::expand_cases(op, words);
  record::WorkerRequest request;
  request.task = record::WorkerTask::kOperators;
  request.backend = backend;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  std::string known;
  for (record::OperatorInfo& info : response.operators) {
    if (info.name == op) return std::move(info.target_cases);
    known += (known.empty() ? "" : ", ") + info.name;
  }
  return with_hint(make_error(ErrorCode::kNotFound, "there is no operator \"{}\"", op), "known: " + known);
}

}  // namespace ridge::service
