// Names of enum values as they are written on disk: one table per enum, used both ways.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ridge::record {

// Specialise with `static constexpr std::pair<E, std::string_view> kNames[]`.
template <class E>
struct EnumNames;

template <class E>
constexpr std::string_view name_of(E value) {
  for (const auto& [v, name] : EnumNames<E>::kNames) {
    if (v == value) return name;
  }
  return "?";
}

template <class E>
std::optional<E> value_of(std::string_view text) {
  for (const auto& [v, name] : EnumNames<E>::kNames) {
    if (name == text) return v;
  }
  return std::nullopt;
}

// "pass, fail, inconclusive", for error messages.
template <class E>
std::string all_names() {
  std::string names;
  for (const auto& [v, name] : EnumNames<E>::kNames) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

}  // namespace ridge::record
