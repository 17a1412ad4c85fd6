#include "ops/op.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/check.h"
#include "base/error.h"
#include "device/cpu/cpu_info.h"
#include "device/cuda/backend.h"
#include "numerics/convert.h"
#include "numerics/philox.h"
#include "ops/cuda/device.h"
#include "ops/workspace.h"

namespace ridge::ops {

// Generated from the list of add_op() calls.
std::span<const Operator> ridge_operators();

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<const Operator*> operators;
};

Registry& registry() {
  static Registry* const instance = [] {
    auto* fresh = new Registry;  // never deleted: calls may come during static destruction
    for (const Operator& op : ridge_operators()) fresh->operators.push_back(&op);
    return fresh;
  }();
  return *instance;
}

template <class Items, class Name>
std::string known_names(const Items& items, Name name) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(name(item));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::int64_t OperandSpec::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

namespace {
// Of a number of bytes: the largest power of two up to 16 that divides it.
int alignment_of(std::uint64_t bytes) { return 1 << std::countr_zero(bytes | 16u); }

std::uint64_t bits_to_bytes(DType dtype, std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) * static_cast<unsigned>(size_bits(dtype)) / 8;
}
}  // namespace

int view_alignment(const TensorView& view) {
  std::uint64_t bytes = reinterpret_cast<std::uintptr_t>(view.data);
  for (int d = 0; d + 1 < view.rank; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (view.shape[i] > 1) bytes |= bits_to_bytes(view.dtype, view.stride[i]);
  }
  return alignment_of(bytes);
}

std::vector<std::uint8_t> alignments(std::span<const TensorView> operands) {
  std::vector<std::uint8_t> all;
  for (const TensorView& view : operands) all.push_back(static_cast<std::uint8_t>(view_alignment(view)));
  return all;
}

int operand_alignment(const Problem& problem, std::size_t operand) {
  if (operand < problem.alignment.size() && problem.alignment[operand] != 0) return problem.alignment[operand];
  const OperandSpec& spec = problem.operands[operand];
  const bool one_row = spec.shape.size() < 2 || spec.element_count() == spec.shape.back();
  return one_row ? 16 : alignment_of(bits_to_bytes(spec.dtype, spec.shape.back()));
}

std::optional<std::size_t> Problem::position(std::string_view operand) const {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].name == operand) return i;
  }
  return std::nullopt;
}

std::map<std::string, std::int64_t> Problem::wholes() const {
  std::map<std::string, std::int64_t> named;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != record::ParamKind::kReal) named[problem_case.params[i].name] = values[i];
  }
  return named;
}

std::map<std::string, double> Problem::reals() const {
  std::map<std::string, double> named;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == record::ParamKind::kReal) named[problem_case.params[i].name] = real(i);
  }
  for (const record::ScalarInfo& scalar : scalars) named[scalar.name] = scalar.usual.number();
  return named;
}

bool DeviceInfo::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::vector<const Operator*> operators() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  return all.operators;
}

void add_operators(std::span<const Operator> list) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  for (const Operator& op : list) {
    if (std::find(all.operators.begin(), all.operators.end(), &op) == all.operators.end()) all.operators.push_back(&op);
  }
}

Result<const Operator*> find_operator(std::string_view name) {
  const std::vector<const Operator*> all = operators();
  for (const Operator* op : all) {
    if (op->name == name) return op;
  }
  return with_hint(make_error(ErrorCode::kNotFound, "there is no operator \"{}\"", name),
                   "known: " + known_names(all, [](const Operator* op) { return op->name; }));
}

Result<const Implementation*> find_implementation(const Operator& op, std::string_view name) {
  for (const Implementation& implementation : op.implementations) {
    if (implementation.name == name) return &implementation;
  }
  if (name.starts_with("cuda_") && !device::cuda::is_built_in()) {
    const Error absent = device::cuda::list_gpus().error();
    return with_hint(make_error(absent.code, "{} has no implementation \"{}\": {}", op.name, name, absent.message),
                     absent.hint);
  }
  return with_hint(make_error(ErrorCode::kNotFound, "{} has no implementation \"{}\"", op.name, name),
                   "known: " + known_names(op.implementations, [](const Implementation& one) { return one.name; }));
}

Result<Problem> bind_params(std::string_view op, std::span<const record::ParamInfo> params,
                            const record::Case& requested) {
  for (const record::Param& given : requested.params) {
    if (std::none_of(params.begin(), params.end(), [&](const auto& param) { return param.name == given.name; })) {
      return with_hint(invalid("{} has no parameter \"{}\"", op, given.name),
                       "its parameters: " + known_names(params, [](const auto& param) { return param.name; }));
    }
  }
  Problem problem;
  problem.problem_case.op = std::string(op);
  for (const record::ParamInfo& param : params) {
    RIDGE_TRY(value, record::parse_value(op, param, requested.get(param.name, param.default_value)));
    problem.values.push_back(value);
    problem.kinds.push_back(param.kind);
    problem.problem_case.set(param.name, record::value_text(param, value));
  }
  return problem;
}

