#include "inspect/fatbin.h"

#include <zstd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "inspect/elf.h"

namespace ridge::inspect {
namespace {

constexpr std::uint32_t kMagic = 0xba55ed50;
constexpr std::uint32_t kPtx = 1, kCubin = 2;
constexpr std::uint64_t kLz4Flag = 0x2000, kZstdFlag = 0x8000;
constexpr std::uint64_t kLargestImage = 1u << 30;

Error damaged_fatbin(std::string_view what) {
  return Error{ErrorCode::kCorrupt, fmt::format("the fat binary is damaged: {}", what), {}};
}

// One LZ4 block: literals, then copies from what was already written.
std::optional<std::string> unpack_lz4(std::string_view packed, std::uint64_t size) {
  std::string out;
  std::size_t at = 0;
  const auto length = [&](std::size_t base) -> std::optional<std::size_t> {
    if (base != 15) return base;
    while (at < packed.size()) {
      const auto more = static_cast<unsigned char>(packed[at++]);
      base += more;
      if (more != 255) return base;
    }
    return std::nullopt;
  };
  while (at < packed.size() && out.size() < size) {
    const auto token = static_cast<unsigned char>(packed[at++]);
    const auto literals = length(token >> 4);
    if (!literals || packed.size() - at < *literals) return std::nullopt;
    out += packed.substr(at, *literals);
    at += *literals;
    if (at >= packed.size() || out.size() >= size) break;
    const std::uint32_t offset = read_u16(packed, at);
    at += 2;
    const auto copied = length(token & 15);
    if (!copied || offset == 0 || offset > out.size() || *copied + 4 > size - out.size()) return std::nullopt;
    for (std::size_t i = 0; i < *copied + 4; ++i) out += out[out.size() - offset];
  }
  return out.size() == size ? std::optional(std::move(out)) : std::nullopt;
}

// In steps: the size that a header claims is no reason to take the memory.
std::optional<std::string> unpack_zstd(std::string_view packed, std::uint64_t size) {
  constexpr std::uint64_t kStep = 1 << 20;
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(), ZSTD_freeDStream);
  ZSTD_inBuffer from{packed.data(), packed.size(), 0};
  std::string out;
  for (std::size_t left = 1; left != 0;) {
    const std::size_t before = out.size();
    out.resize(before + std::min(kStep, size - before));
    ZSTD_outBuffer into{out.data() + before, out.size() - before, 0};
    const std::size_t read = from.pos;
    left = ZSTD_decompressStream(stream.get(), &into, &from);
    if (ZSTD_isError(left) != 0) return std::nullopt;
    out.resize(before + into.pos);
    if (into.pos == 0 && from.pos == read && left != 0) return std::nullopt;  // it ends too early, or goes on too long
  }
  return out.size() == size ? std::optional(std::move(out)) : std::nullopt;
}

Result<FatbinImage> read_image(std::string_view entry) {
  const std::uint32_t kind = read_u16(entry, 0), header = read_u32(entry, 4);
  const std::uint64_t flags = read_u64(entry, 40), unpacked = read_u64(entry, 56);
  const std::uint32_t packed = read_u32(entry, 16);
  FatbinImage image{kind == kPtx, static_cast<int>(read_u32(entry, 28)), {}};
  if (header > entry.size()) return damaged_fatbin("an image's header is longer than the image");
  const std::string_view payload = entry.substr(header);
  if ((flags & (kLz4Flag | kZstdFlag)) == 0) {
    image.bytes = payload;
    return image;
  }
  if (packed > payload.size() || unpacked > kLargestImage) return damaged_fatbin("an image's size");
  auto bytes = (flags & kZstdFlag) != 0 ? unpack_zstd(payload.substr(0, packed), unpacked)
                                        : unpack_lz4(payload.substr(0, packed), unpacked);
  if (!bytes) return damaged_fatbin("an image does not unpack");
  image.bytes = std::move(*bytes);
  return image;
}

}  // namespace

bool is_fatbin(std::string_view bytes) { return bytes.size() >= 16 && read_u32(bytes, 0) == kMagic; }

Result<std::vector<FatbinImage>> read_fatbin(std::string_view bytes) {
  std::vector<FatbinImage> images;
  while (is_fatbin(bytes)) {
    const std::uint64_t header = read_u16(bytes, 6), size = read_u64(bytes, 8);
    if (header < 16) return damaged_fatbin("its header is shorter than a header");
    if (header > bytes.size() || size > bytes.size() - header) return damaged_fatbin("it is longer than the file");
    std::string_view body = bytes.substr(header, size);
    while (body.size() >= 64) {
      const std::uint64_t entry_header = read_u32(body, 4), payload = read_u64(body, 8);
      if (entry_header < 64 || entry_header > body.size() || payload > body.size() - entry_header)
        return damaged_fatbin("an image is longer than the rest");
      const std::uint64_t entry = entry_header + payload;
      const std::uint32_t kind = read_u16(body, 0);
      if (kind == kPtx || kind == kCubin) {
        RIDGE_TRY(image, read_image(body.substr(0, entry)));
        images.push_back(std::move(image));
      }
      body.remove_prefix(entry);
    }
    bytes.remove_prefix(header + size);
    // The next one starts at a multiple of eight.
    while (!bytes.empty() && bytes.front() == '\0') bytes.remove_prefix(1);
  }
  return images;
}

}  // namespace ridge::inspect
