#include "roofline/machine.h"

#include <algorithm>

#include "base/error.h"
#include "roofline/roofline.h"

namespace ridge::roofline {
namespace {

struct Peak {
  std::string_view dtype, metric, name;
};
constexpr Peak kPeaks[] = {{"f64", "matrix_fp64", "fp64 matrix"},       {"f32", "vector_fp32", "fp32 vector"},
                           {"tf32", "matrix_tf32", "tf32 matrix"},      {"bf16", "matrix_bf16", "bf16 matrix"},
                           {"f16", "matrix_fp16", "fp16 matrix"},       {"fp8", "matrix_fp8", "fp8 matrix"},
                           {"e4m3", "matrix_fp8", "fp8 matrix"},        {"e5m2", "matrix_fp8", "fp8 matrix"},
                           {"i8", "matrix_int8", "int8 matrix"},        {"int8", "matrix_int8", "int8 matrix"},
                           {"fp6", "matrix_fp6", "fp6 matrix"},         {"fp4", "matrix_fp4", "fp4 matrix"},
                           {"f16-vector", "vector_fp16", "fp16 vector"}};

Result<const Peak*> peak_of(std::string_view dtype) {
  const auto* found =
      std::find_if(std::begin(kPeaks), std::end(kPeaks), [&](const Peak& p) { return p.dtype == dtype; });
  if (found != std::end(kPeaks)) return found;
  std::string names;
  for (const Peak& peak : kPeaks) names += (names.empty() ? "" : ", ") + std::string(peak.dtype);
  return with_hint(make_error(ErrorCode::kNotFound, "no roof for the element type \"{}\"", dtype),
                   "types are " + names);
}

// The fact, unless the user gave a measured value; nothing when neither is there.
void add_level(const hardware::Spec& spec, std::string_view metric, const char* name, double given,
               const Override& from, std::vector<Limit>& levels) {
  const hardware::Fact* fact = spec.find(metric);
  if (given > 0) {
    levels.push_back({name, given, true, from.source});
  } else if (fact != nullptr && fact->state == hardware::State::kKnown) {
    levels.push_back({name, fact->value.value, false, fact->citation()});
  }
}

// A measured fact by its name, as a citation would read: what it is, how often and how it was measured.
std::string measured_fact(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view name) {
  for (const record::Ceiling& one : ceilings) {
    if (one.name != name || one.threads != threads) continue;
    return fmt::format("{} measured with {} thread{}: {} samples, {}", name, threads, threads == 1 ? "" : "s",
                       one.samples.size(), one.method);
  }
  return fmt::format("{} measured with {} threads", name, threads);
}

}  // namespace

Result<std::string> peak_metric(std::string_view dtype) {
  RIDGE_TRY(peak, peak_of(dtype));
  return std::string(peak->metric);
}

Result<Limit> arithmetic_limit(const hardware::Spec& spec, std::string_view dtype, const Override& given) {
  RIDGE_TRY(peak, peak_of(dtype));
  const std::string name(peak->name);
  if (given.flops > 0) return Limit{name, given.flops, true, given.source};
  RIDGE_TRY(value, spec.value(peak->metric));
  return Limit{name, value, false, spec.find(peak->metric)->citation()};
}

Result<Machine> machine_of(const hardware::Spec& spec, const Override& given) {
  Machine machine{spec.name, {}, 0};
  add_level(spec, "memory_bandwidth", "memory", given.bandwidth, given, machine.memory);
  if (machine.memory.empty()) return spec.value("memory_bandwidth").error();
  add_level(spec, "l2_bandwidth", "L2", given.l2_bandwidth, given, machine.memory);
  add_level(spec, "shared_memory_bandwidth", "shared memory", given.shared_bandwidth, given, machine.memory);
  return machine;
}

Result<Limit> arithmetic_limit(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view dtype,
                               const Override& given) {
  if (given.flops > 0) return Limit{std::string(dtype) + " FMA", given.flops, true, given.source};
  RIDGE_TRY(found, limits(ceilings, threads, "fma_" + std::string(dtype)));
  return Limit{std::string(dtype) + " FMA", found.flops, true, measured_fact(ceilings, threads, found.flops_name)};
}

Result<Machine> machine_of(std::span<const record::Ceiling> ceilings, std::int64_t threads, const Override& given) {
  Machine machine{fmt::format("this processor, {} thread{}", threads, threads == 1 ? "" : "s"), {}, 0};
  if (given.bandwidth > 0) {
    machine.memory.push_back({"memory", given.bandwidth, true, given.source});
    return machine;
  }
  RIDGE_TRY(found, limits(ceilings, threads));
  machine.memory.push_back({"memory", found.bandwidth, true, measured_fact(ceilings, threads, found.bandwidth_name)});
  return machine;
}

}  // namespace ridge::roofline
