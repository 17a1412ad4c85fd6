// CTest's entries for lesser processors (ridge_test_of_lesser_processors) end as skipped where the processor has no
// more than they leave it: the entry without a limit runs the same code.
#include <cstdio>
#include <cstdlib>

#include "base/environment.h"

namespace ridge::testing {
namespace {

[[maybe_unused]] const bool examined = [] {
  if (std::getenv("RIDGE_TEST_OF_LESSER_PROCESSOR") == nullptr) return true;
  const bool has_more = instruction_set_limit() == InstructionSet::kPortable ? __builtin_cpu_supports("avx2")
                                                                             : __builtin_cpu_supports("avx512f");
  if (!has_more) {
    std::puts(
        "skipped: this processor has no more instructions than this test leaves it, so the test without a limit runs "
        "the same code");
    std::exit(77);
  }
  return true;
}();

}  // namespace
}  // namespace ridge::testing