record::Case case_of(const Operator& op, std::span<const std::int64_t> values) {
  record::Case result;
  result.op = op.name;
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.set(op.params[i].name, record::value_text(op.params[i], values[i]));
  }
  return result;
}

Result<std::vector<EntryCall>> backward_calls(const Operator& op, const Problem& problem, const Arguments& forward,
                                              std::span<const TensorView> grad_outputs,
                                              std::span<const TensorView> grad_inputs) {
  std::vector<EntryCall> calls;
  if (op.backward) {
    RIDGE_TRY(entry, find_operator(op.backward->op));
    RIDGE_TRY(call, op.backward->call(problem, forward, grad_outputs, grad_inputs));
    calls.push_back({entry, std::move(call)});
    return calls;
  }
  std::size_t input = 0;
  for (const OperandSpec& spec : problem.operands) {
    if (spec.output) continue;
    const TensorView& wanted = grad_inputs[input++];
    if (wanted.rank == 0) continue;
    const auto gradient = std::ranges::find(op.gradients, spec.name, &Gradient::input);
    if (gradient == op.gradients.end()) {
      return with_hint(make_error(ErrorCode::kUnsupported, "{} has no gradient of {}", op.name, spec.name),
                       "those with one: " + known_names(op.gradients, [](const Gradient& one) { return one.input; }));
    }
    RIDGE_TRY(entry, find_operator(gradient->op));
    RIDGE_TRY(call, gradient->call(problem, forward, grad_outputs[0], wanted));
    calls.push_back({entry, std::move(call)});
  }
  return calls;
}

std::vector<record::Scalar> draw_scalars(const Problem& problem, std::uint64_t seed) {
  std::vector<record::Scalar> scalars;
  for (const record::ScalarInfo& info : problem.scalars) {
    scalars.push_back(record::draw(info, numerics::derive_seed(seed, 0x5ca1a7 + scalars.size())));
  }
  return scalars;
}

record::Case vary_sizes(const Problem& problem, std::span<const std::size_t> sizes, std::int64_t reduced,
                        Variation variation, std::uint64_t seed) {
  record::Case other = problem.problem_case;
  std::uint64_t index = 0;
  for (const std::size_t size : sizes) {
    const std::int64_t old = problem.values[size];
    const bool small = variation == Variation::kReduced || variation == Variation::kAlignedReduced;
    const bool aligned = variation == Variation::kAlignedNeighbour || variation == Variation::kAlignedReduced;
    const std::int64_t step = aligned && old % 16 == 0 ? 16 : 1;
    const std::int64_t most = (small ? std::min(old, std::max(reduced, step)) : old) / step;  // in steps
    // Down to three quarters, and never the old size where there is another one.
    const std::int64_t choices = std::max<std::int64_t>(1, (most + 3) / 4);
    const auto drawn =
        static_cast<std::int64_t>(numerics::derive_seed(seed, index++) % static_cast<std::uint64_t>(choices));
    const std::int64_t steps = std::max<std::int64_t>(most - 1 - drawn, std::min<std::int64_t>(most, 1));
    other.set(problem.problem_case.params[size].name, std::to_string(steps * step));
  }
  return other;
}

Result<SpotCheck> spot_check_by_reference(const Problem& problem, const Arguments& arguments,
                                          const decltype(Operator::reference)& reference) {
  RIDGE_TRY(expected, reference(problem, arguments));
  SpotCheck result;
  result.blind_factor = 1;
  result.allowed = 1;
  std::size_t output = 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    const ReferenceOutput& right = expected[output++];
    const std::vector<double> found = numerics::to_doubles(arguments[i]);
    for (std::size_t e = 0; e < found.size(); ++e) {
      const bool both_nan = std::isnan(found[e]) && std::isnan(right.value[e]);
      const double ratio =
          both_nan || found[e] == right.value[e] ? 0.0 : std::abs(found[e] - right.value[e]) / right.allowed[e];
      if (!std::isfinite(found[e])) result.finite = false;
      if (ratio <= result.residual) continue;
      result.residual = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
      result.detail = fmt::format("{}: element {} of {} is {:.9g}, not {:.9g} +- {:.3g}", problem.problem_case.text(),
                                  e, problem.operands[i].name, found[e], right.value[e], right.allowed[e]);
    }
  }
  return result;
}

Result<SpotCheck> with_right_infinities(Result<SpotCheck> spot) {
  if (spot) spot->finite = spot->finite || spot->residual <= spot->allowed;
  return spot;
}

