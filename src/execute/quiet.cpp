#include "execute/quiet.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ridge::execute {
namespace {

class QuietExecutor final : public Executor {
 public:
  QuietExecutor(std::unique_ptr<Executor> inner, Clock& clock, QuietOptions options)
      : inner_(std::move(inner)), clock_(clock), options_(std::move(options)) {}

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    if (measures(request.task)) RIDGE_CHECK_OK(wait(on_progress, should_stop));
    return inner_->run(request, on_progress, should_stop);
  }
  [[nodiscard]] std::size_t width() const override { return inner_->width(); }
  // Quiet is waited for once, before all of them.
  std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                      const OnPartProgress& on_progress,
                                                      const ShouldStop& should_stop) override {
    const auto show = [&](const record::Progress& now) {
      for (std::size_t part = 0; on_progress && part < requests.size(); ++part) on_progress(part, now);
    };
    const bool measuring = std::ranges::any_of(requests, [](const auto& one) { return measures(one.task); });
    const Status quiet = measuring ? wait(show, should_stop) : ok_status();
    if (!quiet) return std::vector<Result<record::WorkerResponse>>(requests.size(), quiet.error());
    return inner_->run_all(requests, on_progress, should_stop);
  }
  [[nodiscard]] double waited() const override { return waited_ + inner_->waited(); }

 private:
  Status wait(const OnProgress& on_progress, const ShouldStop& should_stop) {
    const double begun = clock_.monotonic(), before = waited_;
    while (waited_ < options_.limit) {
      const Neighbourhood around = options_.look();
      waited_ = before + clock_.monotonic() - begun;
      if (around.foreign_load <= options_.max_foreign_load && around.steal <= options_.max_steal) break;
      if (should_stop && should_stop()) return make_error(ErrorCode::kConflict, "stopped while waiting for quiet");
      if (!on_progress) continue;
      const bool last = waited_ >= options_.limit;
      on_progress({last ? "measuring on a busy machine" : "waiting for quiet, not charged to the budget", around.text(),
                   waited_ / options_.limit});
    }
    return ok_status();
  }

  std::unique_ptr<Executor> inner_;
  Clock& clock_;
  QuietOptions options_;
  double waited_ = 0;
};

}  // namespace

std::unique_ptr<Executor> make_quiet_executor(std::unique_ptr<Executor> inner, Clock& clock, QuietOptions options) {
  return std::make_unique<QuietExecutor>(std::move(inner), clock, std::move(options));
}

}  // namespace ridge::execute
