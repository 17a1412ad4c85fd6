#include "record/kernel_description.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/malformed.h"
#include "record/case.h"
#include "record/expression.h"
#include "record/source_block.h"
#include "record/tunables.h"

namespace ridge::record {
namespace {

constexpr std::string_view kKernelMarker = "ridge-kernel";
constexpr std::string_view kPromotedKey = "promoted", kModelKey = "model", kInstructionsKey = "instructions";

bool is_config_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 64 && name[0] >= 'a' && name[0] <= 'z' && std::ranges::all_of(name, plain);
}

// A text that can stand in the comment again as it is, and that cmake/ridge_ops.cmake can step over.
bool is_plain(std::string_view text) {
  const auto plain = [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || std::string_view(" ._-+:,%()").find(c) != std::string_view::npos;
  };
  return text.size() <= 200 && std::ranges::all_of(text, plain);
}

Status read_ops(BlockKeys& keys, std::vector<std::string>& ops) {
  const toml::node* node = keys.find("op");
  if (node == nullptr) return keys.missing("op");
  const auto add = [&](const toml::node& item) -> Status {
    if (!item.is_string() || (**item.as_string()).empty()) {
      return keys.error_at(item, "\"op\" must be the name of an operator, or a list of them");
    }
    ops.push_back(**item.as_string());
    return ok_status();
  };
  const toml::array* list = node->as_array();
  if (list == nullptr) return add(*node);
  if (list->empty()) return keys.error_at(*node, "\"op\" names no operator");
  for (const toml::node& item : *list) RIDGE_CHECK_OK(add(item));
  return ok_status();
}

// A table of lines NAME = { ... }, in the order of the file. `of` says what their names are made of.
struct NamedLine {
  std::string name;
  const toml::table* values;
};

Result<std::vector<NamedLine>> named_lines(BlockKeys& keys, std::string_view key,
                                           bool (*is_name)(std::string_view) = is_config_name,
                                           std::string_view of = "a-z, 0-9, _; at most 64") {
  const toml::node* node = keys.find(key);
  if (node == nullptr) return std::vector<NamedLine>();
  if (!node->is_table()) return keys.error_at(*node, fmt::format("\"{0}\" must be a table [{0}]", key));
  std::vector<NamedLine> lines;
  for (const auto& [name, item] : *node->as_table()) {
    const toml::table* values = item.as_table();
    const toml::source_region& at = item.source();
    if (values == nullptr || !values->is_inline() || at.begin.line != at.end.line) {
      return keys.error_at(item,
                           fmt::format("{} must be one line: {} = {{ NAME = VALUE, ... }}", name.str(), name.str()));
    }
    if (!is_name(name.str())) {
      return keys.error_at(item, fmt::format("\"{}\" is no name ({})", name.str(), of));
    }
    if (!lines.empty() && lines.back().values->source().begin.line == at.begin.line) {
      return keys.error_at(item, fmt::format("{} and {} stand on one line", lines.back().name, name.str()));
    }
    lines.push_back({std::string(name.str()), values});
  }
  std::ranges::sort(lines, {}, [](const NamedLine& line) { return line.values->source().begin.line; });
  return lines;
}

std::string known_tunables(const TuneSpace& space) {
  std::vector<std::string> names;
  for (const Tunable& tunable : space.tunables) names.push_back(tunable.name);
  return names.empty() ? "none: the source has no ridge-tunables" : fmt::format("{}", fmt::join(names, ", "));
}

Status read_value(BlockKeys& keys, const std::string& name, const toml::node& node, const TuneSpace& space,
                  KernelConfig& config) {
  const auto tunable = std::ranges::find(space.tunables, name, &Tunable::name);
  if (tunable == space.tunables.end()) {
    return keys.error_at(
        node, fmt::format("{}: {} is not a tunable; declared are {}", config.name, name, known_tunables(space)));
  }
  if (!node.is_integer()) return keys.error_at(node, fmt::format("{}: {} must be an integer", config.name, name));
  const std::int64_t value = **node.as_integer();
  if (std::ranges::find(tunable->values, value) == tunable->values.end()) {
    return keys.error_at(node, fmt::format("{}: {} = {} is not among its values: {}", config.name, name, value,
                                           fmt::join(tunable->values, ", ")));
  }
  config.values[name] = value;
  return ok_status();
}

Status check_constraints(const BlockKeys& keys, const KernelDescription& kernel, const KernelConfig& config) {
  const Variables values = kernel.complete(config.values);
  for (const Constraint& constraint : kernel.space.constraints) {
    const auto holds = evaluate_real(constraint.expression, values);
    if (!holds) return keys.error(keys.line(), fmt::format("{}: {}", config.name, holds.error().message));
    if (*holds != 0) continue;
    RIDGE_TRY(names, expression_variables(constraint.expression));
    std::vector<std::string> said;
    for (const std::string& name : names) said.push_back(fmt::format("{} = {}", name, values.at(name)));
    return keys.error(keys.line(), fmt::format("{}: {} violates \"{}\": {}", config.name, fmt::join(said, ", "),
                                               constraint.expression, constraint.reason));
  }
  return ok_status();
}

Status read_config(const NamedLine& line, const SourceBlock& block, KernelDescription& kernel) {
  BlockKeys keys(*line.values, block);
  KernelConfig config{.name = line.name, .line = keys.line()};
  RIDGE_CHECK_OK(keys.text(kPromotedKey, config.promoted, false));
  if (!is_plain(config.promoted)) {
    return keys.error(keys.line(),
                      fmt::format("{}: \"promoted\" must be at most 200 letters, digits and ._-+:,%()", config.name));
  }
  RIDGE_CHECK_OK(keys.text(kInstructionsKey, config.instructions, false));
  if (!config.instructions.empty() && config.instructions != "avx2" && config.instructions != "avx512") {
    return keys.error(keys.line(), fmt::format("{}: instructions \"{}\" are neither avx2 nor avx512", config.name,
                                               config.instructions));
  }
  if (const toml::node* model = keys.find(kModelKey)) {
    config.model = model->value<double>();
    if (!config.model || !(*config.model > 0)) return keys.error_at(*model, "\"model\" must be a number above 0");
  }
  for (const auto& [name, node] : *line.values) {
    if (name.str() == kPromotedKey || name.str() == kModelKey || name.str() == kInstructionsKey) continue;
    RIDGE_CHECK_OK(read_value(keys, std::string(name.str()), node, kernel.space, config));
  }
  RIDGE_CHECK_OK(check_constraints(keys, kernel, config));
  if (const KernelConfig* other = kernel.same(config.values)) {
    return keys.error(
        keys.line(), fmt::format("{} is the same configuration as {}, line {}", config.name, other->name, other->line));
  }
  kernel.configs.push_back(std::move(config));
  return ok_status();
}

Result<KernelVariant> read_variant(const NamedLine& line, const SourceBlock& block) {
  const BlockKeys keys(*line.values, block);
  KernelVariant variant{.name = line.name};
  for (const auto& [name, node] : *line.values) {
    const std::string key(name.str());
    if (key == "case") {
      if (!node.is_string()) return keys.error_at(node, line.name + ": \"case\" must be the text of a case");
      if (const auto problem = parse_case(**node.as_string()); !problem)
        return keys.error_at(node, line.name + ": " + problem.error().message);
      variant.problem = **node.as_string();
      continue;
    }
    if (key == "every") {
      if (!node.is_boolean()) return keys.error_at(node, line.name + ": \"every\" must be true or false");
      variant.every = **node.as_boolean();
      continue;
    }
    if (!is_macro_name(key)) return keys.error_at(node, fmt::format("\"{}\" is not a macro name (A-Z, 0-9, _)", key));
    if (node.is_integer())
      variant.defines[key] = std::to_string(**node.as_integer());
    else if (node.is_string())
      variant.defines[key] = **node.as_string();
    else
      return keys.error_at(node, fmt::format("{}: {} must be an integer or a string", line.name, key));
  }
  return variant;
}

Result<KernelDefine> read_define(const NamedLine& line, const SourceBlock& block) {
  BlockKeys keys(*line.values, block);
  KernelDefine define{.name = line.name};
  RIDGE_CHECK_OK(keys.text("value", define.value, true));
  if (const toml::node* names = keys.find("names")) {
    if (!names->is_array() || !names->as_array()->is_homogeneous(toml::node_type::string)) {
      return keys.error_at(*names, "\"names\" must be a list of strings");
    }
    for (const toml::node& name : *names->as_array()) define.names.push_back(**name.as_string());
  }
  RIDGE_CHECK_OK(keys.finish());
  if (const auto parsed = expression_variables(define.value); !parsed)
    return keys.error(keys.line(), fmt::format("{}: {}", define.name, parsed.error().message));
  return define;
}

Result<KernelOpcode> read_opcode(BlockKeys& keys) {
  KernelOpcode opcode;
  RIDGE_CHECK_OK(keys.text("opcode", opcode.opcode, true));
  RIDGE_CHECK_OK(keys.text("kernel", opcode.kernel, false));
  RIDGE_CHECK_OK(keys.text("when", opcode.when, false));
  RIDGE_CHECK_OK(keys.finish());
  if (const auto parsed = expression_variables(opcode.when); !parsed)
    return keys.error(keys.line(), fmt::format("{}: {}", opcode.opcode, parsed.error().message));
  return opcode;
}

Status read_opcodes(BlockKeys& keys, std::vector<KernelOpcode>& out) {
  const toml::node* node = keys.find("sass");
  if (node == nullptr) return ok_status();
  if (!node->is_array()) return keys.error_at(*node, "\"sass\" must be a list of tables");
  for (const toml::node& item : *node->as_array()) {
    if (!item.is_table()) return keys.error_at(item, "\"sass\" must be a list of tables");
    BlockKeys inner(*item.as_table(), keys.block());
    RIDGE_TRY(made, read_opcode(inner));
    out.push_back(std::move(made));
  }
  return ok_status();
}

Result<std::optional<KernelDescription>> read_description(const toml::table& root, const SourceBlock& block,
                                                          TuneSpace space) {
  BlockKeys keys(root, block);
  KernelDescription kernel{.space = std::move(space)};
  RIDGE_CHECK_OK(read_ops(keys, kernel.ops));
  RIDGE_CHECK_OK(keys.integer("max_registers", kernel.max_registers, false));
  RIDGE_CHECK_OK(keys.integer("rank", kernel.rank, false));
  RIDGE_CHECK_OK(read_opcodes(keys, kernel.sass));
  RIDGE_TRY(defines, named_lines(keys, "define", is_macro_name, "A-Z, 0-9, _"));
  RIDGE_TRY(configs, named_lines(keys, "configs"));
  RIDGE_TRY(variants, named_lines(keys, "variants"));
  RIDGE_CHECK_OK(keys.finish());
  if (configs.empty())
    return keys.error(keys.line(), "[configs] holds no configuration; the smallest is default = { }");
  for (const NamedLine& line : configs) RIDGE_CHECK_OK(read_config(line, block, kernel));
  for (const NamedLine& line : defines) {
    RIDGE_TRY(define, read_define(line, block));
    kernel.defines.push_back(std::move(define));
  }
  for (const NamedLine& line : variants) {
    RIDGE_TRY(variant, read_variant(line, block));
    kernel.variants.push_back(std::move(variant));
  }
  return std::optional(std::move(kernel));
}

// Where line `number` of a text begins, and where the next one does.
std::pair<std::size_t, std::size_t> line_span(std::string_view text, std::size_t number) {
  std::size_t begin = 0;
  for (std::size_t line = 1; line < number; ++line) begin = text.find('\n', begin) + 1;
  const std::size_t end = text.find('\n', begin);
  return {begin, end == std::string_view::npos ? text.size() : end + 1};
}

std::string config_line(const KernelConfig& config) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : config.values) entries.push_back(fmt::format("{} = {}", name, value));
  if (config.model) entries.push_back(fmt::format("{} = {}", kModelKey, *config.model));
  if (!config.instructions.empty())
    entries.push_back(fmt::format("{} = \"{}\"", kInstructionsKey, config.instructions));
  if (!config.promoted.empty()) entries.push_back(fmt::format("{} = \"{}\"", kPromotedKey, config.promoted));
  return entries.empty() ? fmt::format("{} = {{ }}\n", config.name)
                         : fmt::format("{} = {{ {} }}\n", config.name, fmt::join(entries, ", "));
}

}  // namespace

