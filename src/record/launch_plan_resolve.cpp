// A launch plan and a case -> the numbers of every launch.
#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "base/error.h"
#include "record/expression.h"
#include "record/launch_plan.h"

namespace ridge::record {
namespace {

constexpr std::int64_t kMaxWorkspace = std::int64_t{1} << 40;
constexpr std::size_t kAddressBytes = 8, kTensorMapBytes = 128, kTensorMapAlignment = 128;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                       kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t element_bytes(const PlanOperand& operand) {
  return static_cast<std::int64_t>(size_bytes(operand.dtype, 1));
}

// From the first element to the end of the last.
std::int64_t bytes_spanned(const PlanOperand& operand) {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < operand.shape.size(); ++i) {
    if (operand.shape[i] == 0) return 0;
    last += (operand.shape[i] - 1) * operand.stride[i];
  }
  return (last + 1) * element_bytes(operand);
}

Variables variables_of(const PlanFacts& facts) {
  Variables variables = facts.values;
  for (const PlanOperand& operand : facts.operands) {
    variables[operand.name + "_bytes"] = element_bytes(operand);
    variables[operand.name + "_align"] = operand.alignment;
    for (std::size_t i = 0; i < operand.shape.size(); ++i) {
      variables[fmt::format("{}_shape{}", operand.name, i)] = operand.shape[i];
      variables[fmt::format("{}_stride{}", operand.name, i)] = operand.stride[i];
    }
  }
  return variables;
}

class Resolver {
 public:
  Resolver(const LaunchPlan& plan, const PlanFacts& facts, Variables variables)
      : plan_(plan), facts_(facts), variables_(std::move(variables)), reals_(facts.reals) {
    for (const PlanScalar& scalar : facts.scalars) reals_[scalar.name] = scalar.usual;
  }

  Result<ResolvedPlan> run() {
    RIDGE_CHECK_OK(check_needs());
    ResolvedPlan resolved;
    resolved.operand_count = facts_.operands.size();
    for (const PlanWorkspace& workspace : plan_.workspaces) {
      RIDGE_TRY(bytes, number("workspace " + workspace.name, "bytes", workspace.bytes, 0, kMaxWorkspace));
      resolved.workspaces.push_back({workspace.name, static_cast<std::uint64_t>(bytes), workspace.zero});
    }
    for (const PlanClear& clear : plan_.clears) RIDGE_CHECK_OK(add_clear(clear, resolved));
    for (const PlanKernel& kernel : plan_.kernels) RIDGE_CHECK_OK(add_kernel(kernel, resolved));
    resolved.scalars = facts_.scalars;
    resolved.formulas = std::move(formulas_);
    // Maps of a kernel that is not launched may have sizes no engine takes (k = 0), so only the used ones are computed.
    for (const PlanTensorMap& map : plan_.tensor_maps) {
      if (!used(map, resolved)) {
        resolved.tensor_maps.push_back({map.name});
        continue;
      }
      RIDGE_TRY(one, tensor_map(map));
      resolved.tensor_maps.push_back(std::move(one));
    }
    compact_maps(resolved);
    return resolved;
  }

 private:
  Status check_needs() const {
    RIDGE_TRY(needs, unmet(plan_, variables_, facts_.reals));
    if (needs == nullptr) return ok_status();
    return make_error(ErrorCode::kUnsupported, "the launch plan needs {}: {};{}", needs->expression, needs->reason,
                      named_numbers(needs->expression, variables_, facts_.reals));
  }

  Result<std::int64_t> number(const std::string& place, std::string_view field, const PlanNumber& text,
                              std::int64_t least, std::int64_t most) const {
    Result<std::int64_t> value = evaluate(text, variables_, facts_.reals);
    if (!value) return in_context(fmt::format("{}, {}", place, field), value.error());
    if (*value < least || *value > most) {
      return invalid("{}, {} = \"{}\" is {}; it must be {} to {}", place, field, text, *value, least, most);
    }
    return value;
  }

