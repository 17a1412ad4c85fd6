#include "record/tuning_store.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/text.h"
#include "record/archive.h"
#include "record/case.h"

namespace ridge::record {

template struct Codec<StoredMeasurement>;
template struct Codec<TuningStoreReport>;

namespace {

constexpr double kMilliseconds = 1e3, kMegahertz = 1e6;
constexpr double kOtherDevice = 0.7;

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

// Of a number that was written as text, the number.
ParameterValue value_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {0, text};
  return {number, ""};
}

Json t4_value(const std::string& text) {
  const ParameterValue value = value_of(text);
  if (!value.word.empty() || text.empty()) return text;
  const bool whole = value.number == std::floor(value.number) && std::abs(value.number) < 1e15;
  return whole ? Json(static_cast<std::int64_t>(value.number)) : Json(value.number);
}

double case_distance(const Case& one, const Case& other) {
  double distance = 0;
  for (const Param& param : one.params) {
    const ParameterValue a = value_of(param.value), b = value_of(other.get(param.name, param.value));
    const bool sizes = a.word.empty() && b.word.empty() && a.number >= 0 && b.number >= 0;
    distance += sizes ? std::abs(std::log((a.number + 1) / (b.number + 1))) : a == b ? 0 : kOtherKind;
  }
  return distance;
}

// The cases of "m=1 n=2; m=3 n=4"; those that cannot be read are left out.
std::vector<Case> cases_in(std::string_view problem) {
  std::vector<Case> cases;
  for (const std::string& words : split(problem, ';')) {
    if (auto read = parse_case("case " + std::string(trimmed(words)))) cases.push_back(std::move(*read));
  }
  return cases;
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

TuningCache recording_of(const std::vector<StoredMeasurement>& measurements) {
  TuningCache cache;
  if (measurements.empty()) return cache;
  const StoredMeasurement& first = measurements.front();
  cache.kernel = first.kernel;
  cache.device = first.device;
  cache.problem = first.problem;
  std::map<std::map<std::string, std::string>, const StoredMeasurement*> rows;
  for (const StoredMeasurement& one : measurements) {
    const bool alike = std::ranges::equal(one.configuration, first.configuration,
                                          [](const auto& a, const auto& b) { return a.first == b.first; });
    if (alike) rows[one.configuration] = &one;
  }
  for (const auto& [name, text] : first.configuration) {
    SearchParameter parameter{name, {}};
    for (const auto& [configuration, one] : rows) parameter.values.push_back(value_of(configuration.at(name)));
    std::ranges::sort(parameter.values, {}, [](const ParameterValue& one) { return std::tie(one.word, one.number); });
    const auto same = std::ranges::unique(parameter.values);
    parameter.values.erase(same.begin(), same.end());
    cache.parameters.push_back(std::move(parameter));
  }
  for (const auto& [configuration, one] : rows) {
    TuningRow row{{}, one->seconds.value_or(std::nan("")), one->cost, one->seconds ? "" : one->failure};
    if (!one->seconds && row.failure.empty()) row.failure = "failed";
    for (const SearchParameter& parameter : cache.parameters) {
      const auto place = std::ranges::find(parameter.values, value_of(configuration.at(parameter.name)));
      row.values.push_back(static_cast<std::uint16_t>(place - parameter.values.begin()));
    }
    cache.rows.push_back(std::move(row));
  }
  return cache;
}

double problem_distance(std::string_view one, std::string_view other) {
  double least = one == other ? 0 : std::numeric_limits<double>::infinity();
  const std::vector<Case> others = cases_in(other);
  for (const Case& a : cases_in(one)) {
    for (const Case& b : others) least = std::min(least, case_distance(a, b));
  }
  return least;
}

TuningSource source_of(const StoredMeasurement& one) { return {one.device, one.problem, one.origin}; }

double distance(const TuningSource& source, std::string_view device, std::string_view problem) {
  return problem_distance(problem, source.problem) + (source.device == device ? 0 : kOtherDevice);
}

std::string clocks_text(double hertz) { return fmt::format("{:.0f} MHz", hertz / kMegahertz); }

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
