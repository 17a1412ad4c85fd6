// Case: one concrete problem of one operator, for instance `gemm m=512 n=512 k=512 dtype=f32 layout=nn`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct Param {
  std::string name, value;
  friend bool operator==(const Param&, const Param&) = default;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("value", self.value);
  }
};

struct Case {
  std::string op;
  std::vector<Param> params;  // in the operator's own order once normalised by the operator

  friend bool operator==(const Case&, const Case&) = default;

  // The value of a parameter, or `fallback`.
  [[nodiscard]] std::string get(std::string_view name, std::string_view fallback = {}) const;
  Result<std::int64_t> integer(std::string_view name) const;
  void set(std::string_view name, std::string value);
  // "gemm m=512 n=512 k=512 dtype=f32": what --case accepts and what a failing test prints.
  [[nodiscard]] std::string text() const;
  // "m=512 n=512 k=512": the same without the operator; labels rows of tables.
  [[nodiscard]] std::string label() const;

  static void fields(auto& v, auto& self) {
    v("op", self.op);
    v("params", self.params);
  }
};

// Reads "gemm m=512 n=512"; an error names the word that is not name=value.
Result<Case> parse_case(std::string_view text);

}  // namespace ridge::record