  Status sides(const std::string& place, std::string_view field, const std::vector<PlanNumber>& from,
               std::uint32_t (&to)[3], std::int64_t least) const {
    for (std::size_t i = 0; i < from.size(); ++i) {
      RIDGE_TRY(value, number(place, fmt::format("{}[{}]", field, i), from[i], least,
                              std::numeric_limits<std::int32_t>::max()));
      to[i] = static_cast<std::uint32_t>(value);
    }
    return ok_status();
  }

  Status add_clear(const PlanClear& clear, ResolvedPlan& resolved) const {
    const std::string place = "clear of " + clear.operand;
    RIDGE_TRY(when, number(place, "when", clear.when, kLeast, kMost));
    if (when == 0) return ok_status();
    RIDGE_TRY(index, operand_index(place, clear.operand));
    RIDGE_TRY(bytes, number(place, "bytes", clear.bytes, 0, bytes_spanned(facts_.operands[index])));
    resolved.clears.push_back({index, static_cast<std::uint64_t>(bytes)});
    return ok_status();
  }

  Status add_kernel(const PlanKernel& kernel, ResolvedPlan& resolved) {
    const std::string place = "kernel " + kernel.symbol;
    RIDGE_TRY(when, number(place, "when", kernel.when, kLeast, kMost));
    if (when == 0) return ok_status();
    ResolvedKernel one;
    one.symbol = kernel.symbol;
    one.list = kernel.list;
    one.overlap_previous = kernel.overlap_previous;
    RIDGE_CHECK_OK(sides(place, "grid", kernel.grid, one.grid, 0));
    if (one.grid[0] == 0 || one.grid[1] == 0 || one.grid[2] == 0) return ok_status();
    RIDGE_CHECK_OK(sides(place, "block", kernel.block, one.block, 1));
    RIDGE_CHECK_OK(sides(place, "cluster", kernel.cluster, one.cluster, 1));
    RIDGE_TRY(shared, number(place, "shared", kernel.shared, 0, std::numeric_limits<std::int32_t>::max()));
    one.shared_bytes = static_cast<std::uint32_t>(shared);
    RIDGE_TRY(persistent, number(place, "persistent", kernel.persistent, kLeast, kMost));
    one.persistent = persistent != 0;
    for (std::size_t i = 0; i < kernel.args.size(); ++i) {
      RIDGE_TRY(made, parameter(fmt::format("{}, args[{}]", place, i), kernel.args[i]));
      one.parameters.push_back(std::move(made));
    }
    resolved.kernels.push_back(std::move(one));
    return ok_status();
  }

  Result<ResolvedParameter> parameter(const std::string& place, const PlanArgument& argument) {
    ResolvedParameter made;
    const std::vector<PlanArgument> alone = {argument};
    for (const PlanArgument& member : argument.members.empty() ? alone : argument.members) {
      RIDGE_TRY(part, single(place, member));
      const std::size_t alignment = part.bytes == kTensorMapBytes ? kTensorMapAlignment : part.bytes;
      part.offset = (made.bytes + alignment - 1) / alignment * alignment;
      made.bytes = part.offset + part.bytes;
      made.alignment = std::max(made.alignment, alignment);
      made.parts.push_back(part);
    }
    made.bytes = (made.bytes + made.alignment - 1) / made.alignment * made.alignment;
    return made;
  }

  Result<ResolvedArgument> single(const std::string& place, const PlanArgument& argument) {
    using Kind = ResolvedArgument::Kind;
    if (!argument.operand.empty()) return operand(place, argument);
    if (!argument.workspace.empty()) {
      return ResolvedArgument{Kind::kWorkspace, position(plan_.workspaces, argument.workspace), 0, kAddressBytes, 0};
    }
    if (!argument.tensor_map.empty()) {
      const std::size_t index = position(plan_.tensor_maps, argument.tensor_map);
      const PlanTensorMap& map = plan_.tensor_maps[index];
      RIDGE_TRY(made, number("tensor map " + map.name, "when", map.when, kLeast, kMost));
      return ResolvedArgument{made != 0 ? Kind::kTensorMap : Kind::kZeros, index, 0, kTensorMapBytes, 0};
    }
    return value(place, argument);
  }

