// What is wrong with an expression that the parser refuses, in our words.
#pragma once

#include <fmt/format.h>
#include <muParser.h>

#include <string>

namespace ridge::record {

// "\"foo\" at character 5: expected a number, a name, ..."
inline std::string expression_problem(const mu::Parser::exception_type& failure) {
  std::string what;
  switch (failure.GetCode()) {
    case mu::ecUNASSIGNABLE_TOKEN: what = "is no number, name or operator here"; break;
    case mu::ecMISSING_PARENS: return "a parenthesis is not closed";
    case mu::ecUNEXPECTED_EOF: return "it ends where a number or a name is expected";
    case mu::ecEMPTY_EXPRESSION: return "it is empty";
    case mu::ecTOO_MANY_PARAMS: what = "has too many arguments"; break;
    case mu::ecTOO_FEW_PARAMS: what = "has too few arguments"; break;
    case mu::ecDIV_BY_ZERO: return "division by zero";
    default: what = "cannot stand here: numbers, names, parentheses, + - * / and calls are possible"; break;
  }
  const std::string token = failure.GetToken();
  return fmt::format("{}at character {} {}", token.empty() ? "what is " : "\"" + token + "\" ", failure.GetPos() + 1,
                     what);
}

}  // namespace ridge::record
