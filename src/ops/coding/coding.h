// Matrices as 8-bit codes with scales: what quantize and every operator with a coded result have in common - their
// parameters, the operands behind their inputs, the checks of what a caller gives, and their calls.
//
// A coded matrix y [rows, cols] has, as far as they are wanted, the outputs q and scale, and of its transpose q_t and
// scale_t (ridge/scaling.h); `random` and `amax` are inputs and `found` is an output where the case says so. What y is
// made of, its operator says. Where it says that the rows of y are of several segments, a row of the transpose has a
// scale for each of them with kRow: scale_t is [segments, cols]. Where it says that q has other rows than y, that
// is the copy of another matrix, with the columns of y.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ops/arguments.h"
#include "ops/op.h"
#include "ops/scaling.h"

namespace ridge::ops::coding {

// Positions in Problem::values behind those of the operator.
enum Param : std::size_t { kFormat, kScaling, kScale, kCopies, kRounding, kAmax, kParamCount };

inline constexpr DType kFormats[] = {DType::kE4m3fn, DType::kE5m2};  // by the value of `format`
inline constexpr ScaleRule kRules[] = {ScaleRule::kExact, ScaleRule::kFloor, ScaleRule::kEven, ScaleRule::kCeil};
enum Copies : std::int64_t { kAsIs, kTransposed, kBoth };

struct Coding {
  std::int64_t rows = 0, cols = 0;
  DType format = DType::kE4m3fn;
  Granularity granularity = Granularity::kTensor;
  ScaleRule rule = ScaleRule::kExact;
  Copies copies = kAsIs;
  bool stochastic = false;
  bool given = false;            // the largest magnitude: operands `amax` and `found`
  std::int64_t segments = 0;     // of the rows of y; 0: nobody says
  std::int64_t plain_rows = -1;  // of q; -1: those of y
  std::size_t behind = 0;        // operands behind those of the copies
};
// One copy of both as if it was the only one.
Coding copy_alone(const Coding& coding, bool transposed);
// Of the scales of y, or of its transpose.
std::vector<std::int64_t> scale_shape_of(const Coding& coding, bool transposed);
// `first`: where these parameters begin.
Coding coding_of(const Problem& problem, std::size_t first, std::int64_t rows, std::int64_t cols);

// One copy that is asked for, as operands of a Problem: codes at `q`, scales behind them.
struct Copy {
  bool transposed = false;
  std::size_t q = 0;
};
std::vector<Copy> copies_of(const Problem& problem, const Coding& coding);

// Bits of the largest magnitude that a call on a processor brings along; 0: it leaves the scale to y.
Result<std::uint32_t> given_amax(const Problem& problem, std::span<const TensorView> operands, const Coding& coding);

// For bind: what the operator's parameters end with, what a case means that leaves `scale` out, and the operands behind
// the operator's inputs, with its other outputs in front of the codes; errors name the values.
void add_params(std::vector<record::ParamInfo>& params, std::string_view usual_scaling);
void complete(record::Case& canonical);
Status add_operands(Problem& problem, const Coding& coding, std::vector<OperandSpec> other_outputs = {});

// What a caller gives beside the operator's inputs; from arguments with these members.
struct Views {
  TensorView q, scale, q_t, scale_t;  // rank 0: not wanted
  Granularity granularity = Granularity::kTensor;
  ScaleRule rule = ScaleRule::kExact;
  const std::uint64_t* random = nullptr;
  const float* amax = nullptr;
  float* found = nullptr;
  std::int64_t segments = 0, plain_rows = -1;  // Coding's
};
template <class Args>
Views views_of(const Args& args) {
  return {args.q, args.scale, args.q_t, args.scale_t, args.granularity, args.rule, args.random, args.amax, args.found};
}
// For make_call: of a matrix of the shape of x, apart from everything else; other outputs of rank 0 are left out.
// `name`: what errors call x.
Status check(std::string_view op, const Views& views, const TensorView& x, std::span<const NamedView> others,
             std::string_view name = "x");
void add_to(Call& call, const Views& views, std::initializer_list<TensorView> other_outputs = {});

// 2 FLOP per element and copy, and all operands of the problem.
record::Cost cost_of(const Problem& problem, const Coding& coding);

}  // namespace ridge::ops::coding
