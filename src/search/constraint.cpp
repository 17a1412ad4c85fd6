#include "search/constraint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace ridge::search {
namespace {

constexpr double kFirstWord = -1099511627776.0;  // -2^40

// Quoted words as names that the parser knows.
Result<std::string> without_quotes(const std::string& text, const std::map<std::string, double>& words) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\'' && text[i] != '"') {
      plain += text[i];
      continue;
    }
    const std::size_t end = text.find(text[i], i + 1);
    if (end == std::string::npos) return invalid("constraint \"{}\": a quote is not closed", text);
    const std::string word = text.substr(i + 1, end - i - 1);
    const auto known = words.find(word);
    if (known == words.end()) return invalid("constraint \"{}\": no parameter has the value \"{}\"", text, word);
    plain += fmt::format("({:.0f})", known->second);
    i = end;
  }
  return plain;
}

}  // namespace

std::map<std::string, double> word_numbers(const std::vector<record::SearchParameter>& parameters) {
  std::map<std::string, double> words;
  for (const record::SearchParameter& parameter : parameters) {
    for (const record::ParameterValue& value : parameter.values) {
      if (!value.word.empty()) words.try_emplace(value.word, kFirstWord - static_cast<double>(words.size()));
    }
  }
  return words;
}

Result<Constraint> Constraint::parse(const std::string& text, const std::vector<record::SearchParameter>& parameters,
                                     const std::map<std::string, double>& words, int conditional) {
  RIDGE_TRY(plain, without_quotes(text, words));
  RIDGE_TRY(names, record::expression_variables(plain));
  Constraint made;
  made.text_ = text;
  made.conditional_ = conditional;
  std::vector<std::string> open;
  record::Reals known(words.begin(), words.end()), first = known;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(parameters, name, &record::SearchParameter::name);
    if (found == parameters.end()) {
      if (words.contains(name)) continue;
      std::vector<std::string> all;
      for (const auto& parameter : parameters) all.push_back(parameter.name);
      return with_hint(invalid("constraint \"{}\": {} is no parameter and no value", text, name),
                       fmt::format("parameters: {}", fmt::join(all, ", ")));
    }
    open.push_back(name);
    made.named_.push_back(static_cast<std::uint16_t>(found - parameters.begin()));
    std::vector<double> numbers;
    for (const auto& value : found->values) numbers.push_back(value.word.empty() ? value.number : words.at(value.word));
    first[name] = numbers.front();
    made.numbers_.push_back(std::move(numbers));
  }
  if (const auto tried = record::evaluate_real(plain, {}, first); !tried) return tried.error();
  made.expression_ = std::make_shared<record::OpenExpression>(plain, known, open);
  made.scope_ = made.named_;
  if (conditional >= 0) {
    made.scope_.push_back(static_cast<std::uint16_t>(conditional));
    made.fallback_ = static_cast<std::uint16_t>(parameters[static_cast<std::size_t>(conditional)].fallback);
  }
  std::ranges::sort(made.scope_);
  made.scope_.erase(std::ranges::unique(made.scope_).begin(), made.scope_.end());
  return made;
}

bool Constraint::is_true(const Point& point) const {
  std::array<double, 64> values{};
  std::vector<double> many;
  double* into = values.data();
  if (named_.size() > values.size()) {
    many.resize(named_.size());
    into = many.data();
  }
  for (std::size_t i = 0; i < named_.size(); ++i) into[i] = numbers_[i][point[named_[i]]];
  const double value = expression_->at({into, named_.size()});
  return !std::isnan(value) && value != 0;
}

bool Constraint::holds(const Point& point) const {
  return (conditional_ >= 0 && point[static_cast<std::size_t>(conditional_)] == fallback_) || is_true(point);
}

}  // namespace ridge::search
