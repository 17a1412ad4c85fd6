#include "inspect/shipped.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "base/error.h"
#include "base/files.h"
#include "base/malformed.h"
#include "toolchain/device_build.h"

namespace fs = std::filesystem;

namespace ridge::inspect {
namespace {

using Defines = std::map<std::string, std::string>;

struct Description {
  std::string source, prefix = "RIDGE_";
  std::vector<std::pair<std::string, Defines>> configs, variants, extra;
  std::vector<std::map<std::string, std::vector<std::string>>> unsupported;
};

std::string text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  return {};
}

Defines defines_of(const toml::node& node) {
  Defines defines;
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) defines[std::string(key.str())] = text_of(value);
  }
  return defines;
}

// In the order of the file: its first build is the one that stands for the kernel.
std::vector<std::pair<std::string, Defines>> section(const toml::table& file, std::string_view name) {
  std::vector<std::pair<const toml::node*, std::string>> order;
  if (const toml::table* table = file[name].as_table()) {
    for (const auto& [key, value] : *table) order.emplace_back(&value, std::string(key.str()));
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first->source().begin.line < b.first->source().begin.line; });
  std::vector<std::pair<std::string, Defines>> found;
  for (const auto& [node, key] : order) found.emplace_back(key, defines_of(*node));
  return found;
}

Result<Description> read_description(const fs::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  toml::table file;
  try {
    file = toml::parse(*text, path.string());
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    return make_error(ErrorCode::kCorrupt, "{}:{}: {}", path.string(), line,
                      toml_problem(*text, line, error.description()));
  }
  Description d;
  d.source = file["source"].value_or(std::string());
  d.prefix = file["prefix"].value_or(d.prefix);
  d.configs = section(file, "configs");
  d.variants = section(file, "variants");
  d.extra = section(file, "extra");
  if (const toml::array* rules = file["unsupported"].as_array()) {
    for (const toml::node& rule : *rules) {
      auto& entry = d.unsupported.emplace_back();
      const toml::table* table = rule.as_table();
      if (table == nullptr) continue;
      for (const auto& [key, value] : *table) {
        std::vector<std::string>& values = entry[std::string(key.str())];
        if (const toml::array* list = value.as_array()) {
          for (const toml::node& one : *list) values.push_back(text_of(one));
        } else {
          values.push_back(text_of(value));
        }
      }
    }
  }
  if (d.source.empty() || d.configs.empty() || d.variants.empty())
    return invalid("{} names no source, configs and variants", path.string());
  return d;
}

bool is_unsupported(const Description& d, const Defines& defines) {
  return std::any_of(d.unsupported.begin(), d.unsupported.end(), [&](const auto& rule) {
    return std::all_of(rule.begin(), rule.end(), [&](const auto& entry) {
      const auto found = defines.find(entry.first);
      return found != defines.end() &&
             std::find(entry.second.begin(), entry.second.end(), found->second) != entry.second.end();
    });
  });
}

// All builds, by name, in the order of the file.
std::vector<std::pair<std::string, Defines>> builds_of(const Description& d) {
  std::vector<std::pair<std::string, Defines>> builds;
  for (const auto& [config, config_defines] : d.configs) {
    for (const auto& [variant, variant_defines] : d.variants) {
      Defines defines = config_defines;
      for (const auto& [name, value] : variant_defines) defines[name] = value;
      if (!is_unsupported(d, defines)) builds.emplace_back(config + "/" + variant, std::move(defines));
    }
  }
  builds.insert(builds.end(), d.extra.begin(), d.extra.end());
  return builds;
}

// "gemm/cuda_wgmma" to ops/gemm/cuda_wgmma.configs.toml; the error lists the kernels there are.
Result<fs::path> description_of(const fs::path& sources, const std::string& kernel) {
  const fs::path path = sources / "ops" / (kernel + ".configs.toml");
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  std::vector<std::string> known;
  for (const auto& entry : fs::recursive_directory_iterator(sources / "ops", ignored)) {
    std::string name = entry.path().lexically_relative(sources / "ops").string();
    constexpr std::string_view kEnding = ".configs.toml";
    if (name.ends_with(kEnding)) known.push_back(name.substr(0, name.size() - kEnding.size()));
  }
  std::sort(known.begin(), known.end());
  return with_hint(make_error(ErrorCode::kNotFound, "there is no file and no shipped kernel {}", kernel),
                   known.empty() ? "the source tree is not on this machine"
                                 : fmt::format("shipped kernels: {}", fmt::join(known, ", ")));
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

Result<std::vector<std::string>> shipped_builds(const fs::path& sources, const std::string& kernel) {
  RIDGE_TRY(path, description_of(sources, kernel));
  RIDGE_TRY(description, read_description(path));
  std::vector<std::string> names;
  for (const auto& [name, defines] : builds_of(description)) names.push_back(name);
  return names;
}

Result<ShippedBuild> build_shipped(const fs::path& sources, const std::string& name, const fs::path& cache_directory) {
  const auto [kernel, wanted] = split(name);
  RIDGE_TRY(path, description_of(sources, kernel));
  RIDGE_TRY(description, read_description(path));
  const std::vector<std::pair<std::string, Defines>> builds = builds_of(description);
  const auto found = wanted.empty() ? builds.begin()
                                    : std::find_if(builds.begin(), builds.end(),
                                                   [&wanted = wanted](const auto& one) { return one.first == wanted; });
  if (found == builds.end()) {
    return with_hint(make_error(ErrorCode::kNotFound, "{} is not built as {}", kernel, wanted),
                     fmt::format("{} builds; the first is {}", builds.size(), builds.front().first));
  }
  toolchain::DeviceCode code;
  RIDGE_TRY(files, files_of(sources, path.parent_path() / description.source));
  code.files = std::move(files);
  for (const auto& [define, value] : found->second)
    code.defines.push_back(fmt::format("{}{}={}", description.prefix, define, value));
  RIDGE_TRY(compiler, toolchain::find_device_compiler());
  toolchain::BuildOptions options;
  options.cache_directory = cache_directory;
  RIDGE_TRY(build, toolchain::build_device(code, *compiler, options));
  if (!build.ok()) return make_error(ErrorCode::kToolFailed, "{} does not compile: {}", name, build.error);
  return ShippedBuild{kernel + ":" + found->first, std::move(build.cubin), compiler->version(), build.evidence.log};
}

}  // namespace ridge::inspect
