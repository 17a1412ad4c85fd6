// A pack: compiled kernels in one file, so that a start compiles nothing. Text first, then the machine code:
//
//   ridge kernel pack
//   {"version":1,"arch":"sm_90a","compiler":"NVRTC 13.0",...}   KernelPack::Header
//   {"key":"5f...","source":"ops/matmul/cuda_wgmma.cu",...}       a PackedKernel a line
//   (an empty line)
//   the code of every kernel, at the offsets that its line gives from here
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

struct PackedKernel {
  std::string key;     // digest of everything the code was made from but the compiler: sources, defines, architecture
  std::string source;  // "ops/matmul/cuda_wgmma.cu"
  std::vector<std::string> defines;
  std::int64_t offset = 0, bytes = 0;
  std::string sha256;  // of the code
  static void fields(auto& v, auto& self) {
    v("key", self.key);
    v("source", self.source);
    v("defines", self.defines);
    v("offset", self.offset);
    v("bytes", self.bytes);
    v("sha256", self.sha256);
  }
};

struct PackHeader {
  std::int64_t version = 1;
  std::string arch, compiler;
  std::int64_t kernels = 0;
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("arch", self.arch);
    v("compiler", self.compiler);
    v("kernels", self.kernels);
  }
};

struct KernelPack {
  PackHeader header;
  std::vector<PackedKernel> kernels;
  static void fields(auto& v, auto& self) {
    v("header", self.header);
    v("kernels", self.kernels);
  }
};

// Fills offsets, sizes, digests and the count. `code` by kernel.
std::string pack_text(KernelPack pack, const std::vector<std::string>& code);

// The text before the code, up to and with the empty line; nothing but that is read. An error names what is wrong with
// the file.
Result<std::string> read_pack_head(const std::filesystem::path& path);
Result<KernelPack> parse_pack(std::string_view head, const std::string& path);
// The line of one key, without looking at the others.
std::optional<PackedKernel> find_packed(std::string_view head, std::string_view key);
// Its code. An error where the file ends before it or its digest is another one.
Result<std::string> read_packed(const std::filesystem::path& path, std::size_t head_bytes, const PackedKernel& kernel);

}  // namespace ridge::record
