// How a record becomes JSON and back. A record lists its fields once:
//
//   struct Point {
//     double x = 0, y = 0;
//     static void fields(auto& v, auto& self) {
//       v("x", self.x);                 // required when read
//       v.optional("y", self.y);        // keeps its default when absent; std::optional is left out when empty
//     }
//   };
//
// and Codec<Point> (record/json.h) follows from `template struct Codec<Point>;` in a file beside this one. Reading is
// strict: a missing, mistyped or unknown key is an error that names the key and its place, because a record that is
// half understood must not decide anything. An enum takes part by a specialisation of EnumNames.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "record/json.h"
#include "record/names.h"

namespace ridge::record {

namespace archive {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};

template <class T>
Json write(const T& value);

class Writer {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    object[key] = write(value);
  }
  template <class T>
  void optional(const char* key, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (value.has_value()) object[key] = write(*value);
    } else {
      object[key] = write(value);
    }
  }
  Json object = Json::object();
};

template <class T>
Json write(const T& value) {
  if constexpr (std::is_same_v<T, Json>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return Json(std::string(name_of(value)));
  } else if constexpr (std::is_floating_point_v<T>) {
    // JSON has no NaN or infinity; a named string keeps them exact.
    if (std::isnan(value)) return Json("nan");
    if (std::isinf(value)) return Json(value > 0 ? "inf" : "-inf");
    return Json(value);
  } else if constexpr (IsOptional<T>::value) {
    return value.has_value() ? write(*value) : Json(nullptr);
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& item : value) array.push_back(write(static_cast<const typename T::value_type&>(item)));
    return array;
  } else if constexpr (IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [key, item] : value) object[key] = write(item);
    return object;
  } else if constexpr (requires(Writer & w) { T::fields(w, value); }) {
    Writer writer;
    T::fields(writer, value);
    return std::move(writer.object);
  } else {
    return Json(value);
  }
}

template <class T>
Status read(const Json& json, T& value, const std::string& place);

class Reader {
 public:
  Reader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

  template <class T>
  void operator()(const char* key, T& value) {
    take(key, value, true);
  }
  template <class T>
  void optional(const char* key, T& value) {
    take(key, value, false);
  }
  Status finish() {
    if (error_) return *error_;
    for (const auto& item : object_.items()) {
      if (!known_.contains(item.key())) {
        return Error{ErrorCode::kCorrupt, fmt::format("{}: unknown key \"{}\"", place_, item.key()), {}};
      }
    }
    return ok_status();
  }

 private:
  template <class T>
  void take(const char* key, T& value, bool required) {
    known_.insert(key);
    if (error_) return;
    const auto found = object_.find(key);
    if (found == object_.end()) {
      if (required) error_ = Error{ErrorCode::kCorrupt, fmt::format("{}: key \"{}\" is missing", place_, key), {}};
      return;
    }
    if constexpr (IsOptional<T>::value) {
      value.reset();
      if (required && found->is_null()) return;
      value.emplace();
      keep(read(*found, *value, place_ + "." + key));
    } else {
      keep(read(*found, value, place_ + "." + key));
    }
  }
  void keep(Status status) {
    if (!status) error_ = status.error();
  }

  const Json& object_;
  std::string place_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

inline Error type_error(const std::string& place, const char* expected, const Json& json) {
  return Error{ErrorCode::kCorrupt, fmt::format("{}: expected {}, found {}", place, expected, json.type_name()), {}};
}

template <class T>
Status read_integer(const Json& json, T& value, const std::string& place) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<T>(json.template get<std::uint64_t>())
                        : json.is_number_integer() && std::in_range<T>(json.template get<std::int64_t>());
  if (!fits) return type_error(place, "an integer in range", json);
  value = json.template get<T>();
  return ok_status();
}

template <class T>
Status read_floating(const Json& json, T& value, const std::string& place) {
  if (json.is_string()) {
    const std::string text = json.template get<std::string>();
    if (text == "nan") return value = std::numeric_limits<T>::quiet_NaN(), ok_status();
    if (text == "inf") return value = std::numeric_limits<T>::infinity(), ok_status();
    if (text == "-inf") return value = -std::numeric_limits<T>::infinity(), ok_status();
  }
  if (!json.is_number()) return type_error(place, "a number", json);
  value = json.template get<T>();
  return ok_status();
}

template <class T>
Status read(const Json& json, T& value, const std::string& place) {
  if constexpr (std::is_same_v<T, Json>) {
    value = json;
    return ok_status();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) return type_error(place, "true or false", json);
    value = json.template get<bool>();
    return ok_status();
  } else if constexpr (std::is_enum_v<T>) {
    if (!json.is_string()) return type_error(place, "a name", json);
    const std::string text = json.template get<std::string>();
    const std::optional<T> found = value_of<T>(text);
    if (!found) {
      return Error{ErrorCode::kCorrupt, fmt::format("{}: \"{}\" is not one of {}", place, text, all_names<T>()), {}};
    }
    value = *found;
    return ok_status();
  } else if constexpr (std::is_integral_v<T>) {
    return read_integer(json, value, place);
  } else if constexpr (std::is_floating_point_v<T>) {
    return read_floating(json, value, place);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return type_error(place, "a string", json);
    value = json.template get<std::string>();
    return ok_status();
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) return type_error(place, "an array", json);
    value.clear();
    for (std::size_t i = 0; i < json.size(); ++i) {
      typename T::value_type item{};
      RIDGE_CHECK_OK(read(json[i], item, place + "[" + std::to_string(i) + "]"));
      value.push_back(std::move(item));
    }
    return ok_status();
  } else if constexpr (IsMap<T>::value) {
    if (!json.is_object()) return type_error(place, "an object", json);
    value.clear();
    for (const auto& item : json.items()) {
      RIDGE_CHECK_OK(read(item.value(), value[item.key()], place + "." + item.key()));
    }
    return ok_status();
  } else {
    if (!json.is_object()) return type_error(place, "an object", json);
    Reader reader(json, place);
    T::fields(reader, value);
    return reader.finish();
  }
}

}  // namespace archive

template <class T>
Json Codec<T>::to_json(const T& record) {
  return archive::write(record);
}

template <class T>
Result<T> Codec<T>::from_json(const Json& json, const std::string& place) {
  T record{};
  RIDGE_CHECK_OK(archive::read(json, record, place));
  return record;
}

template <class T>
std::string Codec<T>::to_line(const T& record) {
  return dump_json(to_json(record));
}

template <class T>
std::string Codec<T>::to_pretty(const T& record) {
  return pretty_json(to_json(record));
}

template <class T>
Result<T> Codec<T>::parse(std::string_view text, const std::string& place) {
  RIDGE_TRY(json, parse_json(text));
  return from_json(json, place);
}

}  // namespace ridge::record
