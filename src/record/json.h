// Records as JSON and back. What a record's keys are stands beside its fields; the code that reads and writes them is
// compiled once, in src/record: a record that the linker misses here wants a line `template struct Codec<It>;` there.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "ridge/result.h"

namespace ridge::record {

template <class T>
struct Codec {
  static Json to_json(const T& record);
  static Result<T> from_json(const Json& json, const std::string& place);
  static std::string to_line(const T& record);
  static std::string to_pretty(const T& record);
  static Result<T> parse(std::string_view text, const std::string& place);
};

// The caller includes <nlohmann/json.hpp>.
template <class T>
auto to_json(const T& record) {
  return Codec<T>::to_json(record);
}

// Strict: an error names the key and its place, which begins with `place`.
template <class T>
Result<T> from_json(const Json& json, const std::string& place = "record") {
  return Codec<T>::from_json(json, place);
}

// One line of JSON.
template <class T>
std::string to_line(const T& record) {
  return Codec<T>::to_line(record);
}

// Indented by two spaces, for people.
template <class T>
std::string to_pretty(const T& record) {
  return Codec<T>::to_pretty(record);
}

template <class T>
Result<T> parse_record(std::string_view text, const std::string& place = "record") {
  return Codec<T>::parse(text, place);
}

}  // namespace ridge::record
