#include "base/error.h"

#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace ridge {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kIo: return "input/output";
    case ErrorCode::kToolFailed: return "tool failed";
    case ErrorCode::kTimeout: return "timeout";
    case ErrorCode::kConflict: return "conflict";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

std::string Error::text() const { return hint.empty() ? message : fmt::format("{} ({})", message, hint); }

void check_failed(std::string_view what, const char* file, int line) {
  fmt::print(stderr, "ridge: internal error at {}:{}: {}\n", file, line, what);
  std::abort();
}

}  // namespace ridge