  Result<ResolvedArgument> operand(const std::string& place, const PlanArgument& argument) const {
    using Kind = ResolvedArgument::Kind;
    constexpr ResolvedArgument kNull{Kind::kZeros, 0, 0, kAddressBytes, 0};
    std::string name = argument.operand;
    if (!argument.when.empty()) {
      RIDGE_TRY(holds, number(place, "when", argument.when, kLeast, kMost));
      if (holds == 0) name = argument.otherwise;
      const auto known = [&](const PlanOperand& one) { return one.name == name; };
      if (holds == 0 && std::ranges::none_of(facts_.operands, known)) return kNull;
    }
    RIDGE_TRY(index, operand_index(place, name));
    return ResolvedArgument{Kind::kOperand, index, 0, kAddressBytes, 0};
  }

  Result<ResolvedArgument> value(const std::string& place, const PlanArgument& argument) {
    using Kind = ResolvedArgument::Kind;
    const bool wide = argument.type == "i64" || argument.type == "u64" || argument.type == "f64";
    if (!argument.when.empty()) {
      RIDGE_TRY(holds, number(place, "when", argument.when, kLeast, kMost));
      if (holds == 0) return ResolvedArgument{Kind::kZeros, 0, 0, wide ? std::size_t{8} : 4, 0};
    }
    if (argument.type == "f32" || argument.type == "f64") return real(place, argument);
    const bool is_signed = argument.type == "i32" || argument.type == "i64";
    const std::int64_t most = wide        ? std::numeric_limits<std::int64_t>::max()
                              : is_signed ? std::numeric_limits<std::int32_t>::max()
                                          : std::numeric_limits<std::uint32_t>::max();
    const std::int64_t least = !is_signed ? 0
                               : wide     ? std::numeric_limits<std::int64_t>::min()
                                          : std::numeric_limits<std::int32_t>::min();
    RIDGE_TRY(integer, number(place, argument.type, argument.value, least, most));
    return ResolvedArgument{Kind::kValue, 0, 0, wide ? std::size_t{8} : 4, static_cast<std::uint64_t>(integer)};
  }

  Result<ResolvedArgument> real(const std::string& place, const PlanArgument& argument) {
    using Kind = ResolvedArgument::Kind;
    Result<double> value = evaluate_real(argument.value, variables_, reals_);
    if (!value) return in_context(place, value.error());
    ResolvedArgument made{Kind::kValue, 0, 0, 8, std::bit_cast<std::uint64_t>(*value)};
    if (argument.type == "f32")
      made = {Kind::kValue, 0, 0, 4, std::bit_cast<std::uint32_t>(static_cast<float>(*value))};
    ResolvedFormula formula{argument.value, {}};
    RIDGE_TRY(names, expression_variables(argument.value));
    for (const std::string& name : names) {
      if (std::ranges::find(facts_.scalars, name, &PlanScalar::name) != facts_.scalars.end()) {
        made.kind = Kind::kFormula;
      } else {
        const auto known = reals_.find(name);
        formula.known[name] = known != reals_.end() ? known->second : static_cast<double>(variables_.at(name));
      }
    }
    if (made.kind == Kind::kValue) return made;
    made.index = formulas_.size();
    formulas_.push_back(std::move(formula));
    return made;
  }

  Result<std::size_t> operand_index(const std::string& place, const std::string& name) const {
    std::string known;
    for (std::size_t i = 0; i < facts_.operands.size(); ++i) {
      if (facts_.operands[i].name == name) return i;
      known += (known.empty() ? "" : ", ") + facts_.operands[i].name;
    }
    return with_hint(invalid("{}: the operator has no operand \"{}\"", place, name), "its operands: " + known);
  }

