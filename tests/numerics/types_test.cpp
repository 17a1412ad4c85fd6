#include <gtest/gtest.h>

#include "ridge/dtype.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge {
namespace {

TEST(DType, NamesSurviveTheRoundTrip) {
  for (const DType dtype : kAllDTypes) {
    const auto parsed = parse_dtype(to_string(dtype));
    ASSERT_TRUE(parsed.ok()) << to_string(dtype);
    EXPECT_EQ(*parsed, dtype);
  }
}

TEST(DType, AcceptsTheNamesPeopleType) {
  EXPECT_EQ(*parse_dtype("fp32"), DType::kF32);
  EXPECT_EQ(*parse_dtype("float32"), DType::kF32);
  EXPECT_EQ(*parse_dtype("fp16"), DType::kF16);
  EXPECT_EQ(*parse_dtype("half"), DType::kF16);
  EXPECT_EQ(*parse_dtype("bfloat16"), DType::kBf16);
  EXPECT_EQ(*parse_dtype("int64"), DType::kI64);
  EXPECT_EQ(*parse_dtype("uint8"), DType::kU8);
}

TEST(DType, RefusesPlainFp8AndSaysWhatToWrite) {
  const auto parsed = parse_dtype("fp8");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().text().find("e4m3fn"), std::string::npos);
}

TEST(DType, UnknownNameListsTheKnownOnes) {
  const auto parsed = parse_dtype("int8");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(parsed.error().text().find("'int8'"), std::string::npos);
  EXPECT_NE(parsed.error().text().find("bf16"), std::string::npos);
}

TEST(DType, PackedHalfBytesRoundUp) {
  EXPECT_EQ(size_bytes(DType::kE2m1, 0), 0U);
  EXPECT_EQ(size_bytes(DType::kE2m1, 1), 1U);
  EXPECT_EQ(size_bytes(DType::kE2m1, 7), 4U);
  EXPECT_EQ(size_bytes(DType::kBf16, 3), 6U);
  EXPECT_EQ(size_bytes(DType::kF64, std::int64_t{1} << 33), std::size_t{1} << 36);
  EXPECT_EQ(size_bytes(DType::kI32, 3), 12U);
  EXPECT_EQ(size_bytes(DType::kI64, 3), 24U);
  EXPECT_EQ(size_bytes(DType::kU8, 3), 3U);
  EXPECT_EQ(size_bytes(DType::kU64, 3), 24U);
}

TEST(TensorView, RowMajorDescriptionHasNoStrides) {
  const TensorView view = TensorView::contiguous(nullptr, DType::kBf16, {4096, 7168});
  EXPECT_EQ(view.describe(), "bf16 [4096, 7168]");
  EXPECT_EQ(view.element_count(), std::int64_t{4096} * 7168);
}

TEST(TensorView, PaddedRowsShowTheirStrides) {
  const TensorView view = TensorView::matrix(nullptr, DType::kF32, 3, 5, 8);
  EXPECT_EQ(view.describe(), "f32 [3, 5] strides [8, 1]");
  EXPECT_EQ(view.element_count(), 15);
}

TEST(TensorView, EmptyExtentMeansNoElements) {
  EXPECT_EQ(TensorView::contiguous(nullptr, DType::kF32, {3, 0, 5}).element_count(), 0);
  EXPECT_EQ(TensorView::contiguous(nullptr, DType::kF32, {}).element_count(), 1);
}

TEST(Backend, NamesSurviveTheRoundTrip) {
  for (const Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kHip}) {
    EXPECT_EQ(*parse_backend(to_string(backend)), backend);
  }
  EXPECT_FALSE(parse_backend("tpu").ok());
}

}  // namespace
}  // namespace ridge
