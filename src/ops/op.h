// What an operator folder provides, and nothing about how an implementation is chosen (that is src/dispatch).
//
// An operator binds a record::Case to a Problem: the list of operands with dtype and shape, inputs first. Everything
// generic (conformance table, bench, campaign, worker) works on Problems and never on a named operator.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/case.h"
#include "record/measurement.h"
#include "record/worker.h"
#include "ridge/dtype.h"
#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge::ops {

struct OperandSpec {
  std::string name;  // "a", "b", "c"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  bool output = false;
  bool read_write = false;  // an output whose old content matters (beta != 0)

  [[nodiscard]] std::int64_t element_count() const;
};

// A case bound by its operator: normalised parameters and operands in call order.
struct Problem {
  record::Case problem_case;  // every parameter present, in the operator's order
  std::vector<OperandSpec> operands;
};

// Reference values of one output in fp64, from the inputs as stored (already rounded), and how far a correct
// implementation of the declared accumulation type may be from each.
struct ReferenceOutput {
  std::vector<double> value;
  std::vector<double> allowed;  // |x - value| <= allowed, from the operator's error model
};

// The operator's cheap check of a whole output on secret random vectors: O(inputs + outputs) work in fp64.
struct SpotCheck {
  double residual = 0;  // what was found
  double allowed = 0;   // above it the output is wrong; calibrated so that one element off by its
                        // element-wise tolerance times `blind_factor` is seen
  bool finite = true;
  std::string detail;  // where, on a failure
};

// Why an implementation cannot run a case: a sentence with the values. Empty optional: it can.
using Refusal = std::optional<std::string>;

// What an implementation may ask about the machine.
struct DeviceInfo {
  Backend backend = Backend::kCpu;
  std::string name;                   // "Intel(R) Xeon(R) Processor", "NVIDIA H200"
  std::string arch;                   // "x86-64", "sm_90a"
  std::vector<std::string> features;  // "avx2", "fma", "avx512f", ...
  [[nodiscard]] bool has(std::string_view feature) const;
};

struct Implementation {
  std::string name;  // <backend>_<idea>: "cpu_simd", "reference"
  Backend backend = Backend::kCpu;
  std::string summary;  // one line
  bool vendor = false;  // a peer library's, not ours
  std::function<Refusal(const Problem&, const DeviceInfo&)> supports;
  std::function<Status(const Problem&, std::span<const TensorView> operands, const Stream&)> run;
};

// Which list of cases is wanted.
enum class CaseSet {
  kCheck,  // edges: 0, 1, primes, one below and above tile sizes, every dtype and layout; small enough to run all
  kBench,  // the shapes people train with, at a size this backend runs in about a second
  kTarget  // what `ridge optimize` uses unless told otherwise
};

struct Operator {
  std::string name, summary;
  std::vector<record::ParamInfo> params;  // in order; missing ones take their default
  // Checks the parameters; the error names the value and what is allowed.
  std::function<Result<Problem>(const record::Case&)> bind;
  // Values and allowed errors of every output. Shares no code with any kernel.
  std::function<Result<std::vector<ReferenceOutput>>(const Problem&, std::span<const TensorView>)> reference;
  std::function<Result<SpotCheck>(const Problem&, std::span<const TensorView>, std::uint64_t seed)> spot_check;
  std::function<record::Cost(const Problem&)> cost;
  std::function<std::vector<record::Case>(CaseSet, Backend)> cases;
  std::vector<Implementation> implementations;  // best first, reference last
};

// The operators of this build, from the list that cmake/ridge_ops.cmake generates.
std::span<const Operator> operators();
// The error of an unknown name lists the known ones.
Result<const Operator*> find_operator(std::string_view name);

}  // namespace ridge::ops
