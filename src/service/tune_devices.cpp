#include "service/tune_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "execute/make_executor.h"
#include "record/tuned_folder.h"
#include "service/devices.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

using Answers = std::vector<Result<record::WorkerResponse>>;

// A device with long cases is not waited for where it has several parts, and every part starts a worker, which takes as
// long as a dozen cases whose kernels are compiled, and learns anew which contenders are hopeless.
constexpr std::size_t kPartsOfADevice = 4, kCasesOfAPart = 256;

Error unlike(const std::string& first, const std::string& device, const std::string& second, const std::string& other) {
  return with_hint(invalid("{} is {}, and {} is {}: one table cannot hold for both", first, device, second, other),
                   "tune them one after the other, or name only those that are alike");
}

// Asks every device of the worker what it is.
Status all_alike(const Context& context, execute::Executor& worker, const std::string& backend,
                 const std::string& place) {
  RIDGE_TRY(devices, ask_devices(context, worker, {place, backend, worker.width()}));
  for (const AskedDevice& one : devices) {
    const AskedDevice& first = devices.front();
    if (one.device != first.device) return unlike(first.source, first.device, one.source, one.device);
  }
  return ok_status();
}

// The same of the choices themselves, which a scheduler's devices cannot be asked before.
Status measured_alike(const Answers& answers, const std::string& place) {
  const record::TunedChoice* first = nullptr;
  std::string source;
  for (std::size_t part = 0; part < answers.size(); ++part) {
    if (!answers[part]) continue;
    for (const record::TunedChoice& one : answers[part]->tuned) {
      if (one.device.empty()) continue;  // nothing was measured
      const std::string here = source_of(*answers[part], part, place);
      if (first == nullptr) {
        first = &one;
        source = here;
      }
      const auto name = [](const record::TunedChoice& choice) {
        return choice.device + (choice.driver.empty() ? "" : ", driver " + choice.driver) +
               (choice.limits.empty() ? "" : ", " + choice.limits);
      };
      if (name(one) == name(*first)) continue;
      return unlike(source, name(*first), here, name(one));
    }
  }
  return ok_status();
}

// How far all parts are, as one step.
class PartsProgress {
 public:
  PartsProgress(const Context& context, const std::vector<record::WorkerRequest>& parts, std::size_t devices)
      : context_(context), parts_(parts), devices_(devices), shares_(parts.size()), begun_(parts.size()) {}

  void at(std::size_t part, const record::Progress& now) {
    if (devices_ == 1) return context_.progress(now);
    const bool waits = now.stage.starts_with("waiting");
    shares_[part] = now.fraction;
    begun_[part] = begun_[part] || !waits;
    const auto begun = static_cast<std::size_t>(std::ranges::count(begun_, true));
    if (begun == 0) return context_.progress({now.stage, now.detail, 0});
    context_.progress({"tuning", fmt::format("on {} devices", std::min(begun, devices_)), share_done()});
  }

 private:
  // A part without cases is one of the operator's own, and counts as one case.
  [[nodiscard]] double share_done() const {
    double done = 0, all = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto cases = static_cast<double>(std::max<std::size_t>(parts_[i].cases.size(), 1));
      done += cases * shares_[i];
      all += cases;
    }
    return done / all;
  }

  const Context& context_;
  const std::vector<record::WorkerRequest>& parts_;
  std::size_t devices_;
  std::vector<double> shares_;
  std::vector<bool> begun_;
};

// The time that is left, by the number of cases: several devices work on their parts at once.
void share_out(std::span<record::WorkerRequest> parts, double left, std::size_t devices) {
  double waiting = 0;
  for (const record::WorkerRequest& part : parts) waiting += static_cast<double>(part.cases.size());
  for (record::WorkerRequest& part : parts) {
    const double share = static_cast<double>(part.cases.size() * devices) / std::max(waiting, 1.0);
    part.time_limit = part.cases.empty() ? left : std::min(left, left * share);
  }
}

// One device takes a part after the other, each with its share of what is left, until one fails; several take all.
Answers run_parts(const Context& context, execute::Executor& worker, std::vector<record::WorkerRequest>& parts,
                  double limit, const execute::ShouldStop& should_stop) {
  SystemClock clock;
  const double begun = clock.monotonic();
  const std::size_t devices = worker.width();
  PartsProgress progress(context, parts, devices);
  Answers answers;
  while (answers.size() < parts.size()) {
    const std::size_t at = answers.size();
    const std::span<record::WorkerRequest> left = std::span(parts).subspan(at);
    if (limit > 0) share_out(left, std::max(limit - (clock.monotonic() - begun), 0.1), devices);
    const auto show = [&](std::size_t part, const record::Progress& now) { progress.at(at + part, now); };
    Answers some = worker.run_all(devices > 1 ? left : left.first(1), show, should_stop);
    for (auto& one : some) answers.push_back(checked_answer(std::move(one)));
    if (devices == 1 && !answers.back()) break;
  }
  context.settled();
  return answers;
}

