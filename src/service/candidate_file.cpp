#include "service/candidate_file.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "record/backend.h"
#include "record/kernel_description.h"

namespace ridge::service {
namespace {

namespace fs = std::filesystem;

// The library's kernels: installed beside the data, or in the source tree.
fs::path library_sources(const Context& context) {
  std::error_code ignored;
  const fs::path installed = context.data_directory / "sources";
  return fs::exists(installed, ignored) ? installed : context.data_directory.parent_path() / "src";
}

std::vector<std::string> quoted_includes(std::string_view text) {
  constexpr std::string_view kMark = "#include \"";
  std::vector<std::string> found;
  for (std::size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::size_t begin = at + kMark.size();
    found.emplace_back(text.substr(begin, text.find('"', begin) - begin));
  }
  return found;
}

Status add_included(const Context& context, record::Candidate& candidate, std::size_t index, const fs::path& folder) {
  const std::string text = candidate.sources[index].text;  // the list grows below
  const fs::path from = fs::path(candidate.sources[index].path).parent_path();
  for (const std::string& name : quoted_includes(text)) {
    const std::string path = (from / name).lexically_normal().generic_string();
    const auto known = [&](const record::SourceFile& file) { return file.path == path || file.path == name; };
    if (std::ranges::any_of(candidate.sources, known) || path.starts_with("..")) continue;
    std::error_code ignored;
    if (!folder.empty() && fs::is_regular_file(folder / path, ignored)) {
      RIDGE_TRY(own, read_file(folder / path));
      candidate.sources.push_back({path, std::move(own)});
      continue;
    }
    // Of the library: a kernel by its path, and what lies beside a kernel that is there already.
    const std::string& of_library = name.ends_with(".cu") ? name : path;
    if (!of_library.starts_with("ops/") || !fs::is_regular_file(library_sources(context) / of_library, ignored))
      continue;
    RIDGE_TRY(own, read_file(library_sources(context) / of_library));
    candidate.sources.push_back({of_library, record::as_candidate_text(std::move(own))});
  }
  return ok_status();
}

Status add_define(record::Candidate& candidate, const std::string& define) {
  const std::size_t equals = define.find('=');
  std::int64_t value = 0;
  const char* end = define.data() + define.size();
  if (equals == std::string::npos || equals == 0 ||
      std::from_chars(define.data() + equals + 1, end, value).ptr != end || equals + 1 == define.size()) {
    return with_hint(invalid("-D {} is not NAME=INTEGER", define), "write for instance -D MR=6");
  }
  candidate.defines[define.substr(0, equals)] = value;
  return ok_status();
}

// `folder` holds what the text includes beside it; none where the text lies nowhere.
Result<record::Candidate> make_candidate(const Context& context, const std::string& op, const fs::path& file,
                                         const fs::path& folder, std::string text,
                                         const std::vector<std::string>& defines) {
  record::Candidate candidate;
  candidate.op = op;
  candidate.backend = record::backend_of_suffix(file.extension().string()).name;
  candidate.name = file.stem().string();
  candidate.sources = {{file.string(), std::move(text)}};
  for (std::size_t i = 0; i < candidate.sources.size(); ++i)
    RIDGE_CHECK_OK(add_included(context, candidate, i, folder));
  for (const std::string& define : defines) RIDGE_CHECK_OK(add_define(candidate, define));
  return candidate;
}

// Files of a folder that end so, by name.
std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

Error none_shipped(const Context& context, const std::string& name, const std::string& backend,
                   const std::vector<std::string>& known) {
  return with_hint(make_error(ErrorCode::kNotFound, "no kernel for {} on {} is shipped in {}", name, backend,
                              (library_sources(context) / "ops").string()),
                   known.empty() ? "name the source to start from with --kernel FILE"
                                 : fmt::format("there is {}; or name the source to start from with --kernel FILE",
                                               fmt::join(known, ", ")));
}

// Of data/candidates, those that say what they are for; nothing where none is for `name`.
Result<std::optional<ShippedKernel>> shipped_candidate(const Context& context, const std::string& name,
                                                       std::vector<std::string>& known) {
  std::vector<ShippedKernel> fitting;
  for (const fs::path& file : files_in(context.data_directory / "candidates", ".cu")) {
    RIDGE_TRY(text, read_file(file));
    RIDGE_TRY(block, record::parse_campaign_block(text));
    if (!block) continue;  // an example, or a start for a user's own campaign
    const std::string stem = file.stem().string();
    known.push_back(stem.substr(0, stem.rfind('_')));
    if (stem.starts_with(name + "_") || block->op == name) fitting.push_back({file, std::move(block), {}});
  }
  if (fitting.empty()) return std::optional<ShippedKernel>();
  if (fitting.size() == 1) return std::optional(std::move(fitting.front()));
  return with_hint(invalid("several kernels for {} are shipped", name),
                   fmt::format("name one: {}", fmt::join(known, ", ")));
}

// The kernel of the library whose source begins so and that describes itself as one of an operator; `known` gets the
// operators of the others.
Result<std::optional<fs::path>> library_kernel(const Context& context, const std::string& name, std::string_view prefix,
                                               std::string_view extension, std::vector<std::string>& known) {
  for (const fs::path& file : files_in(library_sources(context) / "ops", extension)) {
    if (!file.filename().string().starts_with(prefix)) continue;
    RIDGE_TRY(text, read_file(file));
    auto kernel = record::parse_kernel(text);
    if (!kernel) return in_context(file.string(), kernel.error());
    if (!*kernel || (*kernel)->space.tunables.empty()) continue;
    if (std::ranges::find((*kernel)->ops, name) != (*kernel)->ops.end()) return std::optional(file);
    known.insert(known.end(), (*kernel)->ops.begin(), (*kernel)->ops.end());
  }
  return std::optional<fs::path>();
}

}  // namespace

Result<record::Candidate> candidate_of(const Context& context, const std::string& op, const std::string& path,
                                       const std::vector<std::string>& defines) {
  RIDGE_TRY(text, read_file(path));
  const fs::path folder = fs::path(path).parent_path();
  return make_candidate(context, op, fs::path(path).filename(), folder.empty() ? "." : folder, std::move(text),
                        defines);
}

Result<record::Candidate> candidate_of_text(const Context& context, const std::string& op, const std::string& file,
                                            std::string text, const std::vector<std::string>& defines) {
  return make_candidate(context, op, file, {}, std::move(text), defines);
}

Result<ShippedKernel> shipped_kernel(const Context& context, const std::string& name, const std::string& backend) {
  std::vector<std::string> known;
  if (record::runs_on_host(backend)) {
    RIDGE_TRY(file, library_kernel(context, name, "cpu_", ".cpp", known));
    if (file) return ShippedKernel{std::move(*file), {}, {}};
    return none_shipped(context, name, backend, {});
  }
  RIDGE_TRY(candidate, shipped_candidate(context, name, known));
  if (candidate) return std::move(*candidate);
  RIDGE_TRY(file, library_kernel(context, name, "cuda_", ".cu", known));
  if (!file) return none_shipped(context, name, backend, known);
  std::string path = file->lexically_relative(library_sources(context)).generic_string();
  return ShippedKernel{std::move(*file), {}, std::move(path)};
}

Result<std::vector<std::string>> values_of_configuration(const ShippedKernel& shipped, const std::string& runs) {
  std::vector<std::string> values;
  const std::size_t slash = runs.find('/');
  if (slash == std::string::npos || runs.substr(0, slash) != shipped.file.stem().string()) return values;
  RIDGE_TRY(text, read_file(shipped.file));
  auto kernel = record::parse_kernel(text);
  if (!kernel) return in_context(shipped.file.string(), kernel.error());
  if (!*kernel) return values;
  const auto config = std::ranges::find((*kernel)->configs, runs.substr(slash + 1), &record::KernelConfig::name);
  if (config == (*kernel)->configs.end()) return values;
  for (const auto& [name, value] : config->values) values.push_back(fmt::format("{}={}", name, value));
  return values;
}

}  // namespace ridge::service
