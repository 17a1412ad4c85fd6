// MessagePack, as far as the metadata of AMD code objects uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::inspect {

struct PackedValue {
  enum class Kind { kNil, kBool, kInteger, kFloat, kText, kArray, kMap };
  Kind kind = Kind::kNil;
  std::int64_t integer = 0;  // also of a bool
  double real = 0;
  std::string text;
  std::vector<PackedValue> array;
  std::map<std::string, PackedValue> map;  // keys are texts

  [[nodiscard]] const PackedValue* find(const std::string& key) const;
};

Result<PackedValue> parse_msgpack(std::string_view bytes);

}  // namespace ridge::inspect
