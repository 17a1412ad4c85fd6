#include "roofline/machine.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "ridge/dtype.h"
#include "roofline/roofline.h"

namespace ridge::roofline {
namespace {

struct Peak {
  std::string_view dtype, metric, name;
};
constexpr Peak kPeaks[] = {{"f64", "matrix_fp64", "fp64 matrix"},  {"f32", "vector_fp32", "fp32 vector"},
                           {"tf32", "matrix_tf32", "tf32 matrix"}, {"bf16", "matrix_bf16", "bf16 matrix"},
                           {"f16", "matrix_fp16", "fp16 matrix"},  {"fp8", "matrix_fp8", "fp8 matrix"},
                           {"e4m3", "matrix_fp8", "fp8 matrix"},   {"e4m3fn", "matrix_fp8", "fp8 matrix"},
                           {"e5m2", "matrix_fp8", "fp8 matrix"},   {"i8", "matrix_int8", "int8 matrix"},
                           {"int8", "matrix_int8", "int8 matrix"}, {"fp6", "matrix_fp6", "fp6 matrix"},
                           {"fp4", "matrix_fp4", "fp4 matrix"},    {"f16-vector", "vector_fp16", "fp16 vector"}};

Result<const Peak*> peak_of(std::string_view dtype) {
  dtype = canonical_type(dtype);
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

// Empty where the database knows no value.
std::string known_citation(const hardware::Spec& spec, std::string_view metric) {
  const hardware::Fact* fact = spec.find(metric);
  return fact != nullptr && fact->state == hardware::State::kKnown ? fact->citation() : std::string();
}

// A measured fact by its name, as a citation would read: what it is, how often and how it was measured.
std::string measured_fact(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view name) {
  for (const record::Ceiling& one : ceilings) {
    if (one.name != name || one.threads != threads) continue;
    if (!one.device.empty())
      return fmt::format("{} measured on {}: {} samples, {}", name, one.device, one.samples.size(), one.method);
    return fmt::format("{} measured with {} thread{}: {} samples, {}", name, threads, threads == 1 ? "" : "s",
                       one.samples.size(), one.method);
  }
  return fmt::format("{} measured with {} threads", name, threads);
}

// 0 where it was not measured.
double ceiling_of(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view name) {
  for (const record::Ceiling& one : ceilings) {
    if (one.name == name && one.threads == threads) return one.value;
  }
  return 0;
}

}  // namespace

std::string_view canonical_type(std::string_view name) {
  const Result<DType> known = parse_dtype(name);
  return known ? to_string(*known) : name;
}

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

Limit unknown_limit(std::string_view dtype, const Error& unknown) {
  const Result<const Peak*> peak = peak_of(dtype);
  return {peak ? std::string((*peak)->name) : std::string(dtype), 0, false, unknown.message};
}

Result<Machine> machine_of(const hardware::Spec& spec, const Override& given) {
  Machine machine{spec.name, {}, 0};
  add_level(spec, "memory_bandwidth", "memory", given.bandwidth, given, machine.memory);
  if (machine.memory.empty())
    machine.memory.push_back({"memory", 0, false, spec.value("memory_bandwidth").error().message});
  add_level(spec, "l2_bandwidth", "L2", given.l2_bandwidth, given, machine.memory);
  add_level(spec, "shared_memory_bandwidth", "shared memory", given.shared_bandwidth, given, machine.memory);
  return machine;
}

Result<Limit> arithmetic_limit(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view dtype,
                               const Override& given) {
  const std::string multiply_adds = std::string(canonical_type(dtype)) + " FMA";
  if (given.flops > 0) return Limit{multiply_adds, given.flops, true, given.source};
  RIDGE_TRY(found, limits_of_type(ceilings, threads, dtype));
  const Result<const Peak*> peak = peak_of(dtype);
  const bool matrix = peak && found.flops_name == (*peak)->metric;
  return Limit{matrix ? std::string((*peak)->name) : multiply_adds, found.flops, true,
               measured_fact(ceilings, threads, found.flops_name)};
}

Result<Machine> machine_of(std::span<const record::Ceiling> ceilings, std::int64_t threads, const Override& given) {
  const bool gpu = !ceilings.empty() && !ceilings.front().device.empty();
  Machine machine{
      gpu ? ceilings.front().device : fmt::format("this processor, {} thread{}", threads, threads == 1 ? "" : "s"),
      {},
      0};
  if (given.bandwidth > 0) {
    machine.memory.push_back({"memory", given.bandwidth, true, given.source});
  } else {
    RIDGE_TRY(found, limits(ceilings, threads));
    machine.memory.push_back({"memory", found.bandwidth, true, measured_fact(ceilings, threads, found.bandwidth_name)});
  }
  const std::tuple<const char*, const char*, double> inner[] = {
      {"L2", "l2_bandwidth", given.l2_bandwidth}, {"shared memory", "shared_memory_bandwidth", given.shared_bandwidth}};
  for (const auto& [name, metric, value] : inner) {
    if (value > 0) {
      machine.memory.push_back({name, value, true, given.source});
    } else if (const double measured = ceiling_of(ceilings, threads, metric); measured > 0) {
      machine.memory.push_back({name, measured, true, measured_fact(ceilings, threads, metric)});
    }
  }
  machine.launch_latency = ceiling_of(ceilings, threads, "launch_time");
  return machine;
}

void cite(const hardware::Spec& spec, std::string_view dtype, Limit& arithmetic) {
  const Result<std::string> metric = peak_metric(dtype);
  if (metric) arithmetic.cited = known_citation(spec, *metric);
}

void cite(const hardware::Spec& spec, Machine& machine) {
  for (Limit& level : machine.memory) {
    const char* metric = level.name == "memory" ? "memory_bandwidth"
                         : level.name == "L2"   ? "l2_bandwidth"
                                                : "shared_memory_bandwidth";
    level.cited = known_citation(spec, metric);
  }
}

}  // namespace ridge::roofline
