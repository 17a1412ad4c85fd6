// Requests, one or several at once, through a queue of units.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "execute/unit_queue.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

constexpr std::size_t kReadsOfALook = 8;  // files of progress

class ClusterExecutor final : public Executor {
 public:
  ClusterExecutor(std::unique_ptr<UnitQueue> queue, std::string name, std::size_t width, Clock& clock,
                  ClusterExecutorOptions options)
      : queue_(std::move(queue)),
        name_(std::move(name)),
        width_(width),
        clock_(clock),
        options_(std::move(options)),
        own_scope_(fmt::format("{:016x}{:016x}", secret_seed(), secret_seed())) {}
  ClusterExecutor(const ClusterExecutor&) = delete;
  ClusterExecutor& operator=(const ClusterExecutor&) = delete;
  ~ClusterExecutor() override {
    if (options_.scope) return;
    std::error_code ignored;
    std::filesystem::remove_all(options_.queue.root, ignored);
  }

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    const auto show = [&](std::size_t, const record::Progress& now) {
      if (on_progress) on_progress(now);
    };
    return std::move(run_all({&request, 1}, show, should_stop).front());
  }
  [[nodiscard]] std::size_t width() const override { return width_; }

  // All are units of one queue, which follows them by one question at a time. The time in which none of them was worked
  // on was waited for; active is the sum for two that work one after the other, and the longer time for two at once.
  std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                      const OnPartProgress& on_progress,
                                                      const ShouldStop& should_stop) override {
    enter_scope();
    const double waited = waited_, begun = clock_.monotonic();
    std::vector<Part> parts = put_in(requests, begun);
    double last = begun;
    while (collect(parts)) {
      if (should_stop && should_stop()) {
        cancel(parts);
        break;
      }
      const double now = clock_.monotonic();
      if (!any_runs(parts, now - last)) waited_ += now - last;
      last = now;
      if (on_progress) show(parts, on_progress);
      rest(queue_->pause());
    }
    waited_ = waited + clock_.monotonic() - begun - worked_on(parts);
    std::vector<Result<record::WorkerResponse>> answers;
    for (Part& part : parts) answers.push_back(std::move(*part.answer));
    return answers;
  }
  [[nodiscard]] double waited() const override { return waited_; }

 private:
  // One of the requests that are answered together.
  struct Part {
    std::string content, key;
    int number = 0;    // among the askings of one content in this scope
    double begun = 0;  // when it was put in
    double idle = 0;   // seconds for which it was not seen to run
    std::optional<Result<record::WorkerResponse>> answer;
    double from = 0, until = 0;  // when it was worked on
  };

  // Equal ones have numbers of their own, by which a later process finds them again.
  std::vector<Part> put_in(std::span<const record::WorkerRequest> requests, double now) {
    std::vector<Part> parts;
    std::map<std::string, int> equal;
    for (const record::WorkerRequest& request : requests) {
      Part part;
      part.content = unit_key(request, "");
      part.number = asked_[part.content] + equal[part.content]++;
      part.begun = part.from = part.until = now;
      const Result<std::string> key = queue_->add(request, fmt::format("{} {}", scope_, part.number));
      if (key) part.key = *key;
      if (!key) part.answer = key.error();
      parts.push_back(std::move(part));
    }
    return parts;
  }

  // Looks once and takes what has ended; whether any has no answer yet.
  bool collect(std::vector<Part>& parts) {
    const Status looked = queue_->step();
    bool open = false;
    for (Part& part : parts) {
      if (part.answer) continue;
      if (!looked) {
        refuse(part, looked.error());
      } else if (auto outcome = queue_->take(part.key)) {
        hand_over(part, std::move(*outcome));
      } else {
        open = true;
      }
    }
    return open;
  }

  void cancel(std::vector<Part>& parts) {
    std::vector<std::string> keys;
    for (const Part& part : parts) {
      if (!part.answer) keys.push_back(part.key);
    }
    const Status cancelled = queue_->cancel(keys);
    const Error why = cancelled ? make_error(ErrorCode::kConflict, "stopped on request") : cancelled.error();
    for (Part& part : parts) {
      if (!part.answer) refuse(part, why);
    }
  }

  // Of one without a result it is known only when it was seen to run.
  void refuse(Part& part, Error why) {
    part.until = clock_.monotonic();
    part.from = part.begun + part.idle;
    part.answer = std::move(why);
  }

  // Whether any is seen to run; the seconds since the last look were idle ones of those that are not.
  bool any_runs(std::vector<Part>& parts, double seconds) const {
    bool any = false;
    for (Part& part : parts) {
      if (part.answer) continue;
      const bool runs = queue_->standing(part.key).value_or(UnitStanding{}).running;
      if (!runs) part.idle += seconds;
      any = any || runs;
    }
    return any;
  }

  // Seconds in which at least one of them was worked on.
  static double worked_on(const std::vector<Part>& parts) {
    std::vector<std::pair<double, double>> spans;
    for (const Part& part : parts) spans.emplace_back(part.from, part.until);
    std::ranges::sort(spans);
    double seconds = 0, covered = spans.empty() ? 0 : spans.front().first;
    for (const auto& [from, until] : spans) {
      seconds += std::max(0.0, until - std::max(from, covered));
      covered = std::max(covered, until);
    }
    return seconds;
  }

  // Units of an earlier scope are recorded where they belong: their folders go.
  void enter_scope() {
    std::string now = options_.scope ? options_.scope() : own_scope_;
    if (now == scope_) return;
    for (const std::string& key : handed_over_) queue_->forget(key);
    handed_over_.clear();
    asked_.clear();
    scope_ = std::move(now);
  }

  void hand_over(Part& part, UnitOutcome outcome) {
    if (outcome.error) {
      queue_->forget(part.key);
      refuse(part, std::move(*outcome.error));
      return;
    }
    // Its answer says how long it worked, and the questions in between only about when it began. It worked no longer
    // than since it was handed over, whatever the node says; that may be before this process asked.
    part.until = clock_.monotonic();
    const double worked = outcome.result->took - outcome.result->waited;
    part.from = part.until - std::clamp(worked, 0.0, part.until - part.begun + outcome.before);
    record::WorkerResponse response = std::move(outcome.result->response);
    if (!response.error.empty() || !options_.scope) {
      queue_->forget(part.key);  // an answer that says no is asked for again
    } else {
      int& asked = asked_[part.content];
      asked = std::max(asked, part.number + 1);
      handed_over_.push_back(part.key);
    }
    if (response.version == record::WorkerResponse{}.version) {
      part.answer = std::move(response);
    } else {
      part.answer = make_error(ErrorCode::kCorrupt, "the worker speaks version {}, this program version {}",
                               response.version, record::WorkerResponse{}.version);
    }
  }

  // Of those that run a few at a look, in turn: each is a file of the shared folder to read.
  void show(const std::vector<Part>& parts, const OnPartProgress& on_progress) {
    std::size_t reads = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::size_t at = (next_shown_ + i) % parts.size();
      if (parts[at].answer) continue;
      const UnitStanding standing = queue_->standing(parts[at].key).value_or(UnitStanding{});
      if (!standing.running) {
        on_progress(at, {"waiting for " + name_, standing.reason, 0});
      } else if (reads++ < kReadsOfALook) {
        show_running(standing, parts[at].key, [&](const record::Progress& now) { on_progress(at, now); });
      }
    }
    next_shown_ = (next_shown_ + kReadsOfALook) % parts.size();
  }

  void show_running(const UnitStanding& standing, const std::string& key, const OnProgress& on_progress) const {
    const Result<std::string> text = read_file(UnitFolder(options_.queue.root).progress(key));
    const auto now = text ? record::parse_record<record::Progress>(*text, "progress")
                          : Result<record::Progress>(record::Progress{"running", "", 0});
    if (!now) return;
    record::Progress there = *now;
    there.stage = fmt::format("on {}: {}", standing.node, there.stage);
    on_progress(there);
  }

  void rest(double seconds) const {
    if (options_.pause) return options_.pause(seconds);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  std::unique_ptr<UnitQueue> queue_;
  std::string name_;
  std::size_t width_;
  Clock& clock_;
  ClusterExecutorOptions options_;
  std::string own_scope_, scope_;
  std::map<std::string, int> asked_;      // in this scope, by content: the number of the next asking
  std::vector<std::string> handed_over_;  // keys of this scope
  double waited_ = 0;
  std::size_t next_shown_ = 0;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_cluster_executor(std::unique_ptr<Cluster> cluster, Clock& clock,
                                                        ClusterExecutorOptions options) {
  std::string name = cluster->name();
  const std::size_t width = cluster->width();
  RIDGE_TRY(queue, UnitQueue::open(std::move(cluster), clock, options.queue));
  return std::unique_ptr<Executor>(
      std::make_unique<ClusterExecutor>(std::move(queue), std::move(name), width, clock, std::move(options)));
}

}  // namespace ridge::execute
