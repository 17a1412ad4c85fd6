#include "ops/coding/coding.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace ridge::ops::coding {
namespace {

struct Sizes {
  std::int64_t rows = 0, cols = 0;
};

TensorView scalar(const float* value) { return TensorView::contiguous(const_cast<float*>(value), DType::kF32, {1}); }

// Of a copy.
Sizes sizes_of(std::int64_t rows, std::int64_t cols, std::int64_t plain_rows, bool transposed) {
  if (transposed) return {cols, rows};
  return {plain_rows < 0 ? rows : plain_rows, cols};
}
Sizes sizes_of(const Coding& c, bool transposed) { return sizes_of(c.rows, c.cols, c.plain_rows, transposed); }

std::vector<std::int64_t> scale_shape_of(Granularity granularity, std::int64_t segments, const Sizes& copy,
                                         bool transposed) {
  if (segments != 0 && transposed && granularity == Granularity::kRow) return {segments, copy.rows};
  return scale_shape(granularity, copy.rows, copy.cols);
}

Status check_copy(std::string_view op, const Views& views, const TensorView& x, std::string_view x_name,
                  bool transposed, DType format) {
  const char* const name = transposed ? "q_t" : "q";
  const char* const scale_name = transposed ? "scale_t" : "scale";
  const TensorView &q = transposed ? views.q_t : views.q, &scale = transposed ? views.scale_t : views.scale;
  const Sizes sizes = sizes_of(x.shape[0], x.shape[1], views.plain_rows, transposed);
  const std::int64_t shape[] = {sizes.rows, sizes.cols};
  RIDGE_CHECK_OK(check_shape(op, name, q, format, shape, [&] {
    return fmt::format("{} is {}{}", x_name, x.describe(),
                       transposed ? "; q_t is its transpose, in the format of q" : "");
  }));
  RIDGE_CHECK_OK(check_layout(op, name, q, 2, "give a row-major matrix"));
  const std::vector<std::int64_t> scales = scale_shape_of(views.granularity, views.segments, sizes, transposed);
  RIDGE_CHECK_OK(check_shape(op, scale_name, scale, scale_dtype(views.granularity), scales, [&] {
    return fmt::format("the layout of {} scales is in ridge/scaling.h", to_string(views.granularity));
  }));
  return check_layout(op, scale_name, scale, static_cast<int>(scales.size()), "give contiguous scales");
}

Status check_rule(std::string_view op, Granularity granularity, ScaleRule rule) {
  if (granularity != Granularity::kMx || rule != ScaleRule::kExact) return ok_status();
  return with_hint(invalid("{}: mx scales are powers of two; they cannot follow kExact (amax / fmax)", op),
                   "choose kFloor (the MX specification's), kEven or kCeil");
}

Status check_given(std::string_view op, const Views& views, std::string_view x_name) {
  if ((views.amax == nullptr) != (views.found == nullptr)) {
    return with_hint(
        invalid("{}: {} is given and {} is null", op, views.amax != nullptr ? "amax" : "found",
                views.amax != nullptr ? "found" : "amax"),
        fmt::format("give both (a scale made of amax, and {}'s own largest magnitude), or neither", x_name));
  }
  if (views.amax == nullptr || views.granularity == Granularity::kTensor) return ok_status();
  return with_hint(
      invalid("{}: amax is one largest magnitude, and {} scales are many", op, to_string(views.granularity)),
      "use kTensor, or leave amax and found out");
}

}  // namespace

Coding coding_of(const Problem& problem, std::size_t first, std::int64_t rows, std::int64_t cols) {
  const auto at = [&](Param param) { return static_cast<std::size_t>(problem.values[first + param]); };
  return Coding{rows,
                cols,
                kFormats[at(kFormat)],
                kGranularities[at(kScaling)],
                kRules[at(kScale)],
                static_cast<Copies>(at(kCopies)),
                at(kRounding) == 1,
                at(kAmax) == 1};
}

std::vector<std::int64_t> scale_shape_of(const Coding& c, bool transposed) {
  return scale_shape_of(c.granularity, c.segments, sizes_of(c, transposed), transposed);
}

