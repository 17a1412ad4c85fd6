// The side of a node: the units of a job, each from its order to its result.
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "execute/unit.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr double kBetweenProgress = 2.0;  // seconds

template <class T>
Result<T> unit_record(const fs::path& path, const char* what) {
  RIDGE_TRY(text, read_file(path));
  auto parsed = record::parse_record<T>(text, what);
  if (!parsed) return in_context(path.string(), parsed.error());
  return parsed;
}

// The batch, once it is certain that both sides see one folder.
Result<record::UnitBatch> batch_in(const UnitFolder& folder, const std::string& batch, const record::UnitPlace& place) {
  const auto not_shared = [&](const std::string& why) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{} is not the folder that the units were written to: {} on {}",
                   folder.root().string(), why, place.node),
        "name a folder that all machines share: folder=DIR");
  };
  Result<record::UnitBatch> read = unit_record<record::UnitBatch>(folder.batch(batch) / "batch.json", "batch");
  if (!read && read.error().code == ErrorCode::kNotFound) return not_shared("it has no batch " + batch);
  RIDGE_TRY(units, std::move(read));
  const Result<std::string> nonce = read_file(folder.nonce());
  if (!nonce || trimmed(*nonce) != units.nonce) return not_shared("another nonce stands there");
  std::string why = objection_to(units);
  for (const record::UnitTurn& turn : units.units) why = why.empty() ? objection_to(turn) : why;
  if (!why.empty())
    return make_error(ErrorCode::kCorrupt, "{}: {}", (folder.batch(batch) / "batch.json").string(), why);
  return units;
}

class UnitRun {
 public:
  UnitRun(UnitFolder folder, record::UnitTurn turn, const UnitHost& host)
      : folder_(std::move(folder)), turn_(std::move(turn)), host_(host) {}

  Status run() {
    std::error_code ignored;
    if (fs::exists(folder_.result(turn_.key), ignored)) return mark();
    RIDGE_TRY(order, unit_record<record::UnitOrder>(folder_.order(turn_.key), "unit"));
    if (order.key != turn_.key) {
      return make_error(ErrorCode::kCorrupt, "{} is of another unit, \"{}\"", folder_.order(turn_.key).string(),
                        order.key);
    }
    if (order.ridge != host_.version) return refuse_version(order.ridge);
    record::UnitStart start{turn_.attempt, host_.place, ::getpid(), 0};
    RIDGE_TRY(offset, folder_.clock_offset(host_.clock));
    start.clock_offset = offset_ = offset;
    RIDGE_CHECK_OK(write_note(folder_.started(turn_.key, turn_.attempt), record::to_line(start)));
    return work(std::move(order));
  }
  Status fail(const Error& error, bool retry) {
    const record::UnitFailure failure{turn_.attempt, host_.place, to_string(error.code),
                                      error.message, error.hint,  retry};
    in_trouble_ = retry;
    RIDGE_CHECK_OK(write_file_durably(folder_.failed(turn_.key, turn_.attempt), record::to_line(failure)));
    return mark();
  }
  // Whether it failed in a way that may be this machine's.
  [[nodiscard]] bool in_trouble() const { return in_trouble_; }

 private:
  Status work(record::UnitOrder order) {
    order.request.cache_directory = host_.cache_directory.string();
    const std::unique_ptr<Executor> executor = host_.make_executor(order);
    const double begun = host_.clock.monotonic();
    Result<record::WorkerResponse> response = executor->run(
        order.request, [this](const record::Progress& now) { show(now); }, host_.should_stop);
    if (host_.should_stop && host_.should_stop())
      return make_error(ErrorCode::kConflict, "unit {} was stopped", turn_.key);
    if (!response) return fail(response.error(), response.error().code != ErrorCode::kTimeout);
    if (response->environment) response->environment->facts["node.host"] = host_.place.host;
    if (response->environment && !host_.place.driver.empty())
      response->environment->facts["node.driver"] = host_.place.driver;
    const double took = host_.clock.monotonic() - begun;
    record::UnitResult result{1, turn_.attempt, host_.place, took, executor->waited(), offset_, std::move(*response)};
    RIDGE_CHECK_OK(write_once(folder_.result(turn_.key), record::to_line(result)));
    return mark();
  }

  void show(const record::Progress& now) {
    const double time = host_.clock.monotonic();
    if (shown_ && time - *shown_ < kBetweenProgress) return;
    shown_ = time;
    // Progress is for people: a folder that takes none fails when the result is written.
    static_cast<void>(write_note(folder_.progress(turn_.key), record::to_line(now)));
  }

  Status refuse_version(const std::string& wanted) {
    return fail(with_hint(make_error(ErrorCode::kUnsupported, "ridge {} is installed here, and ridge {} asks",
                                     host_.version, wanted),
                          "install the same version on both, or name its program: ridge=PATH"),
                false);
  }

