#include "record/foreign.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace ridge::record {
namespace {

std::int64_t integer_or_zero(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Reads what is there and of the right type, and says what is not.
class Lenient {
 public:
  Lenient(const Json& json, std::string place, std::vector<std::string>& oddities)
      : json_(json), place_(std::move(place)), oddities_(oddities) {}

  [[nodiscard]] Lenient part(const char* key) const {
    static const Json kNothing = Json::object();
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return {kNothing, place_ + key + ".", oddities_};
    if (!found->is_object()) note(key, "an object");
    return {found->is_object() ? *found : kNothing, place_ + key + ".", oddities_};
  }
  void read(const char* key, std::string& value) const {
    take(
        key, "a text", [](const Json& j) { return j.is_string(); }, value);
  }
  void read(const char* key, bool& value) const {
    take(
        key, "true or false", [](const Json& j) { return j.is_boolean(); }, value);
  }
  void read(const char* key, std::optional<double>& value) const {
    double number = 0;
    if (take(
            key, "a number", [](const Json& j) { return j.is_number(); }, number))
      value = number;
  }
  void read(const char* key, std::map<std::string, double>& values) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return;
    if (!found->is_object()) return note(key, "an object");
    for (const auto& [name, value] : found->items()) {
      if (value.is_number()) {
        values[name] = value.template get<double>();
      } else {
        note(key, "numbers");
      }
    }
  }
  [[nodiscard]] const Json* list(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return nullptr;
    if (!found->is_array()) note(key, "a list");
    return found->is_array() ? &*found : nullptr;
  }

 private:
  template <class T>
  bool take(const char* key, const char* wanted, bool (*right)(const Json&), T& value) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return false;
    if (!right(*found)) {
      note(key, wanted);
      return false;
    }
    value = found->get<T>();
    return true;
  }
  void note(const char* key, const char* wanted) const {
    oddities_.push_back(fmt::format("{}{} is not {}", place_, key, wanted));
  }

  const Json& json_;
  std::string place_;
  std::vector<std::string>& oddities_;
};

}  // namespace

Result<ForeignRun> parse_foreign_run(std::string_view text) {
  RIDGE_TRY(json, parse_json(text));
  if (!json.is_object()) return invalid("is no JSON object");
  ForeignRun run;
  run.campaign = text_of(json, "campaign_id");
  run.best_round = integer_or_zero(json, "best_round");
  const auto history = json.find("history");
  if (history == json.end() || !history->is_array()) return run;
  for (const Json& entry : *history) {
    if (!entry.is_object()) continue;
    run.history.push_back({.round = integer_or_zero(entry, "round"), .decision = text_of(entry, "decision")});
  }
  return run;
}

Result<ForeignIteration> parse_foreign_iteration(std::string_view text, std::vector<std::string>& oddities) {
  RIDGE_TRY(json, parse_json(text));
  if (!json.is_object()) return invalid("is no JSON object");
  ForeignIteration one;
  const Lenient root(json, "", oddities);
  root.read("version", one.version);
  root.read("masked", one.masked);
  root.read("timestamp", one.timestamp);
  const Lenient performance = root.part("performance");
  performance.read("latency_us", one.performance.latency_us);
  performance.read("latency_us_by_shape", one.performance.by_shape);
  performance.read("tflops", one.performance.tflops);
  const Lenient optimization = root.part("optimization");
  optimization.read("action_category", one.optimization.category);
  optimization.read("action_description", one.optimization.description);
  root.part("profile_evidence").read("bottleneck_type", one.profile_evidence.bottleneck);
  root.part("correctness").read("status", one.correctness.status);
  root.part("quality_gate").read("result", one.quality_gate.result);
  std::string reason;
  root.part("quality_gate").read("failure_reason", reason);
  if (!reason.empty()) one.quality_gate.reason = reason;
  std::string commit;
  root.read("git_commit_hash", commit);
  if (!commit.empty()) one.commit = commit;
  if (const Json* open = root.list("open_directions")) {
    for (const Json& item : *open) {
      const bool object = item.is_object();
      one.open_directions.push_back(
          {object ? text_of(item, "direction") : std::string(), object ? text_of(item, "rationale") : std::string()});
    }
  }
  return one;
}

}  // namespace ridge::record
