// Reading a launch plan out of a source. What its expressions come to: launch_plan_resolve.cpp.
#include "record/launch_plan.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/malformed.h"
#include "record/expression.h"
#include "record/source_block.h"
#include "record/tunables.h"

namespace ridge::record {
namespace {

constexpr std::string_view kLaunchMarker = "ridge-launch";
constexpr std::array<std::string_view, 6> kNumberTypes = {"i32", "u32", "i64", "u64", "f32", "f64"};
constexpr std::array<std::string_view, 7> kTables = {"struct",     "kernel", "workspace", "clear",
                                                     "tensor_map", "value",  "needs"};
constexpr std::string_view kArgumentForms =
    "{ operand = \"a\" } (with when = \"...\" and else = \"b\" if that is needed), { workspace = \"w\" }, { tensor_map "
    "= \"t\" }, { i32 = \"m\" } (or u32, i64, u64, f32, f64; with when = \"...\" if that is needed), "
    "{ struct = [...] }, or { struct = \"s\" }";

// A number of the plan: an integer, or a string that is an expression.
Result<PlanNumber> read_number(const BlockKeys& keys, const toml::node& node, std::string_view field) {
  if (node.is_integer()) return std::to_string(**node.as_integer());
  if (node.is_floating_point()) return fmt::format("{}", **node.as_floating_point());
  if (!node.is_string()) {
    return keys.error_at(node, fmt::format("\"{}\" must be an integer or an expression in quotes", field));
  }
  std::string text = **node.as_string();
  if (auto parsed = expression_variables(text); !parsed) {
    return keys.error_at(node, fmt::format("\"{}\": {}", field, parsed.error().message));
  }
  return text;
}

Status number(BlockKeys& keys, std::string_view key, PlanNumber& out, bool required) {
  const toml::node* node = keys.find(key);
  if (node == nullptr) return required ? Status(keys.missing(key)) : ok_status();
  RIDGE_TRY(value, read_number(keys, *node, key));
  out = std::move(value);
  return ok_status();
}

// A list of numbers, or one alone.
Status numbers(BlockKeys& keys, std::string_view key, std::vector<PlanNumber>& out, bool required, std::size_t most) {
  const toml::node* node = keys.find(key);
  if (node == nullptr) return required ? Status(keys.missing(key)) : ok_status();
  const toml::array* array = node->as_array();
  if (array == nullptr) {
    RIDGE_TRY(value, read_number(keys, *node, key));
    out.push_back(std::move(value));
    return ok_status();
  }
  if (array->size() > most || (required && array->empty())) {
    return keys.error_at(
        *node, fmt::format("\"{}\" has {} entries; {} to {} are possible", key, array->size(), required ? 1 : 0, most));
  }
  for (const toml::node& item : *array) {
    RIDGE_TRY(value, read_number(keys, item, key));
    out.push_back(std::move(value));
  }
  return ok_status();
}

Status choice(BlockKeys& keys, std::string_view key, std::int64_t& out, std::initializer_list<std::int64_t> allowed) {
  RIDGE_CHECK_OK(keys.integer(key, out, false));
  if (std::ranges::find(allowed, out) != allowed.end()) return ok_status();
  return keys.error(keys.line(), fmt::format("\"{}\" is {}; it must be one of {}", key, out, fmt::join(allowed, ", ")));
}

// The members of each [[struct]].
using Structs = std::map<std::string, std::vector<PlanArgument>>;

// `structs` is null inside a struct.
Result<PlanArgument> read_argument(const SourceBlock& block, const toml::node& node, const Structs* structs);

Result<std::vector<PlanArgument>> read_arguments(BlockKeys& keys, const toml::node* node, std::string_view key,
                                                 const Structs* structs) {
  std::vector<PlanArgument> arguments;
  if (node == nullptr) return arguments;
  const toml::array* array = node->as_array();
  if (array == nullptr) return keys.error_at(*node, fmt::format("\"{}\" must be a list", key));
  for (const toml::node& item : *array) {
    RIDGE_TRY(argument, read_argument(keys.block(), item, structs));
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

Result<std::vector<PlanArgument>> read_members(BlockKeys& keys, const Structs& structs) {
  const toml::node* node = keys.find("struct");
  if (node == nullptr || !node->is_string()) return read_arguments(keys, node, "struct", nullptr);
  const auto found = structs.find(**node->as_string());
  if (found != structs.end()) return found->second;
  return keys.error_at(*node, fmt::format("no [[struct]] is called \"{}\"", **node->as_string()));
}

Result<PlanArgument> read_argument(const SourceBlock& block, const toml::node& node, const Structs* structs) {
  const toml::table* table = node.as_table();
  const std::size_t line = block.line + node.source().begin.line - 1;
  const bool is_operand = table != nullptr && table->contains("operand");
  const bool is_number =
      table != nullptr && std::ranges::any_of(kNumberTypes, [&](auto type) { return table->contains(type); });
  const bool conditional = (is_operand || is_number) && table->contains("when");
  const std::size_t keys_allowed = !conditional ? 1 : is_operand && table->contains("else") ? 3 : 2;
  if (table == nullptr || table->size() != keys_allowed) {
    return block_error(kLaunchMarker, line, fmt::format("an argument is one of {}", kArgumentForms));
  }
  BlockKeys keys(*table, block);
  PlanArgument argument;
  RIDGE_CHECK_OK(keys.text("operand", argument.operand, false));
  if (conditional) {
    RIDGE_CHECK_OK(number(keys, "when", argument.when, true));
    if (is_operand) RIDGE_CHECK_OK(keys.text("else", argument.otherwise, false));
  }
  RIDGE_CHECK_OK(keys.text("workspace", argument.workspace, false));
  if (structs != nullptr) {
    RIDGE_CHECK_OK(keys.text("tensor_map", argument.tensor_map, false));
    RIDGE_TRY(members, read_members(keys, *structs));
    argument.members = std::move(members);
  }
  for (const std::string_view type : kNumberTypes) {
    if (!table->contains(type)) continue;
    argument.type = type;
    RIDGE_CHECK_OK(number(keys, type, argument.value, true));
  }
  if (!keys.finish()) {
    return block_error(
        kLaunchMarker, line,
        fmt::format("\"{}\" is no kind of argument{}; an argument is one of {}", table->begin()->first.str(),
                    structs == nullptr ? " inside a struct" : "", kArgumentForms));
  }
  return argument;
}

Result<PlanWorkspace> read_workspace(BlockKeys& keys) {
  PlanWorkspace workspace;
  RIDGE_CHECK_OK(keys.text("name", workspace.name, true));
  RIDGE_CHECK_OK(number(keys, "bytes", workspace.bytes, true));
  RIDGE_CHECK_OK(keys.boolean("zero", workspace.zero));
  RIDGE_CHECK_OK(keys.finish());
  return workspace;
}

Result<PlanClear> read_clear(BlockKeys& keys) {
  PlanClear clear;
  RIDGE_CHECK_OK(keys.text("operand", clear.operand, true));
  RIDGE_CHECK_OK(number(keys, "bytes", clear.bytes, true));
  RIDGE_CHECK_OK(number(keys, "when", clear.when, false));
  RIDGE_CHECK_OK(keys.finish());
  return clear;
}

Result<PlanTensorMap> read_tensor_map(BlockKeys& keys) {
  PlanTensorMap map;
  RIDGE_CHECK_OK(keys.text("name", map.name, true));
  RIDGE_CHECK_OK(keys.text("operand", map.operand, false));
  RIDGE_CHECK_OK(keys.text("workspace", map.workspace, false));
  RIDGE_CHECK_OK(keys.text("dtype", map.dtype, false));
  RIDGE_CHECK_OK(numbers(keys, "sizes", map.sizes, true, 5));
  RIDGE_CHECK_OK(numbers(keys, "strides", map.strides, false, 4));
  RIDGE_CHECK_OK(numbers(keys, "box", map.box, true, 5));
  RIDGE_CHECK_OK(numbers(keys, "element_strides", map.element_strides, false, 5));
  RIDGE_CHECK_OK(choice(keys, "swizzle", map.swizzle, {0, 32, 64, 128}));
  RIDGE_CHECK_OK(number(keys, "l2_promotion", map.l2_promotion, false));
  RIDGE_CHECK_OK(keys.text("fill", map.fill, false));
  RIDGE_CHECK_OK(number(keys, "when", map.when, false));
  RIDGE_CHECK_OK(keys.finish());
  const auto wrong = [&](std::string what) { return keys.error(keys.line(), map.name + ": " + std::move(what)); };
  if (map.operand.empty() == map.workspace.empty()) return wrong("give either \"operand\" or \"workspace\"");
  if (!map.workspace.empty() && map.dtype.empty()) return wrong("a map over a workspace needs \"dtype\"");
  if (!map.dtype.empty() && !parse_dtype(map.dtype)) return wrong(parse_dtype(map.dtype).error().message);
  if (map.strides.size() + 1 != map.sizes.size() || map.box.size() != map.sizes.size() ||
      (!map.element_strides.empty() && map.element_strides.size() != map.sizes.size())) {
    return wrong(fmt::format("{} sizes need {} strides and {} box sides, not {} and {}", map.sizes.size(),
                             map.sizes.size() - 1, map.sizes.size(), map.strides.size(), map.box.size()));
  }
  if (map.fill != "zero" && map.fill != "nan")
    return wrong(fmt::format("fill \"{}\" is neither zero nor nan", map.fill));
  return map;
}

Result<PlanKernel> read_kernel(BlockKeys& keys, const Structs& structs) {
  PlanKernel kernel;
  RIDGE_CHECK_OK(keys.text("symbol", kernel.symbol, true));
  RIDGE_CHECK_OK(keys.text("list", kernel.list, false));
  RIDGE_CHECK_OK(numbers(keys, "grid", kernel.grid, true, 3));
  RIDGE_CHECK_OK(numbers(keys, "block", kernel.block, true, 3));
  RIDGE_CHECK_OK(numbers(keys, "cluster", kernel.cluster, false, 3));
  RIDGE_CHECK_OK(number(keys, "shared", kernel.shared, false));
  RIDGE_CHECK_OK(number(keys, "when", kernel.when, false));
  RIDGE_CHECK_OK(keys.boolean("overlap_previous", kernel.overlap_previous));
  RIDGE_CHECK_OK(number(keys, "persistent", kernel.persistent, false));
  RIDGE_TRY(arguments, read_arguments(keys, keys.find("args"), "args", &structs));
  kernel.args = std::move(arguments);
  RIDGE_CHECK_OK(keys.finish());
  if (kernel.symbol.empty()) return keys.error(keys.line(), "\"symbol\" is empty");
  return kernel;
}

Result<PlanValue> read_value(BlockKeys& keys) {
  PlanValue value;
  RIDGE_CHECK_OK(keys.text("name", value.name, true));
  RIDGE_CHECK_OK(number(keys, "expression", value.expression, true));
  RIDGE_CHECK_OK(keys.finish());
  return value;
}

Result<Constraint> read_needs(BlockKeys& keys) {
  Constraint needs;
  RIDGE_CHECK_OK(number(keys, "expression", needs.expression, true));
  RIDGE_CHECK_OK(keys.text("reason", needs.reason, true));
  RIDGE_CHECK_OK(keys.finish());
  return needs;
}

Status read_table(LaunchPlan& plan, Structs& structs, std::string_view kind, BlockKeys& keys) {
  if (kind == "struct") {
    std::string name;
    RIDGE_CHECK_OK(keys.text("name", name, true));
    RIDGE_TRY(members, read_arguments(keys, keys.find("members"), "members", nullptr));
    RIDGE_CHECK_OK(keys.finish());
    if (members.empty()) return keys.missing("members");
    if (!structs.emplace(name, std::move(members)).second) {
      return keys.error(keys.line(), fmt::format("struct \"{}\" is declared twice", name));
    }
  } else if (kind == "kernel") {
    RIDGE_TRY(kernel, read_kernel(keys, structs));
    plan.kernels.push_back(std::move(kernel));
  } else if (kind == "workspace") {
    RIDGE_TRY(workspace, read_workspace(keys));
    plan.workspaces.push_back(std::move(workspace));
  } else if (kind == "clear") {
    RIDGE_TRY(clear, read_clear(keys));
    plan.clears.push_back(std::move(clear));
  } else if (kind == "tensor_map") {
    RIDGE_TRY(map, read_tensor_map(keys));
    plan.tensor_maps.push_back(std::move(map));
  } else if (kind == "value") {
    RIDGE_TRY(value, read_value(keys));
    plan.values.push_back(std::move(value));
  } else {
    RIDGE_TRY(needs, read_needs(keys));
    plan.needs.push_back(std::move(needs));
  }
  return ok_status();
}

template <class Items>
bool has_name(const Items& items, const std::string& name) {
  return std::ranges::any_of(items, [&](const auto& item) { return item.name == name; });
}

Status check_argument(const LaunchPlan& plan, const PlanKernel& kernel, const PlanArgument& argument,
                      std::size_t line) {
  for (const PlanArgument& member : argument.members) RIDGE_CHECK_OK(check_argument(plan, kernel, member, line));
  const auto undeclared = [&](std::string_view kind, const std::string& name) {
    return block_error(kLaunchMarker, line,
                       fmt::format("kernel {}: no [[{}]] is called \"{}\"", kernel.symbol, kind, name));
  };
  if (!argument.workspace.empty() && !has_name(plan.workspaces, argument.workspace)) {
    return undeclared("workspace", argument.workspace);
  }
  if (!argument.tensor_map.empty() && !has_name(plan.tensor_maps, argument.tensor_map)) {
    return undeclared("tensor_map", argument.tensor_map);
  }
  return ok_status();
}

// A list is launched with nothing but the arguments of its calls, and its blocks are those of the calls in a row.
Status check_list(const LaunchPlan& plan, const PlanKernel& kernel, std::size_t line) {
  if (kernel.list.empty()) return ok_status();
  const bool alone =
      plan.kernels.size() == 1 && plan.workspaces.empty() && plan.clears.empty() && plan.tensor_maps.empty();
  if (alone && kernel.args.size() == 1 && kernel.grid.size() == 1 && kernel.cluster.empty()) return ok_status();
  return block_error(
      kLaunchMarker, line,
      fmt::format("kernel {}: list = \"{}\" is for a plan of one kernel with one argument, a grid of one "
                  "dimension and no clusters, without workspaces, clears and tensor maps",
                  kernel.symbol, kernel.list));
}

// What can be known without a case: names declared once, and used names declared.
Status check_names(const LaunchPlan& plan, std::size_t line) {
  std::set<std::string> names;
  for (const PlanWorkspace& workspace : plan.workspaces) {
    if (!names.insert(workspace.name).second) {
      return block_error(kLaunchMarker, line, fmt::format("workspace \"{}\" is declared twice", workspace.name));
    }
  }
  names.clear();
  for (const PlanValue& value : plan.values) {
    if (!names.insert(value.name).second) {
      return block_error(kLaunchMarker, line, fmt::format("value \"{}\" is declared twice", value.name));
    }
  }
  names.clear();
  for (const PlanTensorMap& map : plan.tensor_maps) {
    if (!names.insert(map.name).second) {
      return block_error(kLaunchMarker, line, fmt::format("tensor map \"{}\" is declared twice", map.name));
    }
    if (!map.workspace.empty() && !has_name(plan.workspaces, map.workspace)) {
      return block_error(kLaunchMarker, line,
                         fmt::format("{}: no [[workspace]] is called \"{}\"", map.name, map.workspace));
    }
  }
  for (const PlanKernel& kernel : plan.kernels) {
    for (const PlanArgument& argument : kernel.args) RIDGE_CHECK_OK(check_argument(plan, kernel, argument, line));
    RIDGE_CHECK_OK(check_list(plan, kernel, line));
  }
  return ok_status();
}

Result<LaunchPlan> read_plan(const toml::table& root, const SourceBlock& block) {
  LaunchPlan plan;
  Structs structs;
  for (const auto& [key, node] : root) {
    if (std::ranges::find(kTables, key.str()) != kTables.end() && node.is_array()) continue;
    return block_error(kLaunchMarker, block.line + node.source().begin.line - 1,
                       fmt::format("\"{}\" is none of [[{}]]", key.str(), fmt::join(kTables, "]], [[")));
  }
  for (const std::string_view kind : kTables) {
    const toml::array* tables = root[kind].as_array();
    for (std::size_t i = 0; tables != nullptr && i < tables->size(); ++i) {
      const toml::node& item = (*tables)[i];
      if (!item.is_table())
        return block_error(kLaunchMarker, block.line + item.source().begin.line - 1,
                           fmt::format("\"{}\" must be written as [[{}]]", kind, kind));
      BlockKeys keys(*item.as_table(), block);
      RIDGE_CHECK_OK(read_table(plan, structs, kind, keys));
    }
  }
  RIDGE_CHECK_OK(check_names(plan, block.line));
  return plan;
}

}  // namespace

Result<std::optional<LaunchPlan>> parse_launch_plan(std::string_view source) {
  RIDGE_TRY(block, find_block(source, kLaunchMarker));
  if (!block) return std::optional<LaunchPlan>();
  try {
    RIDGE_TRY(plan, read_plan(toml::parse(block->text), *block));
    return std::optional<LaunchPlan>(std::move(plan));
  } catch (const toml::parse_error& failure) {
    const auto line = failure.source().begin.line;
    return block_error(kLaunchMarker, block->line + line - 1, toml_problem(block->text, line, failure.description()));
  }
}

Result<LaunchPlan> launch_plan(const Candidate& candidate) {
  if (candidate.sources.empty()) return invalid("candidate \"{}\" has no source", candidate.name);
  LaunchPlan whole;
  for (const SourceFile& source : candidate.sources) {
    Result<std::optional<LaunchPlan>> found = parse_launch_plan(source.text);
    if (!found) return in_context(source.path, found.error());
    if (!*found) continue;
    const auto add = [](auto& to, auto& from) {
      to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    LaunchPlan& plan = **found;
    add(whole.values, plan.values);
    add(whole.needs, plan.needs);
    add(whole.workspaces, plan.workspaces);
    add(whole.clears, plan.clears);
    add(whole.tensor_maps, plan.tensor_maps);
    add(whole.kernels, plan.kernels);
  }
  const std::string& first = candidate.sources[0].path;
  if (whole.kernels.empty()) {
    return with_hint(invalid("{}: a CUDA candidate needs a launch plan, a comment /* ridge-launch ... */", first),
                     "the smallest: [[kernel]] with symbol = \"name\", grid = [1], block = [256], "
                     "args = [{ operand = \"a\" }]; see docs/candidates.md");
  }
  if (Status names = check_names(whole, 1); !names) return in_context(first, names.error());
  return whole;
}

Result<std::map<std::string, std::int64_t>> define_values(const Candidate& candidate) {
  std::map<std::string, std::int64_t> values = candidate.defines;
  RIDGE_TRY(space, tune_space(candidate));
  for (const Tunable& tunable : space.tunables) values.try_emplace(tunable.name, tunable.default_value);
  return values;
}

}  // namespace ridge::record
