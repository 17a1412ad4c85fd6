#include "record/code_object.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

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

CodeObjectKernel kernel_of(const Json& object) {
  CodeObjectKernel kernel;
  kernel.name = text(object, ".name");
  kernel.vector_registers = integer(object, ".vgpr_count");
  kernel.accumulation_registers = integer(object, ".agpr_count");
  kernel.scalar_registers = integer(object, ".sgpr_count");
  kernel.shared_bytes = integer(object, ".group_segment_fixed_size");
  kernel.stack_bytes = integer(object, ".private_segment_fixed_size");
  kernel.spilled_vector_registers = integer(object, ".vgpr_spill_count");
  kernel.spilled_scalar_registers = integer(object, ".sgpr_spill_count");
  kernel.max_threads = integer(object, ".max_flat_workgroup_size");
  kernel.wavefront_size = integer(object, ".wavefront_size");
  return kernel;
}

}  // namespace

Result<CodeObjectMetadata> read_code_object_metadata(std::string_view note) {
  Result<Json> root = parse_msgpack(note);
  if (!root) return in_context("the metadata of the code object", root.error());
  const auto kernels = root->find("amdhsa.kernels");
  if (!root->is_object() || kernels == root->end() || !kernels->is_array()) {
    return make_error(ErrorCode::kCorrupt, "the metadata of the code object names no kernels");
  }
  CodeObjectMetadata metadata;
  metadata.target = text(*root, "amdhsa.target");
  for (const Json& kernel : *kernels) {
    if (kernel.is_object()) metadata.kernels.push_back(kernel_of(kernel));
  }
  return metadata;
}

}  // namespace ridge::record
