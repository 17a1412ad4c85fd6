#include "execute/local_pool.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "execute/local.h"

namespace ridge::execute {
namespace {

using Response = Result<record::WorkerResponse>;

constexpr std::chrono::milliseconds kBetweenLooks(100);

// Several requests under way: what is left of them, and what their workers say.
class Round {
 public:
  Round(std::span<const record::WorkerRequest> requests, std::size_t workers)
      : requests_(requests), answers_(requests.size()), next_(workers), working_(workers) {}

  // Of one worker, on its thread: the request of its number, then whatever is left.
  void work(Executor& worker, std::size_t number) {
    for (std::size_t part = number; part < requests_.size(); part = next_++) {
      if (stopped_) break;
      const auto show = [&](const record::Progress& now) {
        const std::scoped_lock lock(mutex_);
        said_.emplace_back(part, now);
      };
      Response answer = worker.run(requests_[part], show, [this] { return stopped_.load(); });
      const std::scoped_lock lock(mutex_);
      answers_[part] = std::move(answer);
    }
    const std::scoped_lock lock(mutex_);
    --working_;
    changed_.notify_one();
  }

  // On the thread of the caller, until all workers have ended.
  void follow(const OnPartProgress& on_progress, const ShouldStop& should_stop) {
    bool ended = false;
    while (!ended) {
      std::vector<std::pair<std::size_t, record::Progress>> said;
      {
        std::unique_lock lock(mutex_);
        ended = changed_.wait_for(lock, kBetweenLooks, [this] { return working_ == 0; });
        said.swap(said_);
      }
      for (const auto& [part, now] : said) {
        if (on_progress) on_progress(part, now);
      }
      if (should_stop && should_stop()) stopped_ = true;
    }
  }

  std::vector<Response> answers() {
    std::vector<Response> all;
    for (std::optional<Response>& one : answers_) {
      all.push_back(one ? std::move(*one) : Response(make_error(ErrorCode::kConflict, "stopped on request")));
    }
    return all;
  }

 private:
  std::span<const record::WorkerRequest> requests_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<Response>> answers_;
  std::vector<std::pair<std::size_t, record::Progress>> said_;
  std::atomic<std::size_t> next_;
  std::atomic<bool> stopped_ = false;
  std::size_t working_;
};

class Pool final : public Executor {
 public:
  explicit Pool(std::vector<std::unique_ptr<Executor>> workers) : workers_(std::move(workers)) {}

  Response run(const record::WorkerRequest& request, const OnProgress& on_progress,
               const ShouldStop& should_stop) override {
    return workers_.front()->run(request, on_progress, should_stop);
  }
  [[nodiscard]] std::size_t width() const override { return workers_.size(); }
  std::vector<Response> run_all(std::span<const record::WorkerRequest> requests, const OnPartProgress& on_progress,
                                const ShouldStop& should_stop) override {
    const std::size_t workers = std::min(workers_.size(), requests.size());
    Round round(requests, workers);
    std::vector<std::thread> threads;
    for (std::size_t number = 0; number < workers; ++number) {
      threads.emplace_back([&, number] { round.work(*workers_[number], number); });
    }
    round.follow(on_progress, should_stop);
    for (std::thread& thread : threads) thread.join();
    return round.answers();
  }

 private:
  std::vector<std::unique_ptr<Executor>> workers_;
};

bool names_a_device(const std::string& word) {
  const auto all = [&](auto is) { return !word.empty() && std::ranges::all_of(word, is); };
  if (all([](unsigned char c) { return std::isdigit(c) != 0; })) return true;
  return (word.starts_with("GPU-") || word.starts_with("MIG-")) &&
         all([](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
}

}  // namespace

Result<std::vector<std::string>> devices_of(const std::vector<std::string>& words) {
  std::vector<std::string> devices;
  for (const std::string& word : words) {
    const bool twice = std::ranges::find(devices, word) != devices.end();
    if (!names_a_device(word) || twice) {
      return with_hint(invalid("local:{}: \"{}\" is {}", fmt::join(words, ","), word, twice ? "named twice" : "no GPU"),
                       "numbers, or identities that begin with GPU- or MIG-, for instance local:0,1; `nvidia-smi -L` "
                       "lists them");
    }
    devices.push_back(word);
  }
  return devices;
}

std::unique_ptr<Executor> make_pool(std::vector<std::unique_ptr<Executor>> workers) {
  return std::make_unique<Pool>(std::move(workers));
}

std::unique_ptr<Executor> make_local_pool(const std::filesystem::path& worker_program,
                                          const std::vector<std::string>& devices) {
  std::vector<std::unique_ptr<Executor>> workers;
  for (const std::string& device : devices) {
    LocalOptions options;
    options.environment["CUDA_VISIBLE_DEVICES"] = device;
    workers.push_back(make_local_executor(worker_program, std::move(options)));
  }
  return make_pool(std::move(workers));
}

}  // namespace ridge::execute
