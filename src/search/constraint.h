// One constraint of a space as a function of the positions of its parameters' values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "record/expression.h"
#include "record/search_space.h"
#include "ridge/result.h"

namespace ridge::search {

// Of every parameter the position of its value, in the order in which they are declared.
using Point = std::vector<std::uint16_t>;

// The numbers that words have in expressions: far from any that a parameter has.
std::map<std::string, double> word_numbers(const std::vector<record::SearchParameter>& parameters);

class Constraint {
 public:
  // `conditional` is the parameter whose `needs` the text is: then it holds as well where that one has its fallback.
  static Result<Constraint> parse(const std::string& text, const std::vector<record::SearchParameter>& parameters,
                                  const std::map<std::string, double>& words, int conditional = -1);

  [[nodiscard]] const std::string& text() const { return text_; }
  // The parameters it depends on, ascending; the conditional one among them.
  [[nodiscard]] const std::vector<std::uint16_t>& scope() const { return scope_; }
  [[nodiscard]] int conditional() const { return conditional_; }
  // Whether it holds for these positions, of which only those of its scope are read. A division by zero is no.
  [[nodiscard]] bool holds(const Point& point) const;
  // The expression alone: whether a conditional parameter has an effect.
  [[nodiscard]] bool is_true(const Point& point) const;

 private:
  std::string text_;
  std::vector<std::uint16_t> scope_, named_;  // with and without the conditional parameter
  std::vector<std::vector<double>> numbers_;  // by named parameter, by position
  std::shared_ptr<record::OpenExpression> expression_;
  int conditional_ = -1;
  std::uint16_t fallback_ = 0;
};

}  // namespace ridge::search