// What one table can hold of the answers; the part that has none is an error after all that can be kept is kept.
Result<std::vector<record::TunedChoice>> choices_of(const Context& context, const Answers& answers,
                                                    const std::vector<record::WorkerRequest>& parts,
                                                    const std::string& place) {
  RIDGE_CHECK_OK(measured_alike(answers, place));
  std::vector<record::TunedChoice> all, kept;
  const Error* failure = nullptr;
  std::size_t missing = parts.size() - answers.size();
  for (std::size_t part = 0; part < answers.size(); ++part) {
    if (!answers[part]) {
      ++missing;
      if (failure == nullptr) failure = &answers[part].error();
      continue;
    }
    for (const record::TunedChoice& one : answers[part]->tuned) {
      all.push_back(one);
      if (belongs_in_table(one, parts[part].keep_disturbed)) kept.push_back(one);
    }
  }
  if (!execute::is_local(place)) RIDGE_CHECK_OK(record::keep_tuned(kept, context.cache_directory));
  if (failure == nullptr) return all;
  if (parts.size() == 1) return *failure;
  Error error = in_context(fmt::format("{} of {} parts have no answer", missing, parts.size()), *failure);
  error.hint += fmt::format("{}what the others found is kept; tune again for the rest", error.hint.empty() ? "" : "; ");
  return error;
}

// The product of a case's sizes, as a logarithm: how long it takes, about.
double size_of(const record::Case& one) {
  double size = 0;
  for (const record::Param& param : one.params) {
    const auto number = one.integer(param.name);
    if (number && *number > 0) size += std::log(static_cast<double>(*number));
  }
  return size;
}

}  // namespace

std::vector<record::WorkerRequest> parts_of(const std::vector<record::WorkerRequest>& requests, std::size_t devices) {
  if (devices == 1) return requests;
  std::vector<record::WorkerRequest> parts;
  for (const record::WorkerRequest& request : requests) {
    const std::size_t cases = request.cases.size(), each = (cases + devices - 1) / devices;
    const std::size_t of_device = std::clamp<std::size_t>(each / kCasesOfAPart, 1, kPartsOfADevice);
    const std::size_t count = std::min(cases, of_device * devices);
    std::vector<record::Case> cases_left = request.cases;
    std::ranges::stable_sort(cases_left, std::ranges::greater(), size_of);
    std::vector<record::WorkerRequest> dealt(count, request);
    for (record::WorkerRequest& part : dealt) part.cases.clear();
    // Large ones first, to and fro, so that parts take about as long.
    for (std::size_t i = 0; i < cases; ++i) {
      const std::size_t at = i % count;
      dealt[i / count % 2 == 0 ? at : count - 1 - at].cases.push_back(std::move(cases_left[i]));
    }
    std::ranges::move(dealt, std::back_inserter(parts));
    if (request.cases.empty()) parts.push_back(request);  // the operator's own cases, which the worker knows
  }
  return parts;
}

bool belongs_in_table(const record::TunedChoice& choice, bool keep_disturbed) {
  return !choice.implementation.empty() && (choice.disturbed.empty() || keep_disturbed);
}

Result<std::vector<record::TunedChoice>> tune_on_devices(const Context& context,
                                                         const std::vector<record::WorkerRequest>& requests,
                                                         const DeviceTuning& where) {
  const std::unique_ptr<execute::Executor> worker = local_executor(context);
  std::vector<record::WorkerRequest> parts = parts_of(requests, worker->width());
  if (parts.empty()) return std::vector<record::TunedChoice>();
  for (record::WorkerRequest& part : parts) part.cache_directory = context.cache_directory.string();
  std::atomic<bool> refused = false;
  const auto stopped = [&] { return refused || context.stopped(); };
  const auto ask = [&]() -> Status {
    Status alike = all_alike(context, *worker, parts.front().backend, where.place);
    refused = !alike;
    return alike;
  };
  const bool asked = worker->width() > 1 && execute::has_fixed_devices(where.place);
  // Workers of GPUs beside us start meanwhile, which takes longer; a processor is not to be disturbed.
  const bool meanwhile = execute::is_local(where.place);
  std::future<Status> alike = asked && meanwhile ? std::async(std::launch::async, ask) : std::future<Status>();
  if (asked && !meanwhile) RIDGE_CHECK_OK(ask());
  const Answers answers = run_parts(context, *worker, parts, where.limit, stopped);
  if (alike.valid()) RIDGE_CHECK_OK(alike.get());
  return choices_of(context, answers, parts, where.place);
}

}  // namespace ridge::service
