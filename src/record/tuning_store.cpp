#include "record/tuning_store.h"

#include <charconv>
#include <cmath>
#include <tuple>

#include "record/archive.h"

namespace ridge::record {

template struct Codec<StoredMeasurement>;
template struct Codec<TuningStoreReport>;

namespace {

constexpr double kMilliseconds = 1e3;

using Circumstances = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string,
                                 std::map<std::string, std::string>>;

Circumstances circumstances_of(const StoredMeasurement& one) {
  return {one.kernel, one.device, one.clocks, one.compiler, one.problem, one.origin, one.configuration};
}

std::string stored_result_text(const StoredMeasurement& one) {
  return one.seconds ? fmt::format("{} s", *one.seconds) : fmt::format("a failure ({})", one.failure);
}

std::string stored_configuration_text(const StoredMeasurement& one) {
  std::string text;
  for (const auto& [name, value] : one.configuration) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  }
  return text;
}

Json t4_value(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return text;
  const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
  return whole ? Json(static_cast<std::int64_t>(number)) : Json(number);
}

Json t4_result(const StoredMeasurement& one) {
  Json configuration = Json::object();
  for (const auto& [name, value] : one.configuration) configuration[name] = t4_value(value);
  Json result = Json::object();
  result["configuration"] = configuration;
  result["times"] = {{"compilation", kMilliseconds * one.cost}};
  result["invalidity"] = one.seconds ? "correct" : one.failure;
  result["measurements"] = Json::array();
  if (one.seconds) {
    Json time = {{"name", "time"}, {"value", kMilliseconds * *one.seconds}, {"unit", "ms"}};
    result["measurements"].push_back(time);
  }
  result["objectives"] = {"time"};
  return result;
}

}  // namespace

Result<std::vector<StoredMeasurement>> parse_tuning_store(std::string_view text) {
  std::vector<StoredMeasurement> measurements;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    RIDGE_TRY(measurement, parse_record<StoredMeasurement>(one, fmt::format("line {}", line)));
    measurements.push_back(std::move(measurement));
  }
  return measurements;
}

std::string tuning_store_text(const std::vector<StoredMeasurement>& measurements) {
  std::string text;
  for (const StoredMeasurement& one : measurements) text += to_line(one) + "\n";
  return text;
}

std::vector<StoredMeasurement> measurements_of(const TuningCache& cache, const StoredMeasurement& origin) {
  std::vector<StoredMeasurement> measurements;
  for (const TuningRow& row : cache.rows) {
    StoredMeasurement one = origin;
    if (one.kernel.empty()) one.kernel = cache.kernel;
    if (one.device.empty()) one.device = cache.device;
    one.configuration.clear();
    for (std::size_t p = 0; p < cache.parameters.size(); ++p) {
      one.configuration[cache.parameters[p].name] = to_text(cache.parameters[p].values[row.values[p]]);
    }
    if (!row.failed()) one.seconds = row.time;
    one.failure = row.failure;
    one.cost = row.cost;
    measurements.push_back(std::move(one));
  }
  return measurements;
}

Result<std::size_t> add_measurements(std::vector<StoredMeasurement>& store,
                                     const std::vector<StoredMeasurement>& added) {
  std::map<Circumstances, std::size_t> place;
  for (std::size_t i = 0; i < store.size(); ++i) place[circumstances_of(store[i])] = i;
  const std::size_t before = store.size();
  for (std::size_t row = 0; row < added.size(); ++row) {
    const auto [found, is_new] = place.emplace(circumstances_of(added[row]), store.size());
    if (is_new) {
      store.push_back(added[row]);
      continue;
    }
    const StoredMeasurement& known = store[found->second];
    if (known.seconds == added[row].seconds && known.failure == added[row].failure) continue;
    return with_hint(invalid("row {} ({}) is {}, and the store has {}", row + 1, stored_configuration_text(added[row]),
                             stored_result_text(added[row]), stored_result_text(known)),
                     "name the clocks or the compiler that tell the two apart: --clocks, --compiler");
  }
  return store.size() - before;
}

std::string t4_text(const std::vector<StoredMeasurement>& measurements) {
  Json file = Json::object();
  file["metadata"] = {{"timeunit", "miliseconds"}};
  if (!measurements.empty()) {
    file["kernel_name"] = measurements.front().kernel;
    file["device_name"] = measurements.front().device;
  }
  file["results"] = Json::array();
  for (const StoredMeasurement& one : measurements) file["results"].push_back(t4_result(one));
  return file.dump(1) + "\n";
}

}  // namespace ridge::record