  Result<ResolvedTensorMap> tensor_map(const PlanTensorMap& map) const {
    constexpr std::int64_t kMaxSize = std::int64_t{1} << 32;
    const std::string place = "tensor map " + map.name;
    ResolvedTensorMap one;
    one.name = map.name;
    one.in_workspace = !map.workspace.empty();
    if (one.in_workspace) {
      one.index = position(plan_.workspaces, map.workspace);
    } else {
      RIDGE_TRY(index, operand_index(place, map.operand));
      one.index = index;
      one.dtype = facts_.operands[index].dtype;
    }
    if (!map.dtype.empty()) {
      RIDGE_TRY(dtype, parse_dtype(map.dtype));
      one.dtype = dtype;
    }
    for (std::size_t i = 0; i < map.sizes.size(); ++i) {
      RIDGE_TRY(size, number(place, fmt::format("sizes[{}]", i), map.sizes[i], 1, kMaxSize));
      one.sizes.push_back(static_cast<std::uint64_t>(size));
      RIDGE_TRY(box, number(place, fmt::format("box[{}]", i), map.box[i], 1, 256));
      one.box.push_back(static_cast<std::uint32_t>(box));
      const PlanNumber& text = map.element_strides.empty() ? kOne : map.element_strides[i];
      RIDGE_TRY(step, number(place, fmt::format("element_strides[{}]", i), text, 1, 8));
      one.element_strides.push_back(static_cast<std::uint32_t>(step));
    }
    std::uint64_t end = size_bytes(one.dtype, 1) * one.sizes[0];  // of the dimension before
    for (std::size_t i = 0; i < map.strides.size(); ++i) {
      if (one.sizes[i + 1] == 1) {  // its stride is never used, but the engine checks it
        one.strides_bytes.push_back(end = (end + 15) / 16 * 16);
        continue;
      }
      RIDGE_TRY(stride, number(place, fmt::format("strides[{}]", i), map.strides[i], 16, (std::int64_t{1} << 40) - 16));
      if (stride % 16 != 0) {
        return with_hint(invalid("{}, strides[{}] = \"{}\" is {} bytes; the copy engine wants multiples of 16", place,
                                 i, map.strides[i], stride),
                         "exclude such cases with [[needs]]");
      }
      one.strides_bytes.push_back(static_cast<std::uint64_t>(stride));
      end = one.sizes[i + 1] * one.strides_bytes[i];
    }
    one.swizzle_bytes = static_cast<int>(map.swizzle);
    RIDGE_TRY(promotion, number(place, "l2_promotion", map.l2_promotion, 0, 256));
    if (promotion != 0 && promotion != 64 && promotion != 128 && promotion != 256) {
      return invalid("{}, l2_promotion = \"{}\" is {}; it must be 0, 64, 128 or 256", place, map.l2_promotion,
                     promotion);
    }
    one.l2_promotion_bytes = static_cast<int>(promotion);
    one.fill_nan = map.fill == "nan";
    return one;
  }

  [[nodiscard]] bool used(const PlanTensorMap& map, const ResolvedPlan& resolved) const {
    const std::size_t index = position(plan_.tensor_maps, map.name);
    for (const ResolvedKernel& kernel : resolved.kernels) {
      for (const ResolvedParameter& parameter : kernel.parameters) {
        for (const ResolvedArgument& part : parameter.parts) {
          if (part.kind == ResolvedArgument::Kind::kTensorMap && part.index == index) return true;
        }
      }
    }
    return false;
  }

  // Drops the maps that nothing uses; arguments keep pointing at theirs.
  static void compact_maps(ResolvedPlan& resolved) {
    std::vector<std::size_t> moved(resolved.tensor_maps.size());
    std::vector<ResolvedTensorMap> kept;
    for (std::size_t i = 0; i < resolved.tensor_maps.size(); ++i) {
      moved[i] = kept.size();
      if (!resolved.tensor_maps[i].sizes.empty()) kept.push_back(std::move(resolved.tensor_maps[i]));
    }
    resolved.tensor_maps = std::move(kept);
    for (ResolvedKernel& kernel : resolved.kernels) {
      for (ResolvedParameter& parameter : kernel.parameters) {
        for (ResolvedArgument& part : parameter.parts) {
          if (part.kind == ResolvedArgument::Kind::kTensorMap) part.index = moved[part.index];
        }
      }
    }
  }

  // Names were checked when the plan was read.
  template <class Items>
  static std::size_t position(const Items& items, const std::string& name) {
    const auto found = std::ranges::find_if(items, [&](const auto& item) { return item.name == name; });
    return static_cast<std::size_t>(found - items.begin());
  }

  static inline const PlanNumber kOne = "1";
  const LaunchPlan& plan_;
  const PlanFacts& facts_;
  Variables variables_;
  Reals reals_;  // with the usual scalars
  std::vector<ResolvedFormula> formulas_;
};

}  // namespace

