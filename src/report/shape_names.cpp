#include "report/shape_names.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <type_traits>

namespace ridge::report {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;  // key, value

// "m=512 n=512" as pairs; nothing when a word is not key=value.
std::optional<Pairs> pairs_of(std::string_view label) {
  Pairs pairs;
  while (!label.empty()) {
    const std::string_view word = label.substr(0, label.find(' '));
    label.remove_prefix(std::min(word.size() + 1, label.size()));
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    pairs.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return pairs;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool same_keys(const Pairs& a, const Pairs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.first == y.first; });
}

// Which positions name a shape.
std::vector<bool> naming(const std::vector<Pairs>& shapes) {
  std::vector<bool> named(shapes.front().size(), false);
  for (std::size_t i = 0; i < named.size(); ++i) {
    named[i] = std::any_of(shapes.begin(), shapes.end(), [&](const Pairs& p) { return p[i] != shapes.front()[i]; });
  }
  if (std::find(named.begin(), named.end(), true) != named.end()) return named;
  for (std::size_t i = 0; i < named.size() && is_number(shapes.front()[i].second); ++i) named[i] = true;
  return named;
}

std::string joined(const Pairs& pairs, const std::vector<bool>& named, bool wanted) {
  std::string text;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (named[i] != wanted) continue;
    text += (text.empty() ? "" : " ") + pairs[i].first + "=" + pairs[i].second;
  }
  return text;
}

bool is_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Visits every text of a record through its list of fields.
class Shortener {
 public:
  explicit Shortener(const ShapeNames& names) : names_(names) {}

  template <class T>
  void operator()(std::string_view key, T& value) {
    const bool verbatim = key == "source_diff" || key == "log" || key == "command" || key == "sources";
    if (!verbatim) visit(value);
  }
  template <class T>
  void optional(std::string_view key, T& value) {
    (*this)(key, value);
  }

  template <class T>
  void visit(T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      value = names_.shorten(value);
    } else if constexpr (requires { T::fields(*this, value); }) {
      T::fields(*this, value);
    }
  }
  template <class T>
  void visit(std::optional<T>& value) {
    if (value) visit(*value);
  }
  template <class T>
  void visit(std::vector<T>& values) {
    for (T& value : values) visit(value);
  }
  void visit(std::vector<bool>&) {}
  template <class T>
  void visit(std::map<std::string, T>& values) {
    std::map<std::string, T> renamed;
    for (auto& [key, value] : values) {
      visit(value);
      renamed.emplace(names_.shorten(key), std::move(value));
    }
    values = std::move(renamed);
  }

 private:
  const ShapeNames& names_;
};

}  // namespace

ShapeNames::ShapeNames(const std::vector<std::string>& labels) {
  std::vector<Pairs> shapes;
  for (const std::string& label : labels) {
    const std::optional<Pairs> pairs = pairs_of(label);
    if (!pairs || (!shapes.empty() && !same_keys(*pairs, shapes.front()))) return;
    shapes.push_back(*pairs);
  }
  if (shapes.empty()) return;
  const std::vector<bool> named = naming(shapes);
  std::string shared = joined(shapes.front(), named, false);
  if (shared.empty() || joined(shapes.front(), named, true).empty()) return;
  shared_ = std::move(shared);
  for (std::size_t i = 0; i < labels.size(); ++i) names_.emplace_back(labels[i], joined(shapes[i], named, true));
  // A label can be the beginning of another one.
  std::stable_sort(names_.begin(), names_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

std::string ShapeNames::shorten(std::string_view text) const {
  std::string result(text);
  for (const auto& [label, name] : names_) {
    for (std::size_t at = result.find(label); at != std::string::npos; at = result.find(label, at + 1)) {
      const std::size_t end = at + label.size();
      const bool whole =
          (at == 0 || !is_identifier(result[at - 1])) && (end == result.size() || !is_identifier(result[end]));
      if (whole) result.replace(at, label.size(), name);
    }
  }
  return result;
}

ShapeNames shape_names(const Model& model) {
  std::vector<std::string> labels;
  for (const auto& shape : model.shapes) labels.push_back(shape.label);
  return ShapeNames(labels);
}

Model with_short_labels(const Model& model, const ShapeNames& names) {
  Model shown = model;
  if (!names.shared().empty()) Shortener(names).visit(shown);
  return shown;
}

}  // namespace ridge::report
