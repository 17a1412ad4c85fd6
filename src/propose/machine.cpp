#include "propose/machine.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "record/backend.h"

namespace ridge::propose {
namespace {

// "48 KiB", "49152", "2 MiB" in bytes.
std::optional<double> parse_size(std::string_view text) {
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || value <= 0) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.starts_with('K') || unit.starts_with('k')) value *= 1024;
  if (unit.starts_with('M')) value *= 1024 * 1024;
  return value;
}

// The first fact whose name contains `part`.
std::optional<double> size_fact(const record::Environment& environment, std::string_view part) {
  for (const auto& [name, value] : environment.facts) {
    if (name.find(part) != std::string::npos) {
      if (const auto size = parse_size(value)) return size;
    }
  }
  return std::nullopt;
}

bool mentions(const record::Environment& environment, std::string_view word) {
  return std::ranges::any_of(environment.facts,
                             [&](const auto& fact) { return fact.second.find(word) != std::string::npos; });
}

void find_vector_width(const record::Environment& environment, Machine& machine) {
  if (const auto bits = size_fact(environment, "vector_bits")) {
    machine.lanes = *bits / 32;
    machine.vector_source = fmt::format("{:.0f}-bit vectors as the environment states", *bits);
  } else if (mentions(environment, "avx512")) {
    machine.lanes = 16;
    machine.vector_source = "512-bit vectors, since the environment lists AVX-512";
  } else if (mentions(environment, "avx2")) {
    machine.lanes = 8;
    machine.vector_source = "256-bit vectors, since the environment lists AVX2";
  } else if (mentions(environment, "aarch64")) {
    machine.lanes = 4;
    machine.vector_source = "128-bit vectors, since the environment states aarch64";
  } else {
    machine.vector_source = "256-bit vectors assumed: the environment does not say";
  }
  machine.registers = machine.lanes == 8 ? 16 : 32;  // AVX2 has 16; AVX-512 and AArch64 have 32
}

std::vector<std::map<std::string, double>> numbers_of(const std::vector<record::Case>& cases) {
  std::vector<std::map<std::string, double>> found;
  for (const record::Case& one : cases) {
    found.emplace_back();
    for (const record::Param& param : one.params) {
      if (const auto value = one.integer(param.name)) found.back()[param.name] = static_cast<double>(*value);
    }
  }
  return found;
}

void describe_gpu(const record::ProposalRequest& request, Machine& machine) {
  Gpu gpu{132, numbers_of(request.spec.target_cases)};
  machine.vector_source = "132 multiprocessors assumed: the environment does not say";
  const auto stated = request.environment.facts.find("gpu.multiprocessors");
  if (stated != request.environment.facts.end()) {
    gpu.multiprocessors = std::max(1.0, parse_size(stated->second).value_or(132));
    machine.vector_source = fmt::format("{:.0f} multiprocessors as the driver states", gpu.multiprocessors);
  }
  machine.gpu = std::move(gpu);
}

}  // namespace

Machine describe_machine(const record::ProposalRequest& request) {
  Machine machine;
  if (!record::backend_of_name(request.spec.backend).host) {
    describe_gpu(request, machine);
  } else {
    find_vector_width(request.environment, machine);
  }
  machine.l1_bytes = size_fact(request.environment, "l1d").value_or(machine.l1_bytes);
  machine.l2_bytes = size_fact(request.environment, "l2").value_or(machine.l2_bytes);
  machine.threads = static_cast<double>(std::max<std::int64_t>(1, request.spec.protocol.threads));
  for (const record::RooflinePoint& point : request.roofline) {
    const bool compute = point.bound == "compute" && point.bound_time > 0;
    if (compute) machine.peak = std::max(machine.peak, point.cost.flop / point.bound_time);
  }
  return machine;
}

}  // namespace ridge::propose
