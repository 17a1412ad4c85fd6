#include "record/code_object.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace ridge::record {
namespace {

std::optional<std::int64_t> integer(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? std::optional(found->get<std::int64_t>()) : std::nullopt;
}

std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The keys of one kernel in the text form.
using TextKernel = std::map<std::string, std::string, std::less<>>;

std::string text(const TextKernel& kernel, const char* key) {
  const auto found = kernel.find(key);
  return found == kernel.end() ? std::string() : found->second;
}

std::optional<std::int64_t> integer(const TextKernel& kernel, const char* key) {
  const std::string digits = text(kernel, key);
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failure == std::errc() && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

// ".vgpr_count:     128" into the kernel; "'a name'" without its quotes.
void take_key(std::string_view line, TextKernel& kernel) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return;
  std::string_view value = trimmed(line.substr(colon + 2));
  const bool quoted =
      value.size() >= 2 && (value.front() == '\'' || value.front() == '"') && value.back() == value.front();
  if (quoted) value = value.substr(1, value.size() - 2);
  kernel[std::string(trimmed(line.substr(0, colon)))] = value;
}

// Kernels begin with a dash at one depth, their keys stand two columns further in; what is deeper is of arguments.
class TextReader {
 public:
  void take(std::string_view line) {
    const std::size_t depth = line.find_first_not_of(' ');
    if (depth == std::string_view::npos) return;
    const std::string_view words = trimmed(line.substr(depth));
    if (words.starts_with("amdhsa.")) {
      inside_ = words == "amdhsa.kernels:";
      listed_ = listed_ || inside_;
      if (words.starts_with("amdhsa.target:")) take_key(words, root_);
    } else if (inside_ && words.starts_with("- ") && depth <= dash_) {
      dash_ = depth;
      take_key(words.substr(2), kernels_.emplace_back());
    } else if (inside_ && !kernels_.empty() && depth == dash_ + 2) {
      take_key(words, kernels_.back());
    }
  }
  [[nodiscard]] bool listed() const { return listed_; }
  [[nodiscard]] std::string target() const { return text(root_, "amdhsa.target"); }
  [[nodiscard]] const std::vector<TextKernel>& kernels() const { return kernels_; }

 private:
  TextKernel root_;
  std::vector<TextKernel> kernels_;
  std::size_t dash_ = std::string_view::npos;
  bool inside_ = false, listed_ = false;
};

template <class Map>
CodeObjectKernel kernel_of(const Map& map) {
  CodeObjectKernel kernel;
  kernel.name = text(map, ".name");
  kernel.vector_registers = integer(map, ".vgpr_count");
  kernel.accumulation_registers = integer(map, ".agpr_count");
  kernel.scalar_registers = integer(map, ".sgpr_count");
  kernel.shared_bytes = integer(map, ".group_segment_fixed_size");
  kernel.stack_bytes = integer(map, ".private_segment_fixed_size");
  kernel.spilled_vector_registers = integer(map, ".vgpr_spill_count");
  kernel.spilled_scalar_registers = integer(map, ".sgpr_spill_count");
  kernel.max_threads = integer(map, ".max_flat_workgroup_size");
  kernel.wavefront_size = integer(map, ".wavefront_size");
  return kernel;
}

Error names_no_kernels() { return make_error(ErrorCode::kCorrupt, "the metadata of the code object names no kernels"); }

}  // namespace

Result<CodeObjectMetadata> read_code_object_metadata(std::string_view note) {
  Result<Json> root = parse_msgpack(note);
  if (!root) return in_context("the metadata of the code object", root.error());
  const auto kernels = root->find("amdhsa.kernels");
  if (!root->is_object() || kernels == root->end() || !kernels->is_array()) {
    return names_no_kernels();
  }
  CodeObjectMetadata metadata;
  metadata.target = text(*root, "amdhsa.target");
  for (const Json& kernel : *kernels) {
    if (kernel.is_object()) metadata.kernels.push_back(kernel_of(kernel));
  }
  return metadata;
}

Result<CodeObjectMetadata> read_code_object_text(std::string_view text) {
  TextReader reader;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!reader.listed()) return names_no_kernels();
  CodeObjectMetadata metadata;
  metadata.target = reader.target();
  for (const TextKernel& kernel : reader.kernels()) metadata.kernels.push_back(kernel_of(kernel));
  return metadata;
}

}  // namespace ridge::record
