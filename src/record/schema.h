// The JSON Schema (draft 7) of a record, from its own list of fields: what archive.h reads, and nothing else.
#pragma once

#include "record/archive.h"

namespace ridge::record {

namespace schema {

template <class T>
Json of();

class Writer {
 public:
  template <class T>
  void operator()(const char* key, const T&) {
    optional(key, T{});
    required.push_back(key);
  }
  template <class T>
  void optional(const char* key, const T&) {
    if constexpr (archive::IsOptional<T>::value) {
      properties[key] = of<typename T::value_type>();
    } else {
      properties[key] = of<T>();
    }
  }
  Json properties = Json::object(), required = Json::array();
};

template <class T>
Json of() {
  Json json = Json::object();
  if constexpr (std::is_same_v<T, Json>) {
    return json;  // anything
  } else if constexpr (std::is_same_v<T, bool>) {
    json["type"] = "boolean";
  } else if constexpr (std::is_enum_v<T>) {
    for (const auto& [value, name] : EnumNames<T>::kNames) json["enum"].push_back(std::string(name));
  } else if constexpr (std::is_integral_v<T>) {
    json["type"] = "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    json["type"] = "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    json["type"] = "string";
  } else if constexpr (archive::IsVector<T>::value) {
    json["type"] = "array";
    json["items"] = of<typename T::value_type>();
  } else if constexpr (archive::IsMap<T>::value) {
    json["type"] = "object";
    json["additionalProperties"] = of<typename T::mapped_type>();
  } else {
    Writer writer;
    T record{};
    T::fields(writer, record);
    json["type"] = "object";
    json["properties"] = std::move(writer.properties);
    if (!writer.required.empty()) json["required"] = std::move(writer.required);
    json["additionalProperties"] = false;
  }
  return json;
}

}  // namespace schema

template <class T>
Json schema_of(const std::string& title) {
  Json json = Json::object();
  json["$schema"] = "http://json-schema.org/draft-07/schema#";
  json["title"] = title;
  const Json body = schema::of<T>();
  for (const auto& item : body.items()) json[item.key()] = item.value();
  return json;
}

}  // namespace ridge::record
