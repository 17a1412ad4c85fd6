#include "inspect/shipped.h"

#include <algorithm>
#include <cctype>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "record/json.h"
#include "record/shipped_build.h"
#include "toolchain/device_build.h"

namespace fs = std::filesystem;

namespace ridge::inspect {
namespace {

Result<record::ShippedBuilds> read_list(const fs::path& list) {
  const Result<std::string> text = read_file(list);
  if (!text) return with_hint(text.error(), "the build of the library writes it; scripts/build makes one");
  return record::parse_record<record::ShippedBuilds>(*text, list.string());
}

// The builds of a kernel; the error lists the kernels there are.
Result<std::vector<record::ShippedBuild>> builds_of(const fs::path& list, const std::string& kernel) {
  RIDGE_TRY(all, read_list(list));
  std::vector<record::ShippedBuild> found;
  std::vector<std::string> known;
  for (record::ShippedBuild& build : all.builds) {
    if (known.empty() || known.back() != build.kernel) known.push_back(build.kernel);
    if (build.kernel == kernel) found.push_back(std::move(build));
  }
  if (!found.empty()) return found;
  return with_hint(make_error(ErrorCode::kNotFound, "there is no file and no shipped kernel {}", kernel),
                   fmt::format("shipped kernels: {}", fmt::join(known, ", ")));
}

std::pair<std::string, std::string> split(const std::string& name) {
  const std::size_t colon = std::min(name.find(':'), name.size());
  return {name.substr(0, colon), colon < name.size() ? name.substr(colon + 1) : std::string()};
}

// The source first, then every header a kernel may include, by its path below src/.
Result<std::vector<record::SourceFile>> files_of(const fs::path& sources, const fs::path& source) {
  std::vector<record::SourceFile> files;
  const auto add = [&](const fs::path& path) -> Status {
    RIDGE_TRY(text, read_file(path));
    files.push_back({path.lexically_relative(sources).string(), std::move(text)});
    return ok_status();
  };
  RIDGE_CHECK_OK(add(source));
  std::error_code ignored;
  for (const fs::path& folder : {sources / "device" / "cuda" / "kernel", source.parent_path()}) {
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const bool header = entry.path().extension() == ".cuh" || entry.path().extension() == ".h";
      if (header && entry.path() != source) RIDGE_CHECK_OK(add(entry.path()));
    }
  }
  std::sort(files.begin() + 1, files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace

bool names_shipped_kernel(const std::string& word) {
  const std::string kernel = split(word).first;
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '/'; };
  return std::count(kernel.begin(), kernel.end(), '/') == 1 && std::all_of(kernel.begin(), kernel.end(), plain);
}

Result<std::vector<std::string>> shipped_builds(const fs::path& list, const std::string& kernel) {
  RIDGE_TRY(builds, builds_of(list, kernel));
  std::vector<std::string> names;
  for (const record::ShippedBuild& build : builds) names.push_back(build.name);
  return names;
}

Result<ShippedBuild> build_shipped(const fs::path& sources, const fs::path& list, const std::string& name,
                                   const fs::path& cache_directory) {
  const auto [kernel, wanted] = split(name);
  RIDGE_TRY(builds, builds_of(list, kernel));
  const auto found = wanted.empty() ? builds.begin() : std::ranges::find(builds, wanted, &record::ShippedBuild::name);
  if (found == builds.end()) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} is not built as {}", kernel, wanted),
                     fmt::format("{} builds; the first is {}", builds.size(), builds.front().name));
  }
  toolchain::DeviceCode code;
  RIDGE_TRY(files, files_of(sources, sources / found->source));
  code.files = std::move(files);
  code.defines = found->defines;
  RIDGE_TRY(compiler, toolchain::find_device_compiler());
  toolchain::BuildOptions options;
  options.cache_directory = cache_directory;
  RIDGE_TRY(build, toolchain::build_device(code, *compiler, options));
  if (!build.ok()) return make_error(ErrorCode::kToolFailed, "{} does not compile: {}", name, build.error);
  return ShippedBuild{kernel + ":" + found->name, std::move(build.cubin), compiler->version(), build.evidence.log};
}

}  // namespace ridge::inspect
