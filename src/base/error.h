// Shorthands for making errors: `return invalid("M = {} is negative", m);`
#pragma once

#include <fmt/format.h>

#include "ridge/result.h"

namespace ridge {

template <class... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...), {}};
}

template <class... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// Adds the way out to an error: `return with_hint(invalid(...), "pad B to 144 rows");`
inline Error with_hint(Error error, std::string hint) {
  error.hint = std::move(hint);
  return error;
}

// Puts the place before the message, for errors that travel upwards: "manifest.yaml: line 3: ...".
inline Error in_context(std::string_view context, Error error) {
  error.message = fmt::format("{}: {}", context, error.message);
  return error;
}

}  // namespace ridge
