#include "ops/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/check.h"
#include "numerics/convert.h"

namespace ridge::ops {
std::span<const Operator> skeleton_operators();  // generated, see tests/skeleton_op
}

namespace ridge::testing {
namespace {

constexpr unsigned char kGuard = 0xa5;
constexpr std::size_t kGuardBytes = 128;

}  // namespace

Operand::Operand(const ops::OperandSpec& spec, const Layout& layout) : spec_(spec) {
  view_.dtype = spec.dtype;
  view_.rank = static_cast<int>(spec.shape.size());
  std::int64_t stride = 1;
  for (int axis = view_.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    view_.shape[i] = spec.shape[i];
    view_.stride[i] = stride;
    stride *= spec.shape[i];
    if (axis == view_.rank - 1 && view_.rank > 1) stride += layout.row_gap;
  }
  const std::size_t element = size_bytes(spec.dtype, 1);
  const std::size_t offset = static_cast<std::size_t>(layout.base_offset) * element;
  const std::size_t content = spec.element_count() == 0 ? 0 : static_cast<std::size_t>(stride) * element;
  bytes_.assign(64 + kGuardBytes + offset + content + kGuardBytes, kGuard);
  const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data()) + kGuardBytes;
  view_.data = reinterpret_cast<void*>((start + 63) / 64 * 64 + offset);
  mark_elements();
}

void Operand::mark_elements() {
  is_element_.assign(bytes_.size(), false);
  const std::size_t element = size_bytes(spec_.dtype, 1);
  const auto first = static_cast<std::size_t>(static_cast<unsigned char*>(view_.data) - bytes_.data());
  for (std::int64_t e = 0; e < view_.element_count(); ++e) {
    const std::size_t at = first + static_cast<std::size_t>(numerics::element_offset(view_, e)) * element;
    for (std::size_t b = 0; b < element; ++b) is_element_[at + b] = true;
  }
}

void Operand::fill_random(std::uint64_t seed) {
  if (spec_.fill.rule != ops::Fill::Rule::kNumbers || is_integer(spec_.dtype)) {
    return ops::fill_input(spec_.fill, view_, numerics::Family::kNormal, seed);
  }
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  for (std::int64_t e = 0; e < view_.element_count(); ++e) {
    const double value = normal(generator);
    numerics::store_element(view_, e, view_.dtype == DType::kE8m0 ? std::abs(value) : value);  // that has no sign
  }
}

void Operand::poison() {
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (is_element_[i]) bytes_[i] = 0xff;
  }
}

void Operand::assign(const std::vector<double>& values) {
  for (std::size_t e = 0; e < values.size(); ++e) {
    numerics::store_element(view_, static_cast<std::int64_t>(e), values[e]);
  }
}

void Operand::set_bytes(const std::vector<unsigned char>& bytes) {
  check(bytes.size() == bytes_.size(), "another operand's bytes");
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());  // in place: the view points into it
}

std::vector<double> Operand::values() const { return numerics::to_doubles(view_); }

std::string Operand::guard_damage() const {
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (is_element_[i] || bytes_[i] == kGuard) continue;
    const auto first = static_cast<std::ptrdiff_t>(static_cast<unsigned char*>(view_.data) - bytes_.data());
    return fmt::format("operand {}: the byte {} from its first element was overwritten", spec_.name,
                       static_cast<std::ptrdiff_t>(i) - first);
  }
  return {};
}

std::vector<TensorView> Operands::views() const {
  std::vector<TensorView> views;
  for (const Operand& operand : all) views.push_back(operand.view());
  return views;
}

std::vector<TensorView> Operands::views_with_old(const Operands& old) const {
  std::vector<TensorView> result = views();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].spec().read_write) result.push_back(old.all[i].view());
  }
  return result;
}

Operands make_operands(const ops::Problem& problem, const Layout& layout, std::uint64_t seed) {
  Operands operands;
  operands.scalars = ops::draw_scalars(problem, seed);
  operands.all.reserve(problem.operands.size());
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    const ops::OperandSpec& spec = problem.operands[i];
    Operand& operand = operands.all.emplace_back(spec, layout);
    if (!spec.output || spec.read_write) {
      operand.fill_random(seed + 1000 * i);
    } else {
      operand.poison();
    }
  }
  return operands;
}

std::string compare(const std::vector<double>& found, const ops::ReferenceOutput& expected, DType dtype) {
  if (found.size() != expected.value.size()) return "the reference has another number of elements";
  const double largest = dtype == DType::kF16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
  double worst = 1.0;
  std::string message;
  for (std::size_t e = 0; e < found.size(); ++e) {
    const double x = found[e], r = expected.value[e], allowed = expected.allowed[e];
    double ratio = 0.0;
    if (std::isnan(r) || std::isinf(r)) {
      const bool same = std::isnan(r) ? std::isnan(x) : x == r;
      ratio = same ? 0.0 : std::numeric_limits<double>::infinity();
    } else if (std::isinf(allowed)) {  // by the contract it may be anything, also NaN
      ratio = 0.0;
    } else if (std::isinf(x) && std::abs(r) + allowed >= largest && std::signbit(x) == std::signbit(r)) {
      ratio = 0.0;
    } else {
      ratio = x == r ? 0.0 : std::abs(x - r) / allowed;
      if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    }
    if (ratio <= worst) continue;
    worst = ratio;
    message = fmt::format("element {} is {:.9g}, the reference {:.9g}: {:.3g} times the allowed error {:.3g}", e, x, r,
                          ratio, allowed);
  }
  return message;
}

std::string judge(const ops::Operator& op, const ops::Problem& problem, const Operands& before, const Operands& after,
                  std::uint64_t seed) {
  const auto expected = op.reference(problem, {before.views(), before.scalars});
  if (!expected) return "reference: " + expected.error().text();
  std::size_t output = 0;
  for (std::size_t i = 0; i < after.all.size(); ++i) {
    if (std::string damage = after.all[i].guard_damage(); !damage.empty()) return damage;
    if (!after.all[i].spec().output) {
      const bool same = after.all[i].values() == before.all[i].values();
      if (!same) return fmt::format("input {} was changed", after.all[i].spec().name);
      continue;
    }
    const std::string wrong = compare(after.all[i].values(), (*expected)[output++], after.all[i].spec().dtype);
    if (!wrong.empty()) return wrong;
  }
  const auto spot = op.spot_check(problem, {after.views_with_old(before), before.scalars}, seed ^ 0x5eed);
  if (!spot) return "spot check: " + spot.error().text();
  if (!spot->finite || spot->residual > spot->allowed) return "spot check raises a false alarm: " + spot->detail;
  return {};
}

std::string check_run(const ops::Operator& op, const ops::Implementation& implementation, const ops::Problem& problem,
                      const Layout& layout, std::uint64_t seed, int threads) {
  const Operands before = make_operands(problem, layout, seed), after = make_operands(problem, layout, seed);
  const Status status = implementation.run(problem, {after.views(), after.scalars}, Stream::cpu(threads));
  return status ? judge(op, problem, before, after, seed) : status.error().text();
}

std::vector<const ops::Operator*> all_operators() {
  ops::add_operators(ops::skeleton_operators());
  return ops::operators();
}

std::vector<ops::Problem> check_problems(const ops::Operator& op) {
  std::vector<ops::Problem> problems;
  for (const record::Case& one : op.cases(ops::CaseSet::kCheck, Backend::kCpu)) {
    auto problem = op.bind(one);
    check(problem.ok(), "a case of the operator's own list does not bind");
    problems.push_back(std::move(*problem));
  }
  return problems;
}

}  // namespace ridge::testing
