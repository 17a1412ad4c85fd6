#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {
namespace {

constexpr std::string_view kOp = "expert_order";

std::vector<record::ParamInfo> params() {
  return {{"tokens", "256", "rows of experts", {}},
          {"experts", "64", "how many there are, 1 to 4096", {}},
          {"top", "8", "choices of a token, from 1", {}},
          {"align", "1", "the rows of each expert begin at a multiple of it, 1 to 1024", {}}};
}

// Of a case and of a call, in the same words.
Status check_sizes(std::string_view where, const Shape& s) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (s.experts < 1 || s.experts > kMostExperts) {
    return with_hint(invalid("{}: {} experts", where, s.experts), fmt::format("give 1 to {}", kMostExperts));
  }
  if (s.align < 1 || s.align > kMostAlign) {
    return with_hint(invalid("{}: align={}", where, s.align), fmt::format("give 1 to {}", kMostAlign));
  }
  if (s.top < 1 || s.top > kMost) return with_hint(invalid("{}: top={}", where, s.top), "give 1 and up");
  const std::int64_t room = kMost - s.experts * s.align;  // above 2^30
  if (s.tokens >= 0 && s.tokens <= room / s.top) return ok_status();
  return with_hint(invalid("{}: {} tokens with {} choices each", where, s.tokens, s.top),
                   "give so few that sorted rows are counted in 31 bits");
}

Result<Problem> bind(const record::Case& requested) {
  RIDGE_TRY(problem, bind_params(kOp, params(), requested));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_sizes(problem.problem_case.text(), s));
  OperandSpec experts{"experts", DType::kI32, {s.tokens, s.top}};
  experts.fill = {Fill::Rule::kIndices, -1, static_cast<double>(s.experts - 1)};
  problem.operands = {std::move(experts),
                      {"offsets", DType::kI32, {s.experts + 1}, true},
                      {"tokens", DType::kI32, {s.places()}, true},
                      {"rows", DType::kI32, {s.tokens, s.top}, true},
                      {"choices", DType::kI32, {s.places()}, true}};
  return problem;
}

Status check_vector(std::string_view name, const TensorView& view, std::int64_t count) {
  return check_per_row(kOp, name, view, DType::kI32, count);
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_layout(kOp, "experts", args.experts, 2, "copy it to a row-major matrix"));
  if (args.experts.dtype != DType::kI32) {
    return with_hint(invalid("{}: experts is {}", kOp, args.experts.describe()), "give [tokens, top] of i32");
  }
  if (args.offsets.rank != 1 || args.offsets.shape[0] < 2) {
    return with_hint(invalid("{}: offsets is {}", kOp, args.offsets.describe()), "give [experts + 1] of i32");
  }
  const Shape s{args.experts.shape[0], args.offsets.shape[0] - 1, args.experts.shape[1], args.align};
  RIDGE_CHECK_OK(check_sizes(kOp, s));
  RIDGE_CHECK_OK(check_vector("offsets", args.offsets, s.experts + 1));
  RIDGE_CHECK_OK(check_vector("tokens", args.tokens, s.places()));
  RIDGE_CHECK_OK(check_vector("choices", args.choices, s.places()));
  const std::int64_t shape[] = {s.tokens, s.top};
  RIDGE_CHECK_OK(check_shape(kOp, "rows", args.rows, DType::kI32, shape, "give a matrix of the shape of experts"));
  RIDGE_CHECK_OK(check_layout(kOp, "rows", args.rows, 2, "give row-major memory for it"));
  const NamedView experts{"experts", &args.experts}, offsets{"offsets", &args.offsets}, tokens{"tokens", &args.tokens},
      rows{"rows", &args.rows}, choices{"choices", &args.choices};
  RIDGE_CHECK_OK(check_apart(kOp, offsets, {experts, tokens, rows, choices}));
  RIDGE_CHECK_OK(check_apart(kOp, tokens, {experts, rows, choices}));
  RIDGE_CHECK_OK(check_apart(kOp, rows, {experts, choices}));
  return check_apart(kOp, choices, {experts});
}

}  // namespace

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  Call call;
  call.values.resize(kParamCount);
  call.values[kTokens] = args.experts.shape[0];
  call.values[kExperts] = args.offsets.shape[0] - 1;
  call.values[kTop] = args.experts.shape[1];
  call.values[kAlign] = args.align;
  for (const TensorView* view : {&args.experts, &args.offsets, &args.tokens, &args.rows, &args.choices}) {
    call.operands.push_back(*view);
  }
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "the choices of a router sorted by expert: offsets, sorted rows, and where each choice went";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  return op;
}

}  // namespace ridge::ops::expert_order
