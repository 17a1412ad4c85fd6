// What a case and a call may say: the parameters and the scalars of an operator, their kinds, and how values are
// written.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "record/names.h"
#include "ridge/result.h"

namespace ridge::record {

enum class ParamKind {
  kWhole,       // a size: any number from 0 to 2^40
  kReal,        // a finite number within a range
  kEnumerated,  // one of some words
  kFlag         // 0 or 1
};
template <>
struct EnumNames<ParamKind> {
  static constexpr std::pair<ParamKind, std::string_view> kNames[] = {{ParamKind::kWhole, "whole"},
                                                                      {ParamKind::kReal, "real"},
                                                                      {ParamKind::kEnumerated, "enumerated"},
                                                                      {ParamKind::kFlag, "flag"}};
};

// A parameter is part of a case: choices, prepared calls and tuned tables are kept by its value.
struct ParamInfo {
  std::string name, default_value, help;
  std::vector<std::string> values;  // of an enumerated one and a flag
  ParamKind kind = values.empty() ? ParamKind::kWhole : ParamKind::kEnumerated;
  double least = 0, most = 0;  // of a real one
  bool of_content = false;     // says what inputs of a test hold: no call has it, and no choice is kept by it
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("default", self.default_value);
    v("help", self.help);
    v("values", self.values);
    v("kind", self.kind);
    v("least", self.least);
    v("most", self.most);
  }
};
ParamInfo real_param(std::string name, std::string default_value, std::string help, double least, double most);
ParamInfo flag_param(std::string name, std::string help);  // 0 unless given

// A value as everything generic holds it, in 64 bits: a whole number itself, a flag 0 or 1, an enumerated value its
// index, a real number the bits of its double.
inline std::int64_t bits_of_real(double value) { return std::bit_cast<std::int64_t>(value); }
inline double real_of_bits(std::int64_t bits) { return std::bit_cast<double>(bits); }
// The error names operator, parameter and text, and says what is allowed.
Result<std::int64_t> parse_value(std::string_view op, const ParamInfo& param, const std::string& text);
// The shortest text that parse_value() reads as the same 64 bits.
std::string value_text(const ParamInfo& param, std::int64_t value);

enum class ScalarType : std::uint8_t { kF32, kF64, kI64, kU64 };
template <>
struct EnumNames<ScalarType> {
  static constexpr std::pair<ScalarType, std::string_view> kNames[] = {
      {ScalarType::kF32, "f32"}, {ScalarType::kF64, "f64"}, {ScalarType::kI64, "i64"}, {ScalarType::kU64, "u64"}};
};

// A number of a call that is no part of its case: every call may bring another one (a learning rate, a seed), and
// nothing is kept by its value.
struct Scalar {
  ScalarType type = ScalarType::kF64;
  std::uint64_t bits = 0;  // in memory as a kernel reads it: an f32 in the low half

  static Scalar f32(float value) { return {ScalarType::kF32, std::bit_cast<std::uint32_t>(value)}; }
  static Scalar f64(double value) { return {ScalarType::kF64, std::bit_cast<std::uint64_t>(value)}; }
  static Scalar i64(std::int64_t value) { return {ScalarType::kI64, static_cast<std::uint64_t>(value)}; }
  static Scalar u64(std::uint64_t value) { return {ScalarType::kU64, value}; }
  // Of an f32 or f64.
  [[nodiscard]] double real() const {
    if (type == ScalarType::kF32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    return std::bit_cast<double>(bits);
  }
  [[nodiscard]] std::int64_t whole() const { return static_cast<std::int64_t>(bits); }  // of an i64 or u64
  // Of any, as expressions know it.
  [[nodiscard]] double number() const {
    return type == ScalarType::kF32 || type == ScalarType::kF64 ? real() : static_cast<double>(whole());
  }
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Scalar&, const Scalar&) = default;
};

struct ScalarInfo {
  std::string name, help;
  Scalar usual;                // what a call that does not give it has; its type is the scalar's
  double least = 0, most = 0;  // what checks draw from, both included
};
// One that checks use: the usual value, the ends of the range, or something between.
Scalar draw(const ScalarInfo& info, std::uint64_t random);

}  // namespace ridge::record
