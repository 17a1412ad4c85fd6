// The side of a node: one unit, from its order to its result.
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

// The unit's turn in its batch, once it is certain that both sides see one folder.
Result<record::UnitTurn> turn_of(const UnitFolder& folder, const std::string& batch, std::size_t index,
                                 const record::UnitPlace& place) {
  const auto not_shared = [&](const std::string& why) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{} is not the folder that the units were written to: {} on {}",
                   folder.root().string(), why, place.node),
        "name a folder that all machines share: folder=DIR");
  };
  const Result<record::UnitBatch> read = unit_record<record::UnitBatch>(folder.batch(batch) / "batch.json", "batch");
  if (!read && read.error().code == ErrorCode::kNotFound) return not_shared("it has no batch " + batch);
  RIDGE_TRY(units, read);
  const Result<std::string> nonce = read_file(folder.nonce());
  if (!nonce || trimmed(*nonce) != units.nonce) return not_shared("another nonce stands there");
  if (index >= units.units.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} has {} units, and number {} was asked for", batch,
                      units.units.size(), index);
  }
  if (const std::string why = objection_to(units.units[index]); !why.empty())
    return make_error(ErrorCode::kCorrupt, "{}: {}", (folder.batch(batch) / "batch.json").string(), why);
  return units.units[index];
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
    RIDGE_CHECK_OK(write_file_durably(folder_.started(turn_.key, turn_.attempt), record::to_line(start)));
    return work(std::move(order));
  }

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
    static_cast<void>(write_file_durably(folder_.progress(turn_.key), record::to_line(now)));
  }

  Status refuse_version(const std::string& wanted) {
    return fail(with_hint(make_error(ErrorCode::kUnsupported, "ridge {} is installed here, and ridge {} asks",
                                     host_.version, wanted),
                          "install the same version on both, or name its program: ridge=PATH"),
                false);
  }

  Status fail(const Error& error, bool retry) {
    const record::UnitFailure failure{turn_.attempt, host_.place, to_string(error.code),
                                      error.message, error.hint,  retry};
    RIDGE_CHECK_OK(write_file_durably(folder_.failed(turn_.key, turn_.attempt), record::to_line(failure)));
    return mark();
  }

  Status mark() { return write_file_durably(folder_.done() / turn_.key, ""); }

  UnitFolder folder_;
  record::UnitTurn turn_;
  const UnitHost& host_;
  double offset_ = 0;
  std::optional<double> shown_;
};

}  // namespace

Status run_unit(const fs::path& root, const std::string& batch, std::size_t index, const UnitHost& host) {
  const UnitFolder folder(root);
  RIDGE_TRY(turn, turn_of(folder, batch, index, host.place));
  return UnitRun(folder, std::move(turn), host).run();
}

}  // namespace ridge::execute
