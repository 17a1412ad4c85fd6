#include "record/kernel_start.h"

#include <algorithm>

#include "base/error.h"
#include "base/malformed.h"
#include "record/source_block.h"

namespace ridge::record {
namespace {

constexpr std::string_view kBuildMarker = "ridge-build";

Result<Case> read_build(const toml::table& root, const SourceBlock& source) {
  BlockKeys keys(root, source);
  std::string words;
  RIDGE_CHECK_OK(keys.text("case", words, true));
  RIDGE_CHECK_OK(keys.finish());
  auto one = parse_case(words);
  if (!one) return keys.error(keys.line(), one.error().message);
  return std::move(*one);
}

Result<std::string> macro_of(const KernelDefine& define, const Variables& variables, const Reals& reals) {
  RIDGE_TRY(number, evaluate(define.value, variables, reals));
  if (define.names.empty()) return fmt::format("{}={}", define.name, number);
  if (number < 0 || number >= static_cast<std::int64_t>(define.names.size())) {
    return invalid("{} = \"{}\" is {}, which has no name: there are {}", define.name, define.value, number,
                   define.names.size());
  }
  return define.name + "=" + define.names[static_cast<std::size_t>(number)];
}

}  // namespace

std::string start_text(std::string_view path, std::string_view op, std::span<const std::string> cases) {
  std::string list;
  for (const std::string& words : cases) list += fmt::format("  \"{}\",\n", words);
  return fmt::format(
      "// The library's kernel {0} as a candidate. What can be varied about it, and how it is launched, is declared\n"
      "// there.\n\n"
      "/* ridge-campaign\nop = \"{1}\"\ncases = [\n{2}]\n*/\n"
      "/* ridge-build\ncase = \"{1} {3}\"\n*/\n\n"
      "#include \"{0}\"\n",
      path, op, list, cases.front());
}

Result<std::optional<Case>> built_for(const Candidate& candidate) {
  for (const SourceFile& source : candidate.sources) {
    auto found = find_block(source.text, kBuildMarker);
    if (!found) return in_context(source.path, found.error());
    if (!*found) continue;
    try {
      auto one = read_build(toml::parse((*found)->text), **found);
      if (!one) return in_context(source.path, one.error());
      return std::optional(std::move(*one));
    } catch (const toml::parse_error& failure) {
      const auto line = failure.source().begin.line;
      return in_context(source.path, block_error(kBuildMarker, (*found)->line + line - 1,
                                                 toml_problem((*found)->text, line, failure.description())));
    }
  }
  return std::optional<Case>();
}

Result<std::optional<KernelDescription>> described_kernel_of(const Candidate& candidate) {
  for (const SourceFile& source : candidate.sources) {
    auto kernel = parse_kernel(source.text);
    if (!kernel) return in_context(source.path, kernel.error());
    if (*kernel) return std::move(*kernel);
  }
  return std::optional<KernelDescription>();
}

Result<std::vector<std::string>> macros_of(const KernelDescription& kernel, const Variables& variables,
                                           const Reals& reals) {
  std::vector<std::string> macros;
  for (const KernelDefine& define : kernel.defines) {
    RIDGE_TRY(macro, macro_of(define, variables, reals));
    macros.push_back(std::move(macro));
  }
  return macros;
}

}  // namespace ridge::record
