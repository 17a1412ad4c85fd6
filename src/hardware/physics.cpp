#include "hardware/physics.h"

#include <cmath>

#include "base/error.h"

namespace ridge::hardware {
namespace {

// Sources round their clocks to what they print and their peaks to four digits or so; half_ulp of the facts covers
// that.
constexpr double kSlack = 0.002;

struct Equation {
  std::string_view rule, metric, formula;
};

constexpr Equation kEquations[] = {
    {"count", "vector_cores", "compute_units * vector_cores_per_unit"},
    {"count", "matrix_cores", "compute_units * matrix_cores_per_unit"},
    {"count", "compute_units", "dies * units_per_die"},
    {"count", "max_threads_per_unit", "max_warps_per_unit * warp_size"},
    {"count", "register_file_per_unit", "registers_per_unit * 4"},
    {"count", "memory_bus_width", "memory_channels * 64"},
    {"count", "vector_fp32_per_clock", "fma_units_per_unit * vector_width / 16"},
    {"count", "vector_fp64_per_clock", "fma_units_per_unit * vector_width / 32"},
    {"peak", "vector_fp32", "compute_units * vector_fp32_per_clock * boost_clock"},
    {"peak", "matrix_bf16", "compute_units * matrix_bf16_per_clock * matrix_clock"},
    {"peak", "matrix_fp16", "compute_units * matrix_bf16_per_clock * matrix_clock"},
    {"peak", "matrix_fp8", "compute_units * matrix_fp8_per_clock * matrix_clock"},
    {"sparse", "matrix_tf32_sparse", "matrix_tf32 * 2"},
    {"sparse", "matrix_fp16_sparse", "matrix_fp16 * 2"},
    {"sparse", "matrix_bf16_sparse", "matrix_bf16 * 2"},
    {"sparse", "matrix_fp8_sparse", "matrix_fp8 * 2"},
    {"sparse", "matrix_int8_sparse", "matrix_int8 * 2"},
    {"sparse", "matrix_fp4_sparse", "matrix_fp4 * 2"},
    {"ladder", "matrix_fp16", "matrix_bf16"},
    {"ladder", "matrix_tf32", "matrix_bf16 / 2"},
    {"ladder", "matrix_fp8", "matrix_bf16 * 2"},
    {"ladder", "matrix_int8", "matrix_fp8"},
    {"ladder", "matrix_int8", "matrix_fp16 * 2"},
    {"ladder", "matrix_fp4", "matrix_fp8 * 2"},
    {"ladder", "matrix_fp8_per_clock", "matrix_bf16_per_clock * 2"},
    {"bandwidth", "memory_bandwidth", "memory_bus_width * memory_data_rate / 8"},
};

// metric <= formula
constexpr Equation kBounds[] = {
    {"limit", "matrix_clock", "boost_clock"},
    {"limit", "vector_fp64", "vector_fp32"},
    {"limit", "vector_fp32", "matrix_bf16"},
    {"limit", "vector_fp32", "matrix_fp16"},
    {"limit", "max_threads_per_block", "max_threads_per_unit"},
    {"limit", "max_blocks_per_unit", "max_warps_per_unit"},
    {"limit", "memory_bandwidth", "l2_bandwidth"},
};

bool known(const Spec& spec, std::string_view metric) {
  const Fact* fact = spec.find(metric);
  return fact != nullptr && fact->state == State::kKnown;
}

bool compare(const Spec& spec, const Equation& equation, bool bound, std::vector<Violation>& violations) {
  if (!known(spec, equation.metric)) return false;
  double rounding = 0;
  const Result<double> expected = evaluate(spec, equation.formula, &rounding);
  if (!expected) return false;  // an input is unknown: nothing can be said
  const Quantity& stated = spec.find(equation.metric)->value;
  const bool holds = bound ? stated.value - stated.half_ulp <= *expected * (1 + kSlack + rounding)
                           : agree(stated, *expected, kSlack + rounding);
  if (!holds) {
    violations.push_back({std::string(equation.rule), std::string(equation.metric),
                          fmt::format("{} is {}, but {} gives {:.6g}{}", equation.metric, stated.text, equation.formula,
                                      *expected, bound ? " at most" : "")});
  }
  return true;
}

void check_ranges(const Spec& spec, std::vector<Violation>& violations) {
  for (const Fact& fact : spec.facts) {
    if (fact.state != State::kKnown) continue;
    if (fact.value.value < fact.metric->low || fact.value.value > fact.metric->high) {
      violations.push_back(
          {"range", std::string(fact.metric->name),
           fmt::format("{} is {}; products lie between {:.4g} and {:.4g} {}", fact.metric->name, fact.value.text,
                       fact.metric->low, fact.metric->high, to_string(fact.metric->dimension))});
    }
  }
}

void check_formulas(const Spec& spec, std::vector<Violation>& violations) {
  for (const Fact& fact : spec.facts) {
    if (fact.formula.empty()) continue;
    double rounding = 0;
    const Result<double> value = evaluate(spec, fact.formula, &rounding);
    if (!value) {
      violations.push_back({"formula", std::string(fact.metric->name),
                            fmt::format("{} = {}: {}", fact.metric->name, fact.formula, value.error().message)});
    } else if (!agree(fact.value, *value, kSlack + rounding)) {
      violations.push_back(
          {"formula", std::string(fact.metric->name),
           fmt::format("{} is {}, but {} gives {:.6g}", fact.metric->name, fact.value.text, fact.formula, *value)});
    }
  }
}

// One thread with all its registers, and one block with all its memory, must fit into a unit.
void check_unit(const Spec& spec, std::vector<Violation>& violations) {
  const double registers = spec.value_or("registers_per_unit", 0) / spec.value_or("schedulers_per_unit", 1);
  const double warp = spec.value_or("max_registers_per_thread", 0) * spec.value_or("warp_size", 0);
  if (registers > 0 && warp > registers) {
    violations.push_back(
        {"limit", "max_registers_per_thread",
         fmt::format("a warp with {:.0f} registers does not fit the {:.0f} of its scheduler", warp, registers)});
  }
  const double unit = spec.value_or("shared_memory_per_unit", 0), block = spec.value_or("shared_memory_per_block", 0);
  const double reserved = spec.value_or("shared_memory_reserved", 0);
  if (unit > 0 && block > 0 && block + reserved != unit) {
    violations.push_back({"limit", "shared_memory_per_block",
                          fmt::format("a block's {:.0f} B and the reserved {:.0f} B are not the unit's {:.0f} B", block,
                                      reserved, unit)});
  }
  const double l1 = spec.value_or("l1_cache", 0);
  if (spec.vendor == "NVIDIA" && l1 > 0 && unit > l1) {
    violations.push_back({"limit", "shared_memory_per_unit", "shared memory is larger than the array it is cut from"});
  }
  const double lanes = spec.value_or("vector_cores_per_unit", 0), rate = spec.value_or("vector_fp32_per_clock", 0);
  if (spec.is_gpu() && lanes > 0 && rate > 0 && rate != 2 * lanes && rate != 4 * lanes) {
    violations.push_back(
        {"count", "vector_fp32_per_clock",
         fmt::format("{:.0f} FLOP per clock are neither one nor two FMA of {:.0f} lanes", rate, lanes)});
  }
}

// No product of the last decade needs less than 20 or more than 2500 FLOP per byte to leave the memory bound.
void check_balance(const Spec& spec, std::vector<Violation>& violations) {
  for (const char* peak : {"matrix_bf16", "matrix_fp16"}) {
    const double ridge = spec.value_or(peak, 0) / spec.value_or("memory_bandwidth", 1e30);
    if (known(spec, peak) && known(spec, "memory_bandwidth") && (ridge < 20 || ridge > 2500)) {
      violations.push_back(
          {"range", peak, fmt::format("{} over memory_bandwidth is {:.4g} FLOP per byte", peak, ridge)});
    }
  }
}

}  // namespace

std::vector<Violation> check_physics(const Spec& spec) {
  std::vector<Violation> violations;
  check_ranges(spec, violations);
  check_formulas(spec, violations);
  for (const Equation& equation : kEquations) compare(spec, equation, false, violations);
  for (const Equation& bound : kBounds) compare(spec, bound, true, violations);
  if (spec.is_gpu()) check_unit(spec, violations);
  check_balance(spec, violations);
  return violations;
}

}  // namespace ridge::hardware
