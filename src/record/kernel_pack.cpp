#include "record/kernel_pack.h"

#include <fstream>

#include "base/error.h"
#include "base/hash.h"
#include "base/large_file.h"
#include "record/json.h"

namespace ridge::record {
namespace {

constexpr std::string_view kMagic = "ridge kernel pack";

std::string_view next_line(std::string_view& rest) {
  const std::string_view line = rest.substr(0, rest.find('\n'));
  rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  return line;
}

}  // namespace

std::string pack_text(KernelPack pack, const std::vector<std::string>& code) {
  std::string lines, blob;
  for (std::size_t i = 0; i < pack.kernels.size(); ++i) {
    PackedKernel& kernel = pack.kernels[i];
    kernel.offset = static_cast<std::int64_t>(blob.size());
    kernel.bytes = static_cast<std::int64_t>(code[i].size());
    kernel.sha256 = sha256(code[i]);
    lines += to_line(kernel) + "\n";
    blob += code[i];
  }
  pack.header.kernels = static_cast<std::int64_t>(pack.kernels.size());
  return fmt::format("{}\n{}\n{}\n", kMagic, to_line(pack.header), lines) + blob;
}

Result<std::string> read_pack_head(const std::filesystem::path& path) {
  RIDGE_CHECK_OK(check_regular_file(path, kCodeFileBytes));
  std::ifstream file(path, std::ios::binary);
  if (!file) return make_error(ErrorCode::kNotFound, "{} cannot be read", path.string());
  std::string head;
  for (std::string line; std::getline(file, line);) {
    if (head.empty() && line != kMagic) return invalid("{} is no kernel pack", path.string());
    head += line + "\n";
    if (line.empty()) return head;
  }
  return invalid("{} ends within its list of kernels", path.string());
}

Result<KernelPack> parse_pack(std::string_view head, const std::string& path) {
  std::string_view rest = head;
  next_line(rest);
  KernelPack pack;
  auto header = parse_record<PackHeader>(next_line(rest));
  if (!header) return in_context(path, header.error());
  pack.header = std::move(*header);
  if (pack.header.version != PackHeader{}.version) {
    return invalid("{}: version {}, this program reads version {}", path, pack.header.version, PackHeader{}.version);
  }
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    if (line.empty()) break;
    auto kernel = parse_record<PackedKernel>(line);
    if (!kernel) return in_context(fmt::format("{}, kernel {}", path, pack.kernels.size() + 1), kernel.error());
    pack.kernels.push_back(std::move(*kernel));
  }
  if (static_cast<std::int64_t>(pack.kernels.size()) != pack.header.kernels) {
    return invalid("{} lists {} kernels, its header says {}", path, pack.kernels.size(), pack.header.kernels);
  }
  return pack;
}

std::optional<PackedKernel> find_packed(std::string_view head, std::string_view key) {
  const std::size_t at = head.find(fmt::format("{{\"key\":\"{}\"", key));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = head.substr(at);
  auto kernel = parse_record<PackedKernel>(next_line(rest));
  if (!kernel || kernel->key != key) return std::nullopt;
  return std::move(*kernel);
}

Result<std::string> read_packed(const std::filesystem::path& path, std::size_t head_bytes, const PackedKernel& kernel) {
  RIDGE_CHECK_OK(check_regular_file(path, kCodeFileBytes));
  std::error_code missing;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, missing));
  const std::int64_t rest = size - static_cast<std::int64_t>(head_bytes);  // differences: sums could overflow
  if (missing || kernel.bytes < 0 || kernel.offset < 0 || kernel.bytes > rest || kernel.offset > rest - kernel.bytes) {
    return invalid("{} ends before the code of {}: {} bytes from {} on of {}", path.string(), kernel.source,
                   kernel.bytes, kernel.offset, rest);
  }
  std::ifstream file(path, std::ios::binary);
  std::string code(static_cast<std::size_t>(kernel.bytes), '\0');
  file.seekg(static_cast<std::streamoff>(head_bytes) + kernel.offset);
  file.read(code.data(), static_cast<std::streamsize>(code.size()));
  const auto help = [&](Error error) {
    return with_hint(std::move(error), "remove the file, or make it again with ridge kernels build");
  };
  if (!file) return help(invalid("{} ends before the code of {}", path.string(), kernel.source));
  if (sha256(code) != kernel.sha256) {
    return help(invalid("{}: the code of {} ({}) does not have the digest it was packed with", path.string(),
                        kernel.source, kernel.key.substr(0, 12)));
  }
  return code;
}

}  // namespace ridge::record