Coding copy_alone(const Coding& both, bool transposed) {
  Coding one = both;
  one.copies = transposed ? kTransposed : kAsIs;
  if (!transposed) one.rows = sizes_of(both, false).rows, one.behind = 2;
  one.plain_rows = -1;
  return one;
}

std::vector<Copy> copies_of(const Problem& problem, const Coding& coding) {
  std::vector<Copy> copies;
  std::size_t next =
      problem.operands.size() - coding.behind - (coding.given ? 1 : 0) - (coding.copies == kBoth ? 4 : 2);
  for (const bool transposed : {false, true}) {
    if (coding.copies == (transposed ? kAsIs : kTransposed)) continue;
    copies.push_back({transposed, next});
    next += 2;
  }
  return copies;
}

Result<std::uint32_t> given_amax(const Problem& problem, std::span<const TensorView> operands, const Coding& coding) {
  if (!coding.given) return std::uint32_t{0};
  float amax = 0;
  std::memcpy(&amax, operand(problem, operands, "amax").data, sizeof amax);
  if (std::isfinite(amax) && amax >= 0) return std::bit_cast<std::uint32_t>(std::fabs(amax));  // -0 is 0
  return with_hint(invalid("{}: amax is {}", problem.problem_case.text(), amax),
                   "give a finite magnitude, or 0 where there is none yet");
}

void add_params(std::vector<record::ParamInfo>& params, std::string_view usual_scaling) {
  params.push_back({"format", "e4m3fn", "of the codes", {"e4m3fn", "e5m2"}});
  params.push_back({"scaling",
                    std::string(usual_scaling),
                    "elements that share a scale",
                    {"tensor", "row", "1x128", "128x128", "mx"}});
  params.push_back({"scale",
                    "f32",
                    "f32: the largest element becomes fmax; else a power of two by that rule (mx: floor)",
                    {"f32", "floor", "even", "ceil"}});
  params.push_back({"copies", "row", "row: of x, column: of its transpose", {"row", "column", "both"}});
  params.push_back({"rounding", "nearest", "of the codes", {"nearest", "stochastic"}});
  params.push_back({"amax",
                    "own",
                    "that the scale of a tensor is made of; given: an operand, and x's own is an output",
                    {"own", "given"}});
}

void complete(record::Case& canonical) {
  // The MX specification's rule.
  if (canonical.get("scale").empty() && canonical.get("scaling") == "mx") canonical.set("scale", "floor");
}

Status add_operands(Problem& problem, const Coding& c, std::vector<OperandSpec> other_outputs) {
  if (c.granularity == Granularity::kMx && c.rule == ScaleRule::kExact) {
    return with_hint(invalid("{}: mx scales are powers of two", problem.problem_case.text()),
                     "scale is one of floor, even, ceil");
  }
  if (c.given && c.granularity != Granularity::kTensor) {
    return with_hint(invalid("{}: amax=given is one largest magnitude, and {} scales are many",
                             problem.problem_case.text(), to_string(c.granularity)),
                     "use scaling=tensor, or amax=own");
  }
  if (c.stochastic) problem.operands.push_back({"random", DType::kU64, {2}, false, false});
  if (c.given) {
    Fill magnitude;
    magnitude.rule = Fill::Rule::kUniform, magnitude.most = 4;
    problem.operands.push_back({"amax", DType::kF32, {1}, false, false, magnitude});
  }
  for (OperandSpec& output : other_outputs) problem.operands.push_back(std::move(output));
  for (const bool transposed : {false, true}) {
    if (c.copies == (transposed ? kAsIs : kTransposed)) continue;
    const Sizes sizes = sizes_of(c, transposed);
    problem.operands.push_back({transposed ? "q_t" : "q", c.format, {sizes.rows, sizes.cols}, true, false});
    problem.operands.push_back(
        {transposed ? "scale_t" : "scale", scale_dtype(c.granularity), scale_shape_of(c, transposed), true, false});
  }
  if (c.given) problem.operands.push_back({"found", DType::kF32, {1}, true, false});
  return ok_status();
}