const KernelConfig* KernelDescription::find(std::string_view name) const {
  const auto found = std::ranges::find(configs, name, &KernelConfig::name);
  return found == configs.end() ? nullptr : &*found;
}

const KernelConfig* KernelDescription::same(const std::map<std::string, std::int64_t>& values) const {
  const auto whole = complete(values);
  const auto found =
      std::ranges::find_if(configs, [&](const KernelConfig& config) { return complete(config.values) == whole; });
  return found == configs.end() ? nullptr : &*found;
}

std::map<std::string, std::int64_t> KernelDescription::complete(
    const std::map<std::string, std::int64_t>& values) const {
  std::map<std::string, std::int64_t> whole = values;
  for (const Tunable& tunable : space.tunables) whole.emplace(tunable.name, tunable.default_value);
  return whole;
}

Result<std::optional<KernelDescription>> parse_kernel(std::string_view source) {
  RIDGE_TRY(found, find_block(source, kKernelMarker));
  if (!found) return std::optional<KernelDescription>();
  RIDGE_TRY(space, parse_tunables(source));
  try {
    const toml::table root = toml::parse(found->text);
    RIDGE_TRY(kernel, read_description(root, *found, std::move(space)));
    RIDGE_TRY(plan, parse_launch_plan(source));
    kernel->plan = std::move(plan);
    return kernel;
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;
    return block_error(kKernelMarker, found->line + line - 1, toml_problem(found->text, line, failure.description()));
  }
}

