#include "record/tuning_cache.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "record/python_text.h"

namespace ridge::record {
namespace {

constexpr double kFailedTime = 1e20;  // what Kernel Tuner writes where there is no time
constexpr double kMillisecond = 1e-3;

const Json* member_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}
std::string text_at_key(const Json& object, const char* key) {
  const Json* const found = member_at(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

Result<ParameterValue> parameter_value(const Json& json, const std::string& place) {
  if (json.is_boolean()) return ParameterValue{json.get<bool>() ? 1.0 : 0.0, {}};
  if (json.is_number()) return ParameterValue{json.get<double>(), {}};
  if (json.is_string() && !json.get<std::string>().empty()) return ParameterValue{0, json.get<std::string>()};
  return invalid("{} is neither a number nor a word", place);
}

bool is_before(const ParameterValue& a, const ParameterValue& b) {
  return a.word.empty() && b.word.empty() ? a.number < b.number : a.word.empty() && !b.word.empty();
}

// One row before its values are looked up.
struct RawRow {
  std::string place;
  const Json* configuration = nullptr;
  double time = std::numeric_limits<double>::quiet_NaN(), cost = 0;
  std::string failure;
};

// The time of a run in the file's unit, or why there is none.
void read_time(const Json* value, double unit, RawRow& row) {
  if (value == nullptr) {
    row.failure = "no time";
  } else if (value->is_string()) {
    row.failure = value->get<std::string>();
    if (row.failure.empty()) row.failure = "failed";
  } else if (!value->is_number() || !(value->get<double>() > 0) || value->get<double>() >= kFailedTime) {
    row.failure = "no time";
  } else {
    row.time = unit * value->get<double>();
  }
}

double recorded_cost(const Json& times, std::initializer_list<const char*> keys, double unit) {
  double cost = 0;
  const auto add = [&](const Json& one) {
    if (one.is_number() && one.get<double>() > 0) cost += unit * one.get<double>();
  };
  for (const char* const key : keys) {
    const Json* const found = member_at(times, key);
    if (found == nullptr) continue;
    if (found->is_array()) {
      for (const Json& one : *found) add(one);
    } else {
      add(*found);
    }
  }
  return cost;
}

Result<double> time_unit(const Json& file) {
  const Json* const metadata = member_at(file, "metadata");
  const std::string unit = metadata == nullptr ? std::string() : text_at_key(*metadata, "timeunit");
  if (unit.empty() || unit.starts_with("mili") || unit.starts_with("milli") || unit == "ms") return kMillisecond;
  if (unit.starts_with("micro") || unit == "us") return 1e-6;
  if (unit == "seconds" || unit == "s") return 1.0;
  return invalid("timeunit \"{}\" is not known (seconds, miliseconds, microseconds)", unit);
}

Result<std::vector<RawRow>> t4_rows(const Json& file) {
  RIDGE_TRY(unit, time_unit(file));
  const Json& results = *member_at(file, "results");
  if (!results.is_array()) return invalid("\"results\" is no list");
  std::vector<RawRow> rows;
  for (const Json& result : results) {
    RawRow row;
    row.place = fmt::format("result {}", rows.size() + 1);
    row.configuration = result.is_object() ? member_at(result, "configuration") : nullptr;
    if (row.configuration == nullptr || !row.configuration->is_object()) {
      return invalid("{} has no \"configuration\"", row.place);
    }
    if (const Json* const times = member_at(result, "times"); times != nullptr && times->is_object()) {
      // The repetitions where they are recorded, else the time that measuring took.
      const bool repeated = member_at(*times, "runtimes") != nullptr;
      row.cost = recorded_cost(
          *times, {"compilation", repeated ? "runtimes" : "benchmark", "framework", "search_algorithm", "validation"},
          unit);
    }
    const std::string invalidity = text_at_key(result, "invalidity");
    const Json* time = nullptr;
    if (const Json* const measured = member_at(result, "measurements"); measured != nullptr && measured->is_array()) {
      for (const Json& one : *measured) {
        if (one.is_object() && text_at_key(one, "name") == "time") time = member_at(one, "value");
      }
    }
    if (!invalidity.empty() && invalidity != "correct") {
      row.failure = invalidity;
    } else {
      read_time(time, unit, row);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<RawRow>> cache_rows(const Json& file) {
  const Json& cache = *member_at(file, "cache");
  if (!cache.is_object()) return invalid("\"cache\" is no object");
  std::vector<RawRow> rows;
  for (const auto& [key, value] : cache.items()) {
    RawRow row;
    row.place = fmt::format("row {} ({})", rows.size() + 1, key);
    row.configuration = &value;
    if (!value.is_object()) return invalid("{} is no object", row.place);
    row.cost =
        recorded_cost(value, {"compile_time", "benchmark_time", "framework_time", "strategy_time", "verification_time"},
                      kMillisecond);
    read_time(member_at(value, "time"), kMillisecond, row);
    rows.push_back(std::move(row));
  }
  return rows;
}

// As the file declares them, or, where it does not, what the rows have.
Result<std::vector<SearchParameter>> recorded_parameters(const Json& file, const std::vector<RawRow>& rows) {
  std::vector<SearchParameter> parameters;
  if (const Json* const declared = member_at(file, "tune_params"); declared != nullptr && declared->is_object()) {
    for (const auto& [name, values] : declared->items()) {
      SearchParameter parameter{name, {}};
      if (!values.is_array()) return invalid("tune_params.{} is no list", name);
      for (const Json& one : values) {
        RIDGE_TRY(value, parameter_value(one, fmt::format("a value of tune_params.{}", name)));
        parameter.values.push_back(value);
      }
      parameters.push_back(std::move(parameter));
    }
    return parameters;
  }
  if (rows.empty()) return invalid("the file has no row");
  for (const auto& [name, unused] : rows.front().configuration->items()) {
    SearchParameter parameter{name, {}};
    for (const RawRow& row : rows) {
      const Json* const json = member_at(*row.configuration, name.c_str());
      if (json == nullptr) return invalid("{} has no value of {}", row.place, name);
      RIDGE_TRY(value, parameter_value(*json, fmt::format("{}: {}", row.place, name)));
      const auto place = std::ranges::upper_bound(parameter.values, value, is_before);
      if (std::ranges::find(parameter.values, value) == parameter.values.end()) parameter.values.insert(place, value);
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::string configuration_text(const std::vector<SearchParameter>& parameters, const TuningRow& row) {
  std::vector<std::string> parts;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    parts.push_back(parameters[p].name + "=" + to_text(parameters[p].values[row.values[p]]));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

Result<TuningRow> tuning_row(const RawRow& raw, const std::vector<SearchParameter>& parameters) {
  TuningRow row{{}, raw.time, raw.cost, raw.failure};
  for (const SearchParameter& parameter : parameters) {
    const Json* const json = member_at(*raw.configuration, parameter.name.c_str());
    if (json == nullptr) return invalid("{} has no value of {}", raw.place, parameter.name);
    RIDGE_TRY(value, parameter_value(*json, fmt::format("{}: {}", raw.place, parameter.name)));
    const auto found = std::ranges::find(parameter.values, value);
    if (found == parameter.values.end()) {
      return invalid("{}: {}={} is no declared value of it", raw.place, parameter.name, to_text(value));
    }
    row.values.push_back(static_cast<std::uint16_t>(found - parameter.values.begin()));
  }
  return row;
}

Result<Json> tuning_file(std::string_view text) {
  if (text.starts_with("\x1f\x8b")) {
    return with_hint(make_error(ErrorCode::kUnsupported, "the file is compressed"), "gunzip it first");
  }
  auto json = parse_json(text);
  if (!json) {
    return with_hint(json.error(),
                     "a run that was interrupted leaves its cache without the last brackets, and a copy may "
                     "be cut short");
  }
  if (!json->is_object()) return invalid("the file is no object");
  return json;
}

}  // namespace

Result<TuningCache> parse_tuning_cache(std::string_view text) {
  RIDGE_TRY(file, tuning_file(text));
  const bool t4 = member_at(file, "results") != nullptr;
  if (!t4 && member_at(file, "cache") == nullptr) {
    return with_hint(
        invalid("neither \"results\" (T4) nor \"cache\" (Kernel Tuner) is in the file"),
        member_at(file, "ConfigurationSpace") != nullptr ? "it states a problem (T1): give it with --space" : "");
  }
  RIDGE_TRY(raw, t4 ? t4_rows(file) : cache_rows(file));
  TuningCache cache;
  cache.kernel = text_at_key(file, "kernel_name");
  cache.device = text_at_key(file, "device_name");
  if (const Json* const metadata = member_at(file, "metadata")) cache.problem = text_at_key(*metadata, "case");
  RIDGE_TRY(parameters, recorded_parameters(file, raw));
  cache.parameters = std::move(parameters);
  std::map<std::vector<std::uint16_t>, std::string> seen;
  std::size_t timed = 0;
  for (const RawRow& one : raw) {
    RIDGE_TRY(row, tuning_row(one, cache.parameters));
    if (const auto [before, is_new] = seen.emplace(row.values, one.place); !is_new) {
      return with_hint(invalid("{} and {} are the same configuration: {}", before->second, one.place,
                               configuration_text(cache.parameters, row)),
                       "keep one of them: which of the two times counts is not for a reader to choose");
    }
    timed += row.failed() ? 0 : 1;
    cache.rows.push_back(std::move(row));
  }
  if (timed < 2) return invalid("{} of {} rows have a time; a replay needs two", timed, cache.rows.size());
  return cache;
}

Result<SpaceDefinition> parse_tuning_problem(std::string_view text) {
  RIDGE_TRY(file, tuning_file(text));
  const Json* const space = member_at(file, "ConfigurationSpace");
  if (space == nullptr || !space->is_object())
    return invalid("\"ConfigurationSpace\" is not in the file: it is no problem in T1");
  const Json* const parameters = member_at(*space, "TuningParameters");
  if (parameters == nullptr || !parameters->is_array())
    return invalid("ConfigurationSpace has no list \"TuningParameters\"");
  SpaceDefinition definition;
  for (const Json& one : *parameters) {
    if (!one.is_object() || text_at_key(one, "Name").empty()) {
      return invalid("TuningParameters: number {} has no \"Name\"", definition.parameters.size() + 1);
    }
    auto values = python_values(text_at_key(one, "Values"));
    if (!values) return in_context("parameter " + text_at_key(one, "Name"), values.error());
    definition.parameters.push_back({text_at_key(one, "Name"), std::move(*values)});
  }
  const Json* const conditions = member_at(*space, "Conditions");
  if (conditions != nullptr && !conditions->is_array()) return invalid("ConfigurationSpace: \"Conditions\" is no list");
  for (const Json& one : conditions == nullptr ? Json::array() : *conditions) {
    if (!one.is_object()) return invalid("condition {} is no object", definition.constraints.size() + 1);
    RIDGE_TRY(condition, python_condition(text_at_key(one, "Expression")));
    definition.constraints.push_back(std::move(condition));
  }
  return definition;
}

Result<std::vector<std::uint16_t>> positions_in(const std::vector<SearchParameter>& parameters,
                                                const TuningCache& cache, const TuningRow& row) {
  std::vector<std::uint16_t> positions;
  for (const SearchParameter& parameter : parameters) {
    const auto named = std::ranges::find(cache.parameters, parameter.name, &SearchParameter::name);
    if (named == cache.parameters.end()) {
      std::vector<std::string> names;
      for (const SearchParameter& one : cache.parameters) names.push_back(one.name);
      return with_hint(invalid("a cache of another kernel: it has no parameter {}", parameter.name),
                       fmt::format("its parameters: {}", fmt::join(names, ", ")));
    }
    const ParameterValue& value = named->values[row.values[static_cast<std::size_t>(named - cache.parameters.begin())]];
    const auto found = std::ranges::find(parameter.values, value);
    if (found == parameter.values.end()) {
      return invalid("a cache of another space: {}={} is none of the {} values here", parameter.name, to_text(value),
                     parameter.values.size());
    }
    positions.push_back(static_cast<std::uint16_t>(found - parameter.values.begin()));
  }
  if (cache.parameters.size() != parameters.size()) {
    return invalid("a cache of another kernel: {} parameters, not {}", cache.parameters.size(), parameters.size());
  }
  return positions;
}

}  // namespace ridge::record
