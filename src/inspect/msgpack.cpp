#include "inspect/msgpack.h"

#include <bit>

#include "base/error.h"

namespace ridge::inspect {
namespace {

constexpr int kDeepest = 32;

class Parser {
 public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  bool value(PackedValue& out, int depth = 0) {
    if (depth > kDeepest) return false;
    std::uint64_t tag = 0;
    if (!number(1, tag)) return false;
    if (tag < 0x80) return set_integer(out, static_cast<std::int64_t>(tag));
    if (tag >= 0xe0) return set_integer(out, static_cast<std::int64_t>(tag) - 256);
    if (tag < 0x90) return map(out, tag & 15, depth);
    if (tag < 0xa0) return array(out, tag & 15, depth);
    if (tag < 0xc0) return text(out, tag & 31);
    std::uint64_t n = 0;
    switch (tag) {
      case 0xc0: out.kind = PackedValue::Kind::kNil; return true;
      case 0xc2:
      case 0xc3:
        out.kind = PackedValue::Kind::kBool;
        out.integer = tag == 0xc3 ? 1 : 0;
        return true;
      case 0xca:
        return number(4, n) && set_real(out, static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(n))));
      case 0xcb: return number(8, n) && set_real(out, std::bit_cast<double>(n));
      case 0xcc: return number(1, n) && set_integer(out, static_cast<std::int64_t>(n));
      case 0xcd: return number(2, n) && set_integer(out, static_cast<std::int64_t>(n));
      case 0xce: return number(4, n) && set_integer(out, static_cast<std::int64_t>(n));
      case 0xcf: return number(8, n) && set_integer(out, static_cast<std::int64_t>(n));
      case 0xd0: return number(1, n) && set_integer(out, static_cast<std::int8_t>(n));
      case 0xd1: return number(2, n) && set_integer(out, static_cast<std::int16_t>(n));
      case 0xd2: return number(4, n) && set_integer(out, static_cast<std::int32_t>(n));
      case 0xd3: return number(8, n) && set_integer(out, static_cast<std::int64_t>(n));
      case 0xc4:
      case 0xd9: return number(1, n) && text(out, n);
      case 0xc5:
      case 0xda: return number(2, n) && text(out, n);
      case 0xc6:
      case 0xdb: return number(4, n) && text(out, n);
      case 0xdc: return number(2, n) && array(out, n, depth);
      case 0xdd: return number(4, n) && array(out, n, depth);
      case 0xde: return number(2, n) && map(out, n, depth);
      case 0xdf: return number(4, n) && map(out, n, depth);
      default: return false;
    }
  }

 private:
  bool number(std::size_t width, std::uint64_t& out) {
    if (bytes_.size() < width) return false;
    out = 0;
    for (std::size_t i = 0; i < width; ++i) out = out << 8 | static_cast<unsigned char>(bytes_[i]);
    bytes_.remove_prefix(width);
    return true;
  }
  static bool set_integer(PackedValue& out, std::int64_t value) {
    out.kind = PackedValue::Kind::kInteger;
    out.integer = value;
    return true;
  }
  static bool set_real(PackedValue& out, double value) {
    out.kind = PackedValue::Kind::kFloat;
    out.real = value;
    return true;
  }
  bool text(PackedValue& out, std::uint64_t size) {
    if (bytes_.size() < size) return false;
    out.kind = PackedValue::Kind::kText;
    out.text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }
  bool array(PackedValue& out, std::uint64_t size, int depth) {
    out.kind = PackedValue::Kind::kArray;
    for (std::uint64_t i = 0; i < size; ++i) {
      if (!value(out.array.emplace_back(), depth + 1)) return false;
    }
    return true;
  }
  bool map(PackedValue& out, std::uint64_t size, int depth) {
    out.kind = PackedValue::Kind::kMap;
    for (std::uint64_t i = 0; i < size; ++i) {
      PackedValue key;
      if (!value(key, depth + 1) || key.kind != PackedValue::Kind::kText) return false;
      if (!value(out.map[key.text], depth + 1)) return false;
    }
    return true;
  }

  std::string_view bytes_;
};

}  // namespace

const PackedValue* PackedValue::find(const std::string& key) const {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

Result<PackedValue> parse_msgpack(std::string_view bytes) {
  PackedValue value;
  if (!Parser(bytes).value(value)) return Error{ErrorCode::kCorrupt, "the metadata is no MessagePack", {}};
  return value;
}

}  // namespace ridge::inspect