  Status mark() { return write_note(folder_.done() / turn_.key, ""); }

  UnitFolder folder_;
  record::UnitTurn turn_;
  const UnitHost& host_;
  double offset_ = 0;
  std::optional<double> shown_;
  bool in_trouble_ = false;
};

}  // namespace

UnitJob::UnitJob(UnitFolder folder, std::string batch, std::size_t number, record::UnitBatch units,
                 const UnitHost& host)
    : folder_(std::move(folder)),
      batch_(std::move(batch)),
      number_(number),
      units_(std::move(units)),
      host_(&host),
      begun_(host.clock.monotonic()) {}

Result<UnitJob> UnitJob::open(const fs::path& root, const std::string& batch, std::size_t number,
                              const UnitHost& host) {
  const UnitFolder folder(root);
  RIDGE_TRY(units, batch_in(folder, batch, host.place));
  UnitJob job(folder, batch, number, std::move(units), host);
  if (!job.shared() && number >= job.units_.units.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} has {} units, and number {} was asked for", batch,
                      job.units_.units.size(), number);
  }
  if (job.shared()) RIDGE_CHECK_OK(job.give_back_unfinished());
  return job;
}

// A scheduler that lost a node starts its job once more: what the job had then is for a job of its own, in case it is
// what ended this one. The first start notes itself, and has nothing to look for.
Status UnitJob::give_back_unfinished() {
  RIDGE_TRY(first, write_once(folder_.taken(batch_) / fmt::format("begun-{}", number_), ""));
  if (first) return ok_status();
  RIDGE_TRY(notes, notes_of(folder_, batch_));
  for (const std::size_t at : notes.taken) {
    if (at >= units_.units.size() || taker_of(folder_, batch_, at) != static_cast<std::int64_t>(number_)) continue;
    const record::UnitTurn& turn = units_.units[at];
    std::error_code ignored;
    if (fs::exists(folder_.result(turn.key), ignored) || fs::exists(folder_.failed(turn.key, turn.attempt), ignored))
      continue;
    RIDGE_CHECK_OK(
        UnitRun(folder_, turn, *host_)
            .fail(make_error(ErrorCode::kToolFailed, "its job was started again before it had ended"), true));
  }
  return ok_status();
}

bool UnitJob::takes_more() const {
  std::error_code ignored;
  if (shared() && !fs::exists(folder_.taken(batch_), ignored)) return false;  // who handed it over has all, and is gone
  if (taken_ == 0) return true;
  if (!shared() || in_trouble_ || (units_.most > 0 && taken_ >= units_.most)) return false;
  return units_.stay <= 0 || host_->clock.monotonic() - begun_ < units_.stay;
}

// The unit of this job's number, so that jobs that start together do not ask for the same one, or else the first that
// none has.
Result<std::optional<std::size_t>> UnitJob::next_of_all() {
  RIDGE_TRY(notes, notes_of(folder_, batch_));
  const auto job = static_cast<std::int64_t>(number_);
  for (std::size_t i = 0; i <= units_.units.size(); ++i) {
    const std::size_t at = i == 0 ? number_ : i - 1;
    if (at >= units_.units.size() || notes.taken.contains(at)) continue;
    RIDGE_TRY(taken, take_unit(folder_, batch_, at, job));
    if (taken) return std::optional(at);
  }
  return std::optional<std::size_t>();
}

Result<std::optional<std::string>> UnitJob::take() {
  std::optional<std::size_t> next;
  if (takes_more() && shared()) {
    RIDGE_TRY(found, next_of_all());
    next = found;
  } else if (takes_more()) {
    next = number_;
  }
  if (!next) {
    if (shared()) RIDGE_CHECK_OK(note_that_it_leaves());
    return std::optional<std::string>();
  }
  ++taken_;
  at_ = *next;
  return std::optional(units_.units[at_].key);
}

Status UnitJob::note_that_it_leaves() {
  std::error_code ignored;
  if (!fs::exists(folder_.taken(batch_), ignored)) return ok_status();
  return write_note(folder_.taken(batch_) / fmt::format("left-{}", number_), "");
}

Status UnitJob::work() {
  UnitRun run(folder_, units_.units[at_], *host_);
  const Status done = run.run();
  in_trouble_ = run.in_trouble();
  return done;
}

Status run_job(const fs::path& root, const std::string& batch, std::size_t number, const UnitHost& host) {
  RIDGE_TRY(job, UnitJob::open(root, batch, number, host));
  for (;;) {
    RIDGE_TRY(key, job.take());
    if (!key) return ok_status();
    RIDGE_CHECK_OK(job.work());
  }
}

}  // namespace ridge::execute
