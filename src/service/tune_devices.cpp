#include "service/tune_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "execute/local.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

// A device with long cases is not waited for where it has several parts, and every part starts a worker, which takes as
// long as a dozen cases whose kernels are compiled, and learns anew which contenders are hopeless.
constexpr std::size_t kPartsOfADevice = 4, kCasesOfAPart = 256;
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

std::unique_ptr<execute::Executor> worker_of_device(const Context& context, const std::string& device) {
  if (context.make_worker) return context.make_worker();
  execute::LocalOptions options;
  options.environment[kVisible] = device;
  return execute::make_local_executor(context.worker_program, std::move(options));
}

// Name and driver of the only GPU that a worker sees.
Result<std::string> name_of_device(const Context& context, const std::string& device) {
  record::WorkerRequest describe;
  describe.cache_directory = context.cache_directory.string();
  RIDGE_TRY(response, worker_of_device(context, device)->run(describe, {}, [&] { return context.stopped(); }));
  const auto facts = response.environment ? response.environment->facts : std::map<std::string, std::string>();
  const auto name = facts.find("gpu.name"), driver = facts.find("gpu.driver_version");
  if (name == facts.end() || driver == facts.end()) {
    return with_hint(make_error(ErrorCode::kUnsupported, "there is no GPU {}", device), "`nvidia-smi -L` lists them");
  }
  return fmt::format("{}, driver for CUDA {}", name->second, driver->second);
}

// All are asked at once: each answer takes a worker's start.
Status all_alike(const Context& context, const std::vector<std::string>& devices) {
  std::vector<std::future<Result<std::string>>> names;
  for (const std::string& device : devices) {
    names.push_back(std::async(std::launch::async, [&] { return name_of_device(context, device); }));
  }
  std::vector<Result<std::string>> known;
  for (auto& name : names) known.push_back(name.get());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!known[i]) return known[i].error();
    if (*known[i] == *known[0]) continue;
    return with_hint(invalid("GPU {} is {}, and GPU {} is {}: one table cannot hold for both", devices.front(),
                             *known[0], devices[i], *known[i]),
                     "tune them one after the other, or name only those that are alike");
  }
  return ok_status();
}

// Parts that wait, and what came of those that are done.
class PartQueue {
 public:
  PartQueue(std::vector<record::WorkerRequest> parts, std::size_t devices, double limit)
      : parts_(std::move(parts)), answers_(parts_.size()), shares_(parts_.size()), devices_(devices), limit_(limit) {
    for (const record::WorkerRequest& part : parts_) waiting_ += part.cases.size();
  }

  // The next part, with its share of the time that is left; none when all are taken or one failed.
  std::optional<std::pair<std::size_t, record::WorkerRequest>> next() {
    const std::scoped_lock lock(mutex_);
    if (taken_ == parts_.size() || failure_) return std::nullopt;
    record::WorkerRequest part = parts_[taken_];
    if (limit_ > 0) {
      const double left = std::max(limit_ - (clock_.monotonic() - start_), 0.1);
      part.time_limit =
          std::min(left, left * static_cast<double>(part.cases.size() * devices_) / static_cast<double>(waiting_));
    }
    waiting_ -= part.cases.size();
    return std::pair(taken_++, std::move(part));
  }

  // No other part is begun, and those that run are stopped.
  void refuse(Error why) {
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(why);
    refused_ = true;
  }
  [[nodiscard]] bool refused() const { return refused_; }

  void answer(std::size_t part, Result<record::WorkerResponse> response) {
    const std::scoped_lock lock(mutex_);
    shares_[part] = 1;
    response = checked_answer(std::move(response));
    if (response) {
      answers_[part] = std::move(response->tuned);
    } else if (!failure_) {
      failure_ = response.error();
    }
  }

  // What a worker says of its part, from 0 to 1.
  void at(std::size_t part, double share) {
    const std::scoped_lock lock(mutex_);
    shares_[part] = share;
  }

  // Of all parts, from 0 to 1; a part without cases is one of the operator's own, and counts as one case.
  [[nodiscard]] double share_done() {
    const std::scoped_lock lock(mutex_);
    double done = 0, all = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const auto cases = static_cast<double>(std::max<std::size_t>(parts_[i].cases.size(), 1));
      done += cases * shares_[i];
      all += cases;
    }
    return all > 0 ? done / all : 1;
  }

  Result<std::vector<record::TunedChoice>> choices() {
    if (failure_) return *failure_;
    std::vector<record::TunedChoice> all;
    for (auto& part : answers_) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

 private:
  std::mutex mutex_;
  std::vector<record::WorkerRequest> parts_;
  std::vector<std::vector<record::TunedChoice>> answers_;
  std::vector<double> shares_;
  std::size_t devices_, taken_ = 0, waiting_ = 0;
  double limit_;
  std::optional<Error> failure_;
  std::atomic<bool> refused_ = false;
  SystemClock clock_;
  double start_ = clock_.monotonic();
};

}  // namespace

Result<std::vector<std::string>> devices_of(const std::string& words) {
  std::vector<std::string> devices;
  for (const std::string& word : split(words, ',')) {
    const std::string device(trimmed(word));
    const bool plain = !device.empty() && std::all_of(device.begin(), device.end(),
                                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
    if (!plain || std::find(devices.begin(), devices.end(), device) != devices.end())
      return with_hint(invalid("--devices {}: \"{}\" is no device, or named twice", words, device),
                       "for instance --devices 0,1; `nvidia-smi -L` lists them");
    devices.push_back(device);
  }
  return devices;
}

namespace {

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
  std::vector<record::WorkerRequest> parts;
  for (const record::WorkerRequest& request : requests) {
    const std::size_t cases = request.cases.size(), each = (cases + devices - 1) / devices;
    const std::size_t of_device = devices > 1 ? std::clamp<std::size_t>(each / kCasesOfAPart, 1, kPartsOfADevice) : 1;
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

Result<std::vector<record::TunedChoice>> tune_on_devices(const Context& context,
                                                         const std::vector<record::WorkerRequest>& requests,
                                                         const std::vector<std::string>& devices, double limit) {
  std::vector<record::WorkerRequest> parts = parts_of(requests, devices.size());
  for (record::WorkerRequest& part : parts) part.cache_directory = context.cache_directory.string();
  PartQueue queue(std::move(parts), devices.size(), limit);
  std::atomic<std::size_t> ended = 0;
  std::vector<std::thread> workers;
  // Asked while the workers of the first parts start, which takes longer.
  if (devices.size() > 1) {
    workers.emplace_back([&] {
      if (const Status alike = all_alike(context, devices); !alike) queue.refuse(alike.error());
    });
  }
  for (const std::string& device : devices) {
    workers.emplace_back([&, device] {
      const std::unique_ptr<execute::Executor> worker = worker_of_device(context, device);
      while (auto part = queue.next()) {
        const auto stopped = [&] { return queue.refused() || context.stopped(); };
        const auto progress = [&](const record::Progress& at) { queue.at(part->first, at.fraction); };
        queue.answer(part->first, worker->run(part->second, progress, stopped));
      }
      ++ended;
    });
  }
  // Progress is told on the thread of the use case.
  while (ended < devices.size()) {
    context.progress({"tuning", fmt::format("on {} devices", devices.size()), queue.share_done()});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (std::thread& worker : workers) worker.join();
  context.settled();
  return queue.choices();
}

}  // namespace ridge::service
