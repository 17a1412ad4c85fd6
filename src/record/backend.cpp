#include "record/backend.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace ridge::record {
namespace {

constexpr BackendInfo kBackends[] = {
    {Backend::kCpu, "cpu", ".cpp", "c++", "cpu.", "cpu.model", "", true, true},
    {Backend::kCuda, "cuda", ".cu", "cuda", "gpu.", "gpu.name", "CUDA GPU", true, false},
    {Backend::kHip, "hip", ".hip", "hip", "gpu.", "gpu.name", "HIP GPU", false, false},
};

template <class Fits>
const BackendInfo& first(const Fits& fits) {
  const auto* const found = std::ranges::find_if(kBackends, fits);
  return found == std::end(kBackends) ? kBackends[0] : *found;
}

}  // namespace

std::span<const BackendInfo> backends() { return kBackends; }

const BackendInfo& info_of(Backend backend) {
  return first([&](const BackendInfo& row) { return row.backend == backend; });
}

Result<const BackendInfo*> find_measured(std::string_view name, std::string_view what) {
  std::string known;
  for (const BackendInfo& row : kBackends) {
    if (!row.measured) continue;
    if (row.name == name) return &row;
    known += (known.empty() ? "--on " : " or --on ") + std::string(row.name);
  }
  const bool later = std::ranges::any_of(kBackends, [&](const BackendInfo& row) { return row.name == name; });
  return with_hint(make_error(later ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument, "{} \"{}\" {}", what, name,
                              later ? "are not built yet" : "do not exist"),
                   "use " + known);
}

const BackendInfo& backend_of_name(std::string_view name) {
  return first([&](const BackendInfo& row) { return row.name == name; });
}

bool runs_on_host(std::string_view name) {
  return std::ranges::any_of(kBackends, [&](const BackendInfo& row) { return row.name == name && row.host; });
}

const BackendInfo& backend_of_suffix(std::string_view suffix) {
  return first([&](const BackendInfo& row) { return row.suffix == suffix; });
}

const BackendInfo& backend_of_language(std::string_view language) {
  return first([&](const BackendInfo& row) { return row.language == language; });
}

}  // namespace ridge::record
