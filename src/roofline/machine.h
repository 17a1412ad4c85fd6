// The limits of a machine that a roofline rests on: cited from the spec database, or measured. A measured ceiling
// replaces the cited peak, which nothing reaches; a value that neither states does not exist, it is never guessed.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hardware/spec.h"
#include "record/measurement.h"

namespace ridge::roofline {

struct Limit {
  std::string name;  // "bf16 matrix", "fp32 vector", "memory", "L2", "shared memory"
  double peak = 0;   // FLOP/s or B/s; 0: no source states it, and `source` says so
  bool measured = false;
  std::string source;
  std::string cited;  // of a measured one: the database's citation of the same limit, where there is one
};

struct Machine {
  std::string name;
  std::vector<Limit> memory;  // from the outside in; the first is device memory
  double launch_latency = 0;  // seconds of an empty launch, when measured
};

// What a user measured or assumes; a peak of 0 is not given.
struct Override {
  double flops = 0, bandwidth = 0, l2_bandwidth = 0, shared_bandwidth = 0;
  std::string source = "measured, as given on the command line";
};

// "f32" of "fp32" or "float32": the name that the library gives an element type; any other text stays as it is.
std::string_view canonical_type(std::string_view name);

// Names of element types as operators write them ("f32", "bf16", "e4m3") to the metric of the peak that bounds them.
Result<std::string> peak_metric(std::string_view dtype);

// The arithmetic limit of `dtype`, from the database. One that is UNKNOWN there is kUnsupported; `unknown_limit` makes
// a limit of that error, with which a problem is placed by what is known.
Result<Limit> arithmetic_limit(const hardware::Spec& spec, std::string_view dtype, const Override& given);

Limit unknown_limit(std::string_view dtype, const Error& unknown);

// The memory levels that the database or the user knows a bandwidth of. The first, of the device memory, is there when
// it is UNKNOWN, too.
Result<Machine> machine_of(const hardware::Spec& spec, const Override& given);

// The processor or GPU of this machine, from its measured ceilings (a GPU's count as of one thread).
Result<Limit> arithmetic_limit(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view dtype,
                               const Override& given);
Result<Machine> machine_of(std::span<const record::Ceiling> ceilings, std::int64_t threads, const Override& given);

// Beside what was measured, what documents say about the same product.
void cite(const hardware::Spec& spec, std::string_view dtype, Limit& arithmetic);
void cite(const hardware::Spec& spec, Machine& machine);

}  // namespace ridge::roofline
