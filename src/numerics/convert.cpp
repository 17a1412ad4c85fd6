#include "numerics/convert.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "numerics/bulk.h"
#include "numerics/codec.h"

namespace ridge::numerics {
namespace {

// Formats of eight bits or fewer are decoded by table.
const std::array<float, 256>& decode_table(DType dtype) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, std::size(kAllDTypes)> all{};
    for (const DType each : kAllDTypes) {
      if (size_bits(each) > 8) continue;
      const std::uint64_t codes = std::uint64_t{1} << size_bits(each);
      for (std::uint64_t code = 0; code < codes; ++code) {
        all[static_cast<std::size_t>(each)][code] = static_cast<float>(codec::decode_double(each, code));
      }
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(dtype)];
}

template <class T>
T read(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void write(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

std::uint64_t load_code(DType dtype, const void* data, std::int64_t index) {
  switch (size_bits(dtype)) {
    case 64: return read<std::uint64_t>(data, index);
    case 32: return read<std::uint32_t>(data, index);
    case 16: return read<std::uint16_t>(data, index);
    case 8: return read<std::uint8_t>(data, index);
    default: return (read<std::uint8_t>(data, index / 2) >> (4 * (index % 2))) & 0xfU;
  }
}

void store_code(DType dtype, void* data, std::int64_t index, std::uint64_t code) {
  switch (size_bits(dtype)) {
    case 64: return write(data, index, code);
    case 32: return write(data, index, static_cast<std::uint32_t>(code));
    case 16: return write(data, index, static_cast<std::uint16_t>(code));
    case 8: return write(data, index, static_cast<std::uint8_t>(code));
    default: {
      const auto shift = static_cast<unsigned>(4 * (index % 2));
      const unsigned other = read<std::uint8_t>(data, index / 2) & (0xf0U >> shift);
      return write(data, index / 2, static_cast<std::uint8_t>(other | (static_cast<unsigned>(code) << shift)));
    }
  }
}

// Draws for consecutive elements, computing each Philox block once.
class Draws {
 public:
  explicit Draws(const Rounding& rounding) : seed_(rounding.seed), active_(rounding.mode == RoundMode::kStochastic) {}
  std::uint32_t at(std::uint64_t word) {
    if (!active_) return 0;
    if (word / 4 != block_ || !filled_) {
      block_ = word / 4;
      words_ = philox_block(seed_, block_);
      filled_ = true;
    }
    return words_[word % 4];
  }

 private:
  std::uint64_t seed_, block_ = 0;
  bool active_, filled_ = false;
  PhiloxCounter words_{};
};

template <class Float>
void encode_each(DType dtype, const Float* in, void* codes, std::int64_t n, const Rounding& rounding) {
  Draws draws(rounding);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t random = draws.at(rounding.offset + static_cast<std::uint64_t>(i));
    store_code(dtype, codes, i, codec::encode(dtype, in[i], rounding, random));
  }
}

void encode_packed(const float* in, void* out, std::int64_t n, bool saturate) {
  constexpr std::int64_t kChunk = 1024;
  std::array<std::uint8_t, kChunk + 1> codes{};
  auto* bytes = static_cast<std::uint8_t*>(out);
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t count = std::min(kChunk, n - start);
    codes[static_cast<std::size_t>(count)] = 0;
    bulk::encode(DType::kE2m1, in + start, codes.data(), count, saturate);
    for (std::int64_t i = 0; i < count; i += 2) {
      const auto at = static_cast<std::size_t>(i);
      bytes[(start + i) / 2] = static_cast<std::uint8_t>(codes[at] | (codes[at + 1] << 4));
    }
  }
}

}  // namespace

double decode(DType dtype, std::uint64_t code) { return codec::decode_double(dtype, code); }

std::uint64_t encode(DType dtype, double value, const Rounding& rounding) {
  return codec::encode(dtype, value, rounding, Draws(rounding).at(rounding.offset));
}

std::uint64_t encode(DType dtype, float value, const Rounding& rounding) {
  return codec::encode(dtype, value, rounding, Draws(rounding).at(rounding.offset));
}

double round_to(DType dtype, double value, const Rounding& rounding) {
  return decode(dtype, encode(dtype, value, rounding));
}

void to_float(DType dtype, const void* codes, float* out, std::int64_t n) {
  if (n <= 0) return;
  if (is_integer(dtype)) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(load(dtype, codes, i));
    return;
  }
  switch (dtype) {
    case DType::kF32: std::memcpy(out, codes, static_cast<std::size_t>(n) * sizeof(float)); return;
    case DType::kF16: return bulk::decode_f16(static_cast<const std::uint16_t*>(codes), out, n);
    case DType::kBf16: return bulk::decode_bf16(static_cast<const std::uint16_t*>(codes), out, n);
    case DType::kF64:
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(read<double>(codes, i));
      return;
    default: break;
  }
  const auto& table = decode_table(dtype);
  const auto* bytes = static_cast<const std::uint8_t*>(codes);
  if (dtype != DType::kE2m1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = table[bytes[i]];
    return;
  }
  for (std::int64_t i = 0; i + 1 < n; i += 2) {
    out[i] = table[bytes[i / 2] & 0xfU];
    out[i + 1] = table[bytes[i / 2] >> 4];
  }
  if (n % 2 != 0) out[n - 1] = table[bytes[n / 2] & 0xfU];
}

