#include "evaluate/memory_need.h"

#include <fstream>

#include "base/error.h"

namespace ridge::evaluate {

double available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, rest; file >> name; std::getline(file, rest)) {
    double kib = 0;
    if (name == "MemAvailable:" && file >> kib) return 1024 * kib;
  }
  return 4e9;
}

double operand_bytes(const ops::Problem& problem) {
  double bytes = 0;
  for (const ops::OperandSpec& operand : problem.operands) {
    double elements = 1;
    for (const std::int64_t size : operand.shape) elements *= static_cast<double>(size);
    bytes += elements * static_cast<double>(size_bytes(operand.dtype, 1));
  }
  return bytes;
}

std::optional<std::string> too_large(const ops::Problem& problem, double copies) {
  const double needed = copies * operand_bytes(problem), there = available_memory();
  if (needed <= there) return std::nullopt;
  const std::string held = copies > 1 ? fmt::format(", held {:.0f} times,", copies) : "";
  return fmt::format("the operands{} take {:.0f} bytes, of {:.0f} that are available", held, needed, there);
}

Status check_memory(const std::vector<ops::Problem>& problems, double copies) {
  for (const ops::Problem& problem : problems) {
    const std::optional<std::string> why = too_large(problem, copies);
    if (!why) continue;
    return with_hint(invalid("{}: {}", problem.problem_case.label(), *why), "choose smaller sizes");
  }
  return ok_status();
}

Status check_host_memory(const Job& job, const BoundCases& bound) {
  RIDGE_TRY(backend, backend_of(job, *bound.op));
  return backend == Backend::kCpu ? check_memory(bound.problems, kCopiesToVerify) : ok_status();
}

}  // namespace ridge::evaluate