Result<std::string> text_without_configs(std::string_view source) {
  RIDGE_TRY(kernel, parse_kernel(source));
  std::string text(source);
  if (!kernel) return text;
  for (auto config = kernel->configs.rbegin(); config != kernel->configs.rend(); ++config) {
    const auto [begin, end] = line_span(text, config->line);
    text.erase(begin, end - begin);
  }
  return text;
}

bool has_instructions(std::string_view instructions, const std::vector<std::string>& features) {
  const auto has = [&](std::string_view name) { return std::ranges::find(features, name) != features.end(); };
  if (instructions == "avx512") return has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  if (instructions == "avx2") return has("avx2") && has("fma") && has("f16c");
  return instructions.empty();
}

std::string most_instructions(const std::vector<std::string>& features) {
  for (const char* instructions : {"avx512", "avx2"}) {
    if (has_instructions(instructions, features)) return instructions;
  }
  return {};
}

std::string configurations_version(const KernelDescription& kernel) {
  const bool any = std::ranges::any_of(kernel.configs, [](const auto& config) { return config.model.has_value(); });
  std::string builds;
  for (const KernelConfig& config : kernel.configs) {
    if (any && !config.model) continue;
    builds += config.name;
    for (const auto& [name, value] : kernel.complete(config.values)) builds += fmt::format(" {}={}", name, value);
    builds += '\n';
  }
  return "configurations " + sha256(builds).substr(0, 8);
}