Status check(std::string_view op, const Views& views, const TensorView& x, std::span<const NamedView> others,
             std::string_view name) {
  const bool plain = views.q.rank != 0, transposed = views.q_t.rank != 0;
  if (!plain && !transposed) {
    return with_hint(invalid("{}: neither q nor q_t is given", op), "give one pair of codes and scales, or both");
  }
  const TensorView& codes = plain ? views.q : views.q_t;
  if (index_of(kFormats, codes.dtype) < 0) {
    return with_hint(invalid("{}: {} is {}; this format is not supported", op, plain ? "q" : "q_t", codes.describe()),
                     "give e4m3fn or e5m2");
  }
  RIDGE_CHECK_OK(check_rule(op, views.granularity, views.rule));
  RIDGE_CHECK_OK(check_given(op, views, name));
  if (plain) RIDGE_CHECK_OK(check_copy(op, views, x, name, false, codes.dtype));
  if (transposed) RIDGE_CHECK_OK(check_copy(op, views, x, name, true, codes.dtype));
  const TensorView none, found_view = views.found != nullptr ? scalar(views.found) : none,
                         amax_view = views.amax != nullptr ? scalar(views.amax) : none;
  const NamedView outputs[] = {{"found", &found_view},
                               {"q", plain ? &views.q : &none},
                               {"scale", plain ? &views.scale : &none},
                               {"q_t", transposed ? &views.q_t : &none},
                               {"scale_t", transposed ? &views.scale_t : &none}};
  for (const NamedView* output = std::begin(outputs); output != std::end(outputs); ++output) {
    if (output->view->rank == 0) continue;
    for (const NamedView& other : others) RIDGE_CHECK_OK(check_apart(op, *output, {other}));
    for (const NamedView* other = output + 1; other != std::end(outputs); ++other) {
      RIDGE_CHECK_OK(check_apart(op, *output, {*other}));
    }
  }
  if (views.found == nullptr) return ok_status();
  return check_apart(op, outputs[0], {{"amax", &amax_view}});
}

void add_to(Call& call, const Views& views, std::initializer_list<TensorView> other_outputs) {
  const bool plain = views.q.rank != 0, transposed = views.q_t.rank != 0;
  const std::size_t first = call.values.size();
  call.values.resize(first + kParamCount);
  const auto set = [&](Param param, std::int64_t value) { call.values[first + param] = value; };
  set(kFormat, index_of(kFormats, plain ? views.q.dtype : views.q_t.dtype));
  set(kScaling, index_of(kGranularities, views.granularity));
  set(kScale, index_of(kRules, views.rule));
  set(kCopies, plain && transposed ? kBoth : transposed ? kTransposed : kAsIs);
  set(kRounding, views.random != nullptr ? 1 : 0);
  set(kAmax, views.amax != nullptr ? 1 : 0);
  const auto add = [&call](const TensorView& view) { call.operands.push_back(view); };
  if (views.random != nullptr) {
    add(TensorView::contiguous(const_cast<std::uint64_t*>(views.random), DType::kU64, {2}));
  }
  if (views.amax != nullptr) add(scalar(views.amax));
  for (const TensorView& output : other_outputs) {
    if (output.rank != 0) add(output);
  }
  if (plain) {
    add(views.q);
    add(views.scale);
  }
  if (transposed) {
    add(views.q_t);
    add(views.scale_t);
  }
  if (views.found != nullptr) add(scalar(views.found));
}

record::Cost cost_of(const Problem& problem, const Coding& coding) {
  const auto elements = static_cast<double>(coding.rows) * static_cast<double>(coding.cols);
  record::Cost cost;
  if (elements == 0) return cost;
  for (const OperandSpec& operand : problem.operands) {
    cost.bytes += static_cast<double>(size_bytes(operand.dtype, operand.element_count()));
  }
  cost.flop = 2 * elements * (coding.copies == kBoth ? 2 : 1);
  return cost;
}

}  // namespace ridge::ops::coding
