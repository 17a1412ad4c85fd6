#include "dispatch/autotune.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/environment.h"
#include "base/error.h"
#include "dispatch/choose.h"
#include "dispatch/tune.h"
#include "dispatch/tuned.h"
#include "record/tuned_folder.h"

namespace ridge::dispatch {
namespace {

std::atomic<bool> enabled{false};

// RIDGE_AUTOTUNE: read once, and again after forget_measured().
enum class Asked : std::uint8_t { kUnread, kNo, kYes };
std::atomic<Asked> by_environment{Asked::kUnread};

bool asked_by_environment() {
  if (by_environment.load(std::memory_order_relaxed) == Asked::kUnread) {
    const char* value = std::getenv("RIDGE_AUTOTUNE");
    const bool yes = value != nullptr && *value != '\0' && std::string_view(value) != "0";
    by_environment.store(yes ? Asked::kYes : Asked::kNo);
  }
  return by_environment.load(std::memory_order_relaxed) == Asked::kYes;
}

// What this process measured itself; asked before the tables that were there when it began.
struct Session {
  std::mutex mutex;
  TunedTable table;
  std::set<std::string> met;  // buckets, also those that could not be tuned
};

Session& session() {
  static Session* const instance = new Session;  // never deleted: calls may come during static destruction
  return *instance;
}

Status tune_and_keep(const ops::Operator& op, const ops::Problem& problem, const Stream& stream) {
  const std::filesystem::path cache = default_cache_directory();
  RIDGE_TRY(choice, Tuner(op, stream, cache).tune(problem, options_for(stream.backend)));
  RIDGE_CHECK_OK(record::keep_tuned({choice}, cache));
  session().table.add(std::move(choice));
  const Preference measured = preference_of(std::make_shared<const TunedTable>(session().table));
  set_preference([measured](const ops::Problem& asked, const ops::DeviceInfo& device) {
    Preferred answer = measured(asked, device);
    return answer.implementation.empty() ? installed_preference()(asked, device) : answer;
  });
  return ok_status();
}

}  // namespace

void autotune(bool on) { enabled.store(on); }

void forget_measured() {
  const std::scoped_lock lock(session().mutex);
  session().table = TunedTable();
  session().met.clear();
  by_environment.store(Asked::kUnread);
  read_installed_again();
}

void tune_if_asked(const ops::Operator& op, const ops::Problem& problem, const Stream& stream) {
  const auto wanted = forced(op, problem);
  if (!wanted || !wanted->implementation.empty()) return;
  if (!enabled.load(std::memory_order_relaxed) && !asked_by_environment() && !wanted->autotune) return;
  if (is_recording(stream)) return;  // a later call of the case may be measured
  const std::scoped_lock lock(session().mutex);
  if (!session().met.insert(fmt::format("{} {}", to_string(stream.backend), bucket_of(op, problem).text())).second)
    return;
  if (!installed_preference()(problem, ops::device_info(stream)).implementation.empty()) return;
  if (const Status tuned = tune_and_keep(op, problem, stream); !tuned) warn_once("not tuned: " + tuned.error().text());
}

}  // namespace ridge::dispatch
