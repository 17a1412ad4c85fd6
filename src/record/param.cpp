#include "record/param.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace ridge::record {
namespace {

// Beyond any memory: 2^40 elements of a byte are a terabyte.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

std::string for_instance(const ParamInfo& param) {
  return fmt::format("write for instance {}={}", param.name, param.default_value);
}

Result<std::int64_t> parse_word(std::string_view op, const ParamInfo& param, const std::string& text) {
  const auto found = std::ranges::find(param.values, text);
  if (found != param.values.end()) return static_cast<std::int64_t>(found - param.values.begin());
  return with_hint(invalid("{}: {}={} is not possible", op, param.name, text),
                   fmt::format("{} is one of {}", param.name, fmt::join(param.values, ", ")));
}

Result<std::int64_t> parse_real(std::string_view op, const ParamInfo& param, const std::string& text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = !text.empty() && end == text.data() + text.size() && failure == std::errc();
  if (!number || !std::isfinite(value)) {
    return with_hint(invalid("{}: {}={} is not a finite number", op, param.name, text), for_instance(param));
  }
  if (value < param.least || value > param.most) {
    return with_hint(invalid("{}: {}={} is not possible", op, param.name, text),
                     fmt::format("{} is a number from {} to {}", param.name, param.least, param.most));
  }
  return bits_of_real(value);
}

Result<std::int64_t> parse_whole(std::string_view op, const ParamInfo& param, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && end == text.data() + text.size();
  if (whole && (failure == std::errc::result_out_of_range || value > kLargestSize) && text[0] != '-') {
    return with_hint(invalid("{}: {}={} is more than {}, the largest size", op, param.name, text, kLargestSize),
                     for_instance(param));
  }
  if (!whole || failure != std::errc() || value < 0) {
    return with_hint(invalid("{}: {}={} is not a non-negative integer", op, param.name, text), for_instance(param));
  }
  return value;
}

}  // namespace

ParamInfo real_param(std::string name, std::string default_value, std::string help, double least, double most) {
  return {std::move(name), std::move(default_value), std::move(help), {}, ParamKind::kReal, least, most};
}

ParamInfo flag_param(std::string name, std::string help) {
  return {std::move(name), "0", std::move(help), {"0", "1"}, ParamKind::kFlag};
}

Result<std::int64_t> parse_value(std::string_view op, const ParamInfo& param, const std::string& text) {
  switch (param.kind) {
    case ParamKind::kReal: return parse_real(op, param, text);
    case ParamKind::kWhole: return parse_whole(op, param, text);
    case ParamKind::kEnumerated:
    case ParamKind::kFlag: break;
  }
  return parse_word(op, param, text);
}

std::string value_text(const ParamInfo& param, std::int64_t value) {
  switch (param.kind) {
    case ParamKind::kReal: return fmt::format("{}", real_of_bits(value));  // the shortest that reads as the same
    case ParamKind::kWhole: return std::to_string(value);
    case ParamKind::kEnumerated:
    case ParamKind::kFlag: break;
  }
  const auto index = static_cast<std::size_t>(value);
  return index < param.values.size() ? param.values[index] : std::to_string(value);
}

std::string Scalar::text() const {
  switch (type) {
    case ScalarType::kF32: return fmt::format("{}", static_cast<float>(real()));
    case ScalarType::kF64: return fmt::format("{}", real());
    case ScalarType::kI64: return std::to_string(whole());
    case ScalarType::kU64: break;
  }
  return std::to_string(bits);
}

Scalar draw(const ScalarInfo& info, std::uint64_t random) {
  const std::uint64_t rest = random / 8;
  if (random % 8 == 0) return info.usual;
  // Of the 53 bits that a double holds; 0 and 1 are the ends of the range.
  const double part = random % 8 == 1 ? 0.0 : random % 8 == 2 ? 1.0 : static_cast<double>(rest >> 8) * 0x1p-53;
  const double value = info.least + part * (info.most - info.least);
  switch (info.usual.type) {
    case ScalarType::kF32: return Scalar::f32(static_cast<float>(value));
    case ScalarType::kF64: return Scalar::f64(value);
    case ScalarType::kI64: return Scalar::i64(std::llround(value));
    case ScalarType::kU64: break;
  }
  return Scalar::u64(value >= 0x1p63 ? rest : static_cast<std::uint64_t>(value));
}

}  // namespace ridge::record
