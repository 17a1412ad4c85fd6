#include "execute/timestamp.h"

#include "base/error.h"
#include "base/process.h"

namespace ridge::execute {

Result<std::string> ask_timestamp(const std::string& command, const std::string& hash) {
  constexpr std::size_t kMostBytes = 1u << 20;
  ProcessSpec spec;
  spec.argv = {"/bin/sh", "-c", command};
  spec.standard_input = hash + "\n";
  spec.timeout = 60;
  spec.output_limit_bytes = kMostBytes;
  RIDGE_TRY(result, run_process(spec));
  if (!result.succeeded()) {
    return make_error(ErrorCode::kToolFailed, "{} {}: {}", command, result.describe(),
                      result.error_output.substr(0, 200));
  }
  if (result.output.empty()) return make_error(ErrorCode::kToolFailed, "{} answered nothing", command);
  if (result.output.size() >= kMostBytes) {
    return make_error(ErrorCode::kToolFailed, "{} answered {} bytes or more", command, kMostBytes);
  }
  return std::move(result.output);
}

}  // namespace ridge::execute
