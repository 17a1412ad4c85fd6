#include "execute/reference.h"

#include "base/error.h"
#include "base/text.h"
#include "execute/project_copy.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

constexpr double kLongestDescription = 600.0;  // seconds

}  // namespace

Result<record::ReferenceFacts> describe_reference(const std::filesystem::path& folder, const std::string& harness,
                                                  const ShouldStop& should_stop) {
  ProcessSpec spec;
  spec.argv = {"python3", "-B", harness, "--describe"};
  spec.directory = folder;
  spec.timeout = kLongestDescription;
  spec.should_stop = should_stop;
  spec.every_descendant = true;
  RIDGE_TRY(ended, run_process(spec));
  if (ended.error_output.find("No module named 'torch'") != std::string::npos) {
    return with_hint(make_error(ErrorCode::kUnsupported, "python3 has no PyTorch, which runs the reference"),
                     "pip install torch in the environment whose python3 is first on PATH");
  }
  // The answer is the last line: what the reference prints goes before it.
  const std::string_view output = trimmed(ended.output, "\r\n");
  const std::size_t last = output.rfind('\n');
  auto facts = record::parse_record<record::ReferenceFacts>(
      output.substr(last == std::string_view::npos ? 0 : last + 1), "the description of the reference");
  if (!facts) {
    return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(spec.argv), ended.describe(),
                      last_lines(ended.error_output.empty() ? ended.output : ended.error_output));
  }
  if (!facts->problem.empty())
    return make_error(ErrorCode::kConflict, "the reference cannot judge: {}", facts->problem);
  return facts;
}

}  // namespace ridge::execute
