#include "ridge/dtype.h"

#include "base/error.h"

namespace ridge {
namespace {

struct Name {
  std::string_view text;
  DType dtype;
};

// The first name of each dtype is the canonical one.
constexpr Name kNames[] = {{"f64", DType::kF64},
                           {"f32", DType::kF32},
                           {"f16", DType::kF16},
                           {"bf16", DType::kBf16},
                           {"e4m3fn", DType::kE4m3fn},
                           {"e5m2", DType::kE5m2},
                           {"e4m3fnuz", DType::kE4m3fnuz},
                           {"e5m2fnuz", DType::kE5m2fnuz},
                           {"e2m1", DType::kE2m1},
                           {"e8m0", DType::kE8m0},
                           {"fp64", DType::kF64},
                           {"double", DType::kF64},
                           {"float64", DType::kF64},
                           {"fp32", DType::kF32},
                           {"float", DType::kF32},
                           {"float32", DType::kF32},
                           {"fp16", DType::kF16},
                           {"half", DType::kF16},
                           {"float16", DType::kF16},
                           {"bfloat16", DType::kBf16},
                           {"i32", DType::kI32},
                           {"i64", DType::kI64},
                           {"u8", DType::kU8},
                           {"u64", DType::kU64},
                           {"int32", DType::kI32},
                           {"int64", DType::kI64},
                           {"uint8", DType::kU8},
                           {"uint64", DType::kU64}};

}  // namespace

int size_bits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64: return 64;
    case DType::kF32:
    case DType::kI32: return 32;
    case DType::kF16:
    case DType::kBf16: return 16;
    case DType::kE4m3fn:
    case DType::kE5m2:
    case DType::kE4m3fnuz:
    case DType::kE5m2fnuz:
    case DType::kE8m0:
    case DType::kU8: return 8;
    case DType::kE2m1: return 4;
  }
  return 0;
}

std::size_t size_bytes(DType dtype, std::int64_t count) {
  if (count <= 0) return 0;
  const auto elements = static_cast<std::size_t>(count);
  const auto bits = static_cast<std::size_t>(size_bits(dtype));
  return bits >= 8 ? elements * (bits / 8) : (elements + 1) / 2;
}

std::string_view to_string(DType dtype) {
  for (const Name& name : kNames) {
    if (name.dtype == dtype) return name.text;
  }
  return "unknown";
}

Result<DType> parse_dtype(std::string_view text) {
  for (const Name& name : kNames) {
    if (name.text == text) return name.dtype;
  }
  if (text == "fp8" || text == "float8") {
    return with_hint(invalid("element type '{}' does not name its encoding", text),
                     "use e4m3fn or e5m2 (OCP), or e4m3fnuz or e5m2fnuz (CDNA3)");
  }
  return with_hint(invalid("unknown element type '{}'", text),
                   "known: f64, f32, f16, bf16, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e2m1, e8m0, i32, i64, u8, u64");
}

}  // namespace ridge
