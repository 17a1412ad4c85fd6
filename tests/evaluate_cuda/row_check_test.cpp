// The check of row models as a GPU runs it: its source compiles without a spill for every model.
#include "ops/row_check_source.h"

namespace ridge::testing {
namespace {

TEST_F(RowCheckSource, CompilesForEveryModelWithoutASpill) {
  const NormCase any = norm_case(1, 1, DType::kF32);
  for (const char* type : {"Norm", "NormBackward", "Softmax", "Axpy"}) {
    SCOPED_TRACE(type);
    EXPECT_FALSE(compile(any.device_check(kRowModels, std::string("row_models::") + type)->source).empty());
  }
}

}  // namespace
}  // namespace ridge::testing