Result<std::string> kernel_version(std::string_view source) {
  RIDGE_TRY(kernel, parse_kernel(source));
  if (kernel && kernel->plan) return configurations_version(*kernel);
  RIDGE_TRY(text, text_without_configs(source));
  return "source " + sha256(text).substr(0, 12);
}

Result<std::string> text_with_config(std::string_view source, const KernelConfig& config) {
  RIDGE_TRY(kernel, parse_kernel(source));
  if (!kernel) return invalid("the source has no {} comment that a configuration could be added to", kKernelMarker);
  if (const KernelConfig* other = kernel->find(config.name)) {
    return invalid("{} is already the name of a configuration, line {}", config.name, other->line);
  }
  std::string text(source);
  text.insert(line_span(text, kernel->configs.back().line).second, config_line(config));
  RIDGE_TRY(changed, parse_kernel(text));
  if (changed->configs.back().name != config.name || changed->configs.back().values != config.values) {
    return invalid("{} cannot be written into the source", config.name);
  }
  return text;
}

Result<std::string> text_with_promoted(std::string_view source, std::string_view config, std::string_view promoted) {
  RIDGE_TRY(kernel, parse_kernel(source));
  const KernelConfig* one = kernel ? kernel->find(config) : nullptr;
  if (one == nullptr) return invalid("there is no configuration {}", config);
  if (!one->promoted.empty()) return invalid("{} is promoted already: {}", config, one->promoted);
  std::string text(source);
  const auto [begin, end] = line_span(text, one->line);
  std::size_t last = text.find('}', begin);  // no value has one
  while (text[last - 1] == ' ') --last;
  text.insert(last, fmt::format("{} {} = \"{}\"", text[last - 1] == '{' ? "" : ",", kPromotedKey, promoted));
  RIDGE_TRY(changed, parse_kernel(text));
  const KernelConfig* after = changed->find(config);
  if (after == nullptr || after->promoted != promoted || after->values != one->values) {
    return invalid("\"{}\" cannot be written into the source", promoted);
  }
  return text;
}

Result<std::string> text_with_configs_of(std::string_view source, std::string_view other) {
  RIDGE_TRY(kernel, parse_kernel(source));
  RIDGE_TRY(theirs, parse_kernel(other));
  if (!kernel || !theirs)
    return invalid("the source has no {} comment that describes its configurations", kKernelMarker);
  RIDGE_TRY(text, text_without_configs(source));
  std::size_t at = line_span(text, kernel->configs.front().line).first;
  for (const KernelConfig& config : theirs->configs) {
    const auto [begin, end] = line_span(other, config.line);
    text.insert(at, other.substr(begin, end - begin));
    at += end - begin;
  }
  RIDGE_TRY(changed, parse_kernel(text));  // tunables of a changed source may refuse what the other's took
  return text;
}

}  // namespace ridge::record
