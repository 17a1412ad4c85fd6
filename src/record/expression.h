// Integer arithmetic written as text: sizes and conditions in launch plans.
//
//   + - * / % ^   comparisons   && ||   c ? a : b   min max abs   ceil_div(a, b)   floor_div(a, b)   round_up(a, b)
//   walk_group(high, wide, rows, cols, clusters)   walk_along(...): the two numbers of a tile walk (tile_walk.h)
//
// Evaluated in double precision, exact for integers up to 2^53. Division is exact or it shows: a result that is no
// integer is an error, so a rounding must be written as ceil_div or floor_div.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

using Variables = std::map<std::string, std::int64_t>;
using Reals = std::map<std::string, double>;  // those that are no whole numbers

// Whether the text is an expression at all, and the variables it names.
Result<std::vector<std::string>> expression_variables(const std::string& text);

// The text with what `meant` says of a variable in brackets in its place; empty: the variable stays.
std::string with_meanings(const std::string& text, const std::function<std::string(const std::string&)>& meant);

// The integer value. Errors: a variable that is not known (with the known ones), a value that is no integer, division
// by zero.
Result<std::int64_t> evaluate(const std::string& text, const Variables& variables, const Reals& reals = {});
// The same without the demand for an integer, for floating-point arguments.
Result<double> evaluate_real(const std::string& text, const Variables& variables, const Reals& reals = {});

// An expression whose open names get new values again and again, everything else fixed: no look-up, no allocation. One
// thread at a time.
class OpenExpression {
 public:
  // The text is one that evaluate_real() has taken with these names.
  OpenExpression(const std::string& text, const Reals& known, std::span<const std::string> open);
  OpenExpression(OpenExpression&&) noexcept;
  OpenExpression& operator=(OpenExpression&&) noexcept;
  ~OpenExpression();
  // The value for these of the open names, in their order.
  [[nodiscard]] double at(std::span<const double> values);

 private:
  struct Bound;
  std::unique_ptr<Bound> bound_;
};

}  // namespace ridge::record