void to_double(DType dtype, const void* codes, double* out, std::int64_t n) {
  if (n <= 0) return;
  if (dtype == DType::kF64) {
    std::memcpy(out, codes, static_cast<std::size_t>(n) * sizeof(double));
    return;
  }
  if (is_integer(dtype)) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = load(dtype, codes, i);
    return;
  }
  constexpr std::int64_t kChunk = 1024;
  std::array<float, kChunk> buffer;
  for (std::int64_t start = 0; start < n; start += kChunk) {
    const std::int64_t count = std::min(kChunk, n - start);
    const std::int64_t byte = start * size_bits(dtype) / 8;
    to_float(dtype, static_cast<const char*>(codes) + byte, buffer.data(), count);
    for (std::int64_t i = 0; i < count; ++i) out[start + i] = static_cast<double>(buffer[static_cast<std::size_t>(i)]);
  }
}

void from_float(DType dtype, const float* in, void* codes, std::int64_t n, const Rounding& rounding) {
  if (n <= 0) return;
  if (dtype == DType::kF32 && !rounding.saturate) {
    std::memcpy(codes, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  if (dtype == DType::kF64) {
    for (std::int64_t i = 0; i < n; ++i) write(codes, i, static_cast<double>(in[i]));
    return;
  }
  if (dtype == DType::kF32 || dtype == DType::kE8m0 || is_integer(dtype) || rounding.mode == RoundMode::kStochastic) {
    return encode_each(dtype, in, codes, n, rounding);
  }
  if (dtype == DType::kE2m1) return encode_packed(in, codes, n, rounding.saturate);
  bulk::encode(dtype, in, codes, n, rounding.saturate);
}

void from_double(DType dtype, const double* in, void* codes, std::int64_t n, const Rounding& rounding) {
  if (n <= 0) return;
  if (dtype == DType::kF64) {
    std::memcpy(codes, in, static_cast<std::size_t>(n) * sizeof(double));
    return;
  }
  encode_each(dtype, in, codes, n, rounding);
}

double load(DType dtype, const void* data, std::int64_t offset) {
  if (size_bits(dtype) <= 8) return static_cast<double>(decode_table(dtype)[load_code(dtype, data, offset)]);
  if (dtype == DType::kF32) return static_cast<double>(read<float>(data, offset));
  return decode(dtype, load_code(dtype, data, offset));
}

void store(DType dtype, void* data, std::int64_t offset, double value, const Rounding& rounding) {
  store_code(dtype, data, offset, encode(dtype, value, rounding));
}

std::int64_t element_offset(const TensorView& view, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    offset += index % view.shape[i] * view.stride[i];
    index /= view.shape[i];
  }
  return offset;
}

double load_element(const TensorView& view, std::int64_t index) {
  return load(view.dtype, view.data, element_offset(view, index));
}

void store_element(const TensorView& view, std::int64_t index, double value, const Rounding& rounding) {
  store(view.dtype, view.data, element_offset(view, index), value, rounding);
}

namespace {

// Calls visit(index, offset, count) for every run of elements that lie side by side in memory.
template <class Visit>
void for_each_run(const TensorView& view, Visit visit) {
  const std::int64_t total = view.element_count();
  if (total == 0) return;
  const auto last = static_cast<std::size_t>(std::max(view.rank - 1, 0));
  const bool dense = view.rank > 0 && (view.stride[last] == 1 || view.shape[last] == 1);
  const std::int64_t run = dense ? view.shape[last] : 1;
  for (std::int64_t index = 0; index < total; index += run) visit(index, element_offset(view, index), run);
}

// Whether a run may be converted in bulk: E2M1 only from a byte boundary, and without a neighbour in its last byte.
bool whole_bytes(DType dtype, std::int64_t offset, std::int64_t count) {
  return size_bits(dtype) >= 8 || (offset % 2 == 0 && count % 2 == 0);
}

char* byte_of(const TensorView& view, std::int64_t offset) {
  return static_cast<char*>(view.data) + offset * size_bits(view.dtype) / 8;
}

}  // namespace

std::vector<double> to_doubles(const TensorView& view) {
  std::vector<double> values(static_cast<std::size_t>(view.element_count()));
  for_each_run(view, [&](std::int64_t index, std::int64_t offset, std::int64_t count) {
    double* out = values.data() + index;
    if (whole_bytes(view.dtype, offset, count)) return to_double(view.dtype, byte_of(view, offset), out, count);
    for (std::int64_t i = 0; i < count; ++i) out[i] = load(view.dtype, view.data, offset + i);
  });
  return values;
}

void from_doubles(const std::vector<double>& values, const TensorView& view, const Rounding& rounding) {
  check(static_cast<std::int64_t>(values.size()) == view.element_count(), "from_doubles: one value per element");
  for_each_run(view, [&](std::int64_t index, std::int64_t offset, std::int64_t count) {
    Rounding here = rounding;
    here.offset += static_cast<std::uint64_t>(index);
    const double* in = values.data() + index;
    if (whole_bytes(view.dtype, offset, count)) return from_double(view.dtype, in, byte_of(view, offset), count, here);
    for (std::int64_t i = 0; i < count; ++i, ++here.offset) store(view.dtype, view.data, offset + i, in[i], here);
  });
}

const char* bulk_conversion_isa() { return bulk::isa(); }

}  // namespace ridge::numerics