Result<Variables> plan_variables(const LaunchPlan& plan, const PlanFacts& facts) {
  Variables variables = variables_of(facts);
  for (const PlanValue& value : plan.values) {
    if (!variables.contains(value.name)) continue;
    return with_hint(invalid("value {}: the case has a number of that name", value.name), "give it another name");
  }
  RIDGE_CHECK_OK(set_values(plan, variables, facts.reals));
  return variables;
}

Status set_values(const LaunchPlan& plan, Variables& variables, const std::map<std::string, double>& reals) {
  for (const PlanValue& value : plan.values) {
    Result<std::int64_t> number = evaluate(value.expression, variables, reals);
    if (!number) return in_context("value " + value.name, number.error());
    variables[value.name] = *number;
  }
  return ok_status();
}

std::string named_numbers(const std::string& expression, const Variables& variables,
                          const std::map<std::string, double>& reals) {
  std::string numbers;
  const auto names = expression_variables(expression);
  if (!names) return numbers;
  for (const std::string& name : *names) {
    if (const auto real = reals.find(name); real != reals.end()) {
      numbers += fmt::format(" {}={}", name, real->second);
    } else if (const auto whole = variables.find(name); whole != variables.end()) {
      numbers += fmt::format(" {}={}", name, whole->second);
    }
  }
  return numbers;
}

namespace {

// Expressions of a plan with the numbers of a case in them.
class Inlined {
 public:
  Inlined(const LaunchPlan& plan, const PlanFacts& facts, const TuneSpace& space) {
    for (const auto& [name, value] : variables_of(facts)) meanings_[name] = std::to_string(value);
    for (const auto& [name, value] : facts.reals) meanings_[name] = fmt::format("{:.17g}", value);
    for (const PlanScalar& scalar : facts.scalars) meanings_[scalar.name] = fmt::format("{:.17g}", scalar.usual);
    for (const Tunable& tunable : space.tunables) {
      meanings_.erase(tunable.name);
      open_.insert(tunable.name);
    }
    for (const PlanValue& value : plan.values) {
      const std::optional<std::string> text = of(value.expression);
      if (!text) continue;
      if (names_tunable(value.expression)) open_.insert(value.name);
      meanings_[value.name] = *text;
    }
  }

  [[nodiscard]] bool names_tunable(const std::string& expression) const {
    const auto names = expression_variables(expression);
    return names && std::ranges::any_of(*names, [&](const std::string& name) { return open_.contains(name); });
  }
  // Nothing where it names what is not known.
  [[nodiscard]] std::optional<std::string> of(const std::string& expression) const {
    const auto names = expression_variables(expression);
    const auto known = [&](const std::string& name) { return meanings_.contains(name) || open_.contains(name); };
    if (!names || !std::ranges::all_of(*names, known)) return std::nullopt;
    return with_meanings(expression, [&](const std::string& name) {
      const auto meaning = meanings_.find(name);
      return meaning == meanings_.end() ? std::string() : meaning->second;
    });
  }

 private:
  std::map<std::string, std::string> meanings_;
  std::set<std::string> open_;  // tunables, and values that follow from them
};

}  // namespace

std::vector<Constraint> needs_of_tunables(const LaunchPlan& plan, const PlanFacts& facts, const TuneSpace& space) {
  const Inlined inlined(plan, facts, space);
  std::vector<Constraint> found;
  for (const Constraint& needs : plan.needs) {
    if (!inlined.names_tunable(needs.expression)) continue;
    if (auto text = inlined.of(needs.expression)) found.push_back({*std::move(text), needs.reason});
  }
  return found;
}

Result<const Constraint*> unmet(const LaunchPlan& plan, const Variables& variables,
                                const std::map<std::string, double>& reals) {
  for (const Constraint& needs : plan.needs) {
    RIDGE_TRY(holds, evaluate(needs.expression, variables, reals));
    if (holds == 0) return &needs;
  }
  return static_cast<const Constraint*>(nullptr);
}

Result<ResolvedPlan> resolve(const LaunchPlan& plan, const PlanFacts& facts) {
  RIDGE_TRY(variables, plan_variables(plan, facts));
  return Resolver(plan, facts, std::move(variables)).run();
}

}  // namespace ridge::record
