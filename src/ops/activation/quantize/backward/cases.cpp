#include <fmt/format.h>

#include "ops/activation/quantize/backward/backward.h"
#include "ops/coding/cases.h"

namespace ridge::ops::activation_quantize_backward {
namespace {

record::Case make_case(std::int64_t rows, std::int64_t cols, std::string_view more) {
  return built_in_case(fmt::format("activation_quantize_backward rows={} cols={} {}", rows, cols, more));
}

// Halves that meet within groups and within 8 elements, and at their ends; every function in every dtype with all that
// may be left out.
std::vector<record::Case> check_cases() {
  std::vector<record::Case> cases = coding::edge_cases("activation_quantize_backward",
                                                       {.row = "probs=1 mask=1", .given_stochastic = "probs=1 mask=1"});
  for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
    for (const std::int64_t cols : {3, 8, 16, 64, 100, 132, 256}) {
      cases.push_back(make_case(40, cols, fmt::format("scaling={} copies=both", scaling)));
    }
    cases.push_back(make_case(130, 70, fmt::format("scaling={} copies=both gated=0", scaling)));
  }
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* function : {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"}) {
      for (const char* more : {"", "gated=0", "probs=1 mask=1 scaling=mx", "gated=0 probs=1 format=e5m2"}) {
        cases.push_back(make_case(37, 67, fmt::format("dtype={} function={} copies=both {}", dtype, function, more)));
      }
    }
  }
  return cases;
}

}  // namespace

std::vector<record::Case> cases(CaseSet set, Backend backend) {
  if (set == CaseSet::kCheck) return check_cases();
  const std::int64_t share = backend == Backend::kCpu ? 16 : 1;
  if (set == CaseSet::kTarget) {
    return {make_case(8192 / share, 14336, "copies=both"), make_case(16384 / share, 2048, "copies=both probs=1")};
  }
  std::vector<record::Case> cases;
  for (const char* scaling : {"tensor", "1x128", "128x128", "mx"}) {
    cases.push_back(make_case(8192 / share, 14336, fmt::format("scaling={} copies=both", scaling)));
  }
  cases.push_back(make_case(16384 / share, 2048, "copies=both probs=1"));
  cases.push_back(make_case(8192 / share, 16384, "copies=both function=gelu gated=0"));
  cases.push_back(make_case(8192 / share, 2880, "copies=both function=clamped_silu"));
  return cases;
}

}  // namespace ridge::ops::activation_quantize_backward
