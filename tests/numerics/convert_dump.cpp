// convert_dump decode DTYPE CODES OUT          codes (packed) -> f64
// convert_dump f32|f64 DTYPE MODE IN OUT       values -> codes; MODE = plain | saturate | floor | ceil
// Files are raw little-endian arrays. oracle.py drives it.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "numerics/convert.h"

namespace {

using ridge::DType;
using namespace ridge::numerics;

template <class T>
std::vector<T> read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<T> values(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  return values;
}

template <class T>
int write_all(const std::string& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  file.flush();
  return file ? 0 : 1;
}

int decode_file(DType dtype, const std::string& in, const std::string& out) {
  const auto codes = read_all<std::uint8_t>(in);
  const auto count = static_cast<std::int64_t>(codes.size()) * 8 / ridge::size_bits(dtype);
  std::vector<double> values(static_cast<std::size_t>(count));
  to_double(dtype, codes.data(), values.data(), count);
  return write_all(out, values);
}

Rounding rounding_of(const std::string& mode) {
  Rounding rounding;
  rounding.saturate = mode == "saturate";
  if (mode == "floor") rounding.scale = ScaleRounding::kFloor;
  if (mode == "ceil") rounding.scale = ScaleRounding::kCeil;
  return rounding;
}

template <class Float, class Convert>
int encode_file(DType dtype, const std::string& in, const std::string& out, Convert convert) {
  const auto values = read_all<Float>(in);
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> codes(ridge::size_bytes(dtype, count));
  convert(dtype, values.data(), codes.data(), count);
  return write_all(out, codes);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 4) return 2;
  const auto dtype = ridge::parse_dtype(args[1]);
  if (!dtype) return 2;
  if (args[0] == "decode") return decode_file(*dtype, args[2], args[3]);
  if (args.size() != 5) return 2;
  const Rounding rounding = rounding_of(args[2]);
  if (args[0] == "f32") {
    return encode_file<float>(*dtype, args[3], args[4], [&](DType d, const float* in, void* out, std::int64_t n) {
      from_float(d, in, out, n, rounding);
    });
  }
  return encode_file<double>(*dtype, args[3], args[4], [&](DType d, const double* in, void* out, std::int64_t n) {
    from_double(d, in, out, n, rounding);
  });
}