namespace {

Status run_reference(const Operator& op, const Problem& problem, const Arguments& arguments) {
  RIDGE_TRY(outputs, op.reference(problem, arguments));
  std::size_t next = 0;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    const std::vector<double>& values = outputs[next++].value;
    for (std::size_t e = 0; e < values.size(); ++e) {
      numerics::store_element(arguments[i], static_cast<std::int64_t>(e), values[e]);
    }
  }
  return ok_status();
}

}  // namespace

// The operator's own description travels inside, because an Operator may be copied.
Implementation reference_on_host(const Operator& op) {
  Implementation reference;
  reference.name = "reference";
  reference.summary = "fp64, one element at a time: slow, and what the others are checked against";
  reference.rank = 1000;
  reference.is_reference = true;
  reference.deterministic = true;
  reference.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  Operator only_reference;
  only_reference.reference = op.reference;
  reference.run = [op = std::move(only_reference)](const Problem& problem, const Arguments& arguments, const Stream&) {
    return run_reference(op, problem, arguments);
  };
  return reference;
}

namespace {

// A reference of the operator's own, with the errors of exact outputs filled in.
decltype(Operator::reference) complete(decltype(Operator::reference) own) {
  return [own = std::move(own)](const Problem& problem,
                                const Arguments& arguments) -> Result<std::vector<ReferenceOutput>> {
    RIDGE_TRY(outputs, own(problem, arguments));
    std::size_t next = 0;
    for (const OperandSpec& spec : problem.operands) {
      if (!spec.output || next == outputs.size()) continue;
      ReferenceOutput& output = outputs[next++];
      if (spec.check != Check::kExact) continue;
      output.allowed.assign(output.value.size(), 0.0);
      output.ideal_square = output.allowed;
    }
    return outputs;
  };
}

// Its run() with the workspace that it asks for, where the caller gives none.
Implementation with_workspace(Implementation one) {
  if (!one.workspace_bytes) return one;
  one.run = [name = one.name, own = std::move(one.run), bytes = one.workspace_bytes](
                const Problem& problem, const Arguments& arguments, const Stream& stream) -> Status {
    const std::size_t needed = bytes(problem, stream);
    if (needed == 0 || arguments.workspace.size() >= needed) return own(problem, arguments, stream);
    if (!arguments.workspace.empty()) {
      return with_hint(invalid("{}: a workspace of {} bytes; {} needs {}", problem.problem_case.text(),
                               arguments.workspace.size(), name, needed),
                       "give as many as Implementation::workspace_bytes says, or none");
    }
    RIDGE_TRY(memory, Workspace::take(needed, stream));
    Arguments with = arguments;
    with.workspace = {static_cast<std::byte*>(memory.data()), needed};
    return own(problem, with, stream);
  };
  return one;
}

}  // namespace

Operator assemble(Operator description, std::vector<Implementation> implementations) {
  for (Implementation& one : implementations) one = with_workspace(std::move(one));
  description.reference = complete(std::move(description.reference));
  implementations.push_back(reference_on_host(description));
  if (auto on_gpu = cuda_reference(description)) implementations.push_back(std::move(*on_gpu));
  std::stable_sort(implementations.begin(), implementations.end(),
                   [](const Implementation& a, const Implementation& b) { return a.rank < b.rank; });
  description.implementations = std::move(implementations);
  return description;
}

TensorView operand(const Problem& problem, std::span<const TensorView> operands, std::string_view name) {
  const auto at = problem.position(name);
  return at ? operands[*at] : TensorView();
}

record::Case built_in_case(std::string_view text) {
  auto parsed = record::parse_case(text);
  check(parsed.ok(), fmt::format("the built-in case \"{}\" does not parse", text));
  return *std::move(parsed);
}

Refusal why_not(const Implementation& implementation, const Problem& problem, const DeviceInfo& device) {
  if (implementation.backend != device.backend) {
    return fmt::format("runs on {}, the stream is {}", to_string(implementation.backend), to_string(device.backend));
  }
  if (!device.missing.empty()) return device.missing;
  return implementation.supports(problem, device);
}

const DeviceInfo& device_info(const Stream& stream) {
  if (stream.backend == Backend::kCuda) return cuda_device_info(stream.device);
  if (stream.backend != Backend::kCpu) {
    static const DeviceInfo none = {stream.backend, {}, {}, {}, "there is no backend for it yet"};
    return none;
  }
  static const DeviceInfo cpu = [] {
    const device::cpu::CpuInfo& info = device::cpu::cpu_info();
    return DeviceInfo{Backend::kCpu, info.name, info.arch, info.features, {}};
  }();
  return cpu;
}

}  // namespace ridge::ops
