#include <algorithm>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/grouped_gemm/grouped_gemm.h"

namespace ridge::ops::grouped_gemm {
namespace {

constexpr std::string_view kOp = "grouped_gemm";
constexpr std::string_view kCopy = "copy it to row-major matrices";

std::string operand_text(const Args& args) {
  return fmt::format("A {}{}, B {}{}, C {}", args.a.describe(), args.trans_a ? " transposed" : "", args.b.describe(),
                     args.trans_b ? " transposed" : "", args.c.describe());
}

Status check_dtypes(const Args& args) {
  if (args.a.dtype != args.b.dtype || index_of(kDtypes, args.a.dtype) < 0) {
    return with_hint(invalid("{}: {}: these dtypes are not supported", kOp, operand_text(args)),
                     "give A and B the same one of f32, bf16, f16");
  }
  if (args.c.dtype != args.a.dtype && args.c.dtype != DType::kF32) {
    return with_hint(invalid("{}: {}: C cannot be {}", kOp, operand_text(args), to_string(args.c.dtype)),
                     fmt::format("give C the dtype {} or f32", to_string(args.a.dtype)));
  }
  if (index_of(kOffsetTypes, args.offsets.dtype) < 0) {
    return with_hint(invalid("{}: offsets is {}", kOp, args.offsets.describe()), "give i32 or i64");
  }
  return ok_status();
}

Status check_layouts(const Args& args) {
  if (args.trans_a && args.trans_b) {
    return with_hint(
        invalid("{}: {}: trans_a sums over the rows of both, so B cannot be transposed", kOp, operand_text(args)),
        "drop trans_b");
  }
  if (args.accumulate && !args.trans_a) {
    return with_hint(invalid("{}: {}: accumulate without trans_a", kOp, operand_text(args)),
                     "only sums over rows are added to C; add the product of rows afterwards");
  }
  RIDGE_CHECK_OK(check_layout(kOp, "A", args.a, 2, kCopy));
  RIDGE_CHECK_OK(check_layout(kOp, "B", args.b, args.trans_a ? 2 : 3, kCopy));
  RIDGE_CHECK_OK(check_layout(kOp, "C", args.c, args.trans_a ? 3 : 2, kCopy));
  return check_layout(kOp, "offsets", args.offsets, 1, "give a contiguous vector");
}

// The index of a call; of none a view without a rank.
struct GivenIndex {
  Gather gather;
  const char* name;
  TensorView view;
};
GivenIndex given_index(const Args& args) {
  if (args.index_a.rank != 0) return {kOfA, "index_a", args.index_a};
  if (args.index_b.rank != 0) return {kOfB, "index_b", args.index_b};
  return {kNone, "", {}};
}

// Of an index that is given: what it may be beside.
Status check_given_index(const Args& args) {
  const GivenIndex index = given_index(args);
  if (index.gather == kNone) return ok_status();
  if (args.index_a.rank != 0 && args.index_b.rank != 0) {
    return with_hint(
        invalid("{}: index_a is {} and index_b is {}", kOp, args.index_a.describe(), args.index_b.describe()),
        "rows of one operand are found by index; copy the other's (combine_rows)");
  }
  if (args.index_b.rank != 0 && !args.trans_a) {
    return with_hint(invalid("{}: index_b without trans_a", kOp),
                     "B is a stack of matrices; give index_a to find rows of A");
  }
  return check_layout(kOp, index.name, index.view, 1, "give a contiguous vector");
}

Epilogue epilogue_of(const Args& args) {
  return args.y.rank == 0 ? kSums : args.gate_up.rank == 0 ? kSwiglu : kSwigluBackward;
}

// Of SwiGLU and its gradients: what goes together.
Status check_swiglu(const Args& args) {
  const bool probs = args.probs.rank != 0, backward = args.gate_up.rank != 0;
  if (args.y.rank == 0) {
    if (!probs && !backward && args.dprobs.rank == 0) return ok_status();
    return with_hint(invalid("{}: {} without y", kOp,
                             backward ? "gate_up"
                             : probs  ? "probs"
                                      : "dprobs"),
                     "give y, which is SwiGLU of C, or of gate_up");
  }
  if (args.trans_a) {
    return with_hint(invalid("{}: y with trans_a", kOp), "SwiGLU is made of rows; leave y out of sums over them");
  }
  if (args.c.dtype != args.a.dtype) {
    return with_hint(invalid("{}: {}: C cannot be {} beside y", kOp, operand_text(args), to_string(args.c.dtype)),
                     fmt::format("give C the dtype {}", to_string(args.a.dtype)));
  }
  if ((args.dprobs.rank != 0) != (backward && probs)) {
    return with_hint(invalid("{}: probs {}, gate_up {}, dprobs {}", kOp, args.probs.describe(), args.gate_up.describe(),
                             args.dprobs.describe()),
                     "with gate_up the gradient of probs is made: give both or none; without there is none");
  }
  RIDGE_CHECK_OK(check_layout(kOp, "y", args.y, 2, kCopy));
  return backward ? check_layout(kOp, "gate_up", args.gate_up, 2, kCopy) : ok_status();
}

Status check_swiglu_sizes(const Args& args, const Shape& s) {
  if (s.epilogue == kSums) return ok_status();
  if (s.epilogue == kSwiglu && s.n % 2 != 0) {
    return with_hint(invalid("{}: C {} with y", kOp, args.c.describe()),
                     "give a B whose columns are those of gate and as many of up");
  }
  const std::int64_t y[] = {s.rows, s.inner()}, gate_up[] = {s.rows, s.c_columns()};
  RIDGE_CHECK_OK(check_like_x(kOp, "y", args.y, s.dtype, y));
  if (s.epilogue == kSwigluBackward) RIDGE_CHECK_OK(check_like_x(kOp, "gate_up", args.gate_up, s.dtype, gate_up));
  if (s.probs) RIDGE_CHECK_OK(check_per_row(kOp, "probs", args.probs, DType::kF32, s.rows));
  if (args.dprobs.rank != 0) RIDGE_CHECK_OK(check_per_row(kOp, "dprobs", args.dprobs, DType::kF32, s.rows));
  return ok_status();
}

// Nothing that is written lies in anything else.
Status check_memory(const Args& args, const TensorView& index) {
  const NamedView c{"C", &args.c}, y{"y", &args.y}, dprobs{"dprobs", &args.dprobs};
  for (const NamedView& output : {c, y, dprobs}) {
    RIDGE_CHECK_OK(check_apart(kOp, output,
                               {{"A", &args.a},
                                {"B", &args.b},
                                {"offsets", &args.offsets},
                                {"index", &index},
                                {"gate_up", &args.gate_up},
                                {"probs", &args.probs}}));
  }
  RIDGE_CHECK_OK(check_apart(kOp, c, {y, dprobs}));
  return check_apart(kOp, y, {dprobs});
}

Status check_sizes(const Args& args, const Shape& s) {
  const TensorView& stack = s.along_sums ? args.c : args.b;
  RIDGE_CHECK_OK(check_group_count(kOp, stack.shape[0], args.offsets.shape[0]));
  const std::int64_t rows[] = {s.rows}, a_rows[] = {s.gather == kOfA ? s.sources : s.rows, s.along_sums ? s.m : s.k};
  const std::int64_t b_rows[] = {s.gather == kOfB ? s.sources : s.rows, s.n}, b_stack_nn[] = {s.groups, s.k, s.n},
                     b_stack_nt[] = {s.groups, s.n, s.k};
  const std::int64_t c_rows[] = {s.rows, s.c_columns()}, c_stack[] = {s.groups, s.m, s.n};
  const auto fits = [&](const char* name, const TensorView& view, std::span<const std::int64_t> shape) {
    return check_shape(kOp, name, view, view.dtype, shape,
                       [&] { return fmt::format("{}; check trans_a and trans_b", operand_text(args)); });
  };
  if (s.gather != kNone) {
    const GivenIndex index = given_index(args);
    RIDGE_CHECK_OK(check_shape(kOp, index.name, index.view, DType::kI32, rows,
                               "give the i32 number of a row for each row of the groups"));
  }
  RIDGE_CHECK_OK(fits("A", args.a, a_rows));
  if (s.along_sums) {
    RIDGE_CHECK_OK(fits("B", args.b, b_rows));
    return fits("C", args.c, c_stack);
  }
  RIDGE_CHECK_OK(
      fits("B", args.b,
           args.trans_b ? std::span<const std::int64_t>(b_stack_nt) : std::span<const std::int64_t>(b_stack_nn)));
  return fits("C", args.c, c_rows);
}

Status check_epilogue(const Problem& problem, const Shape& s) {
  const std::string text = problem.problem_case.text();
  if (s.epilogue == kSums) {
    return s.probs
               ? with_hint(invalid("{}: probs=1 without epilogue", text), "only SwiGLU is made with factors of rows")
               : ok_status();
  }
  if (s.along_sums) {
    return with_hint(invalid("{}: epilogue with layout=tn", text), "SwiGLU is made of rows; sums over them have none");
  }
  if (s.out != s.dtype) {
    return with_hint(invalid("{}: epilogue with out=f32", text), "C, y and gate_up have the dtype of A: leave out out");
  }
  if (s.epilogue == kSwiglu && s.n % 2 != 0) {
    return with_hint(invalid("{}: n={}", text, s.n), "the columns are those of gate and as many of up");
  }
  return ok_status();
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "out", "offsets"});
  if (!canonical.get("out").empty() && canonical.get("out") == canonical.get("dtype", "bf16")) {
    canonical.set("out", "same");
  }
  const std::string layout(canonical.get("layout", "nt"));
  complete_sources(canonical, canonical.get("gather", "none") != "none");
  RIDGE_TRY(whole, with_group_depth(std::move(canonical), layout == "tn", "layout=" + layout));
  RIDGE_TRY(problem, bind_params(kOp, params(), whole));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_group_count(kOp, s.groups, s.groups + 1));
  if (s.accumulate && !s.along_sums) {
    return with_hint(invalid("{}: accumulate=1 without layout=tn", problem.problem_case.text()),
                     "only sums over rows are added to C");
  }
  RIDGE_CHECK_OK(check_epilogue(problem, s));
  if (s.gather == kOfB && !s.along_sums) {
    return with_hint(invalid("{}: gather=b without layout=tn", problem.problem_case.text()),
                     "B is a stack of matrices; gather=a finds rows of A");
  }
  if (s.gather == kNone && s.sources != 0) {
    return with_hint(invalid("{}: sources={} without gather", problem.problem_case.text(), s.sources),
                     "say whose rows are found by index: gather=a or gather=b");
  }
  const std::vector<std::int64_t> stack = s.along_sums ? std::vector{s.groups, s.m, s.n}
                                          : s.trans_b  ? std::vector{s.groups, s.n, s.k}
                                                       : std::vector{s.groups, s.k, s.n};
  const auto rows_of_operand = [&](Gather which) { return s.gather == which ? s.sources : s.rows; };
  OperandSpec offsets{"offsets", s.offsets, {s.groups + 1}};
  offsets.fill = offsets_fill(problem.values[kLoad], s.rows);
  problem.operands = {{"a", s.dtype, {rows_of_operand(kOfA), s.along_sums ? s.m : s.k}},
                      {"b", s.dtype, s.along_sums ? std::vector{rows_of_operand(kOfB), s.n} : stack},
                      std::move(offsets)};
  if (s.gather != kNone) problem.operands.push_back(index_operand(s.rows, s.sources));
  if (s.epilogue == kSwigluBackward) problem.operands.push_back({"gate_up", s.dtype, {s.rows, 2 * s.n}});
  if (s.probs) problem.operands.push_back({"probs", DType::kF32, {s.rows}});
  problem.operands.push_back(
      {"c", s.out, s.along_sums ? stack : std::vector{s.rows, s.c_columns()}, true, s.accumulate});
  if (s.epilogue != kSums) problem.operands.push_back({"y", s.dtype, {s.rows, s.inner()}, true});
  if (s.probs && s.epilogue == kSwigluBackward) problem.operands.push_back({"dprobs", DType::kF32, {s.rows}, true});
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

}  // namespace

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of all groups together, and of none", {}},
          {"groups", "4", "matrices of the stack", {}},
          {"m", "0", "rows of each C, with layout=tn", {}},
          {"n", "256", "columns of C", {}},
          {"k", "0", "terms of each sum, without", {}},
          {"dtype", "bf16", "of A and B", {"f32", "bf16", "f16"}},
          {"out", "same", "dtype of C", {"same", "f32"}},
          {"layout", "nt", "nn, nt: rows of A times a B for each group; tn: sums over the rows", {"nn", "nt", "tn"}},
          record::flag_param("accumulate", "1: C += the sums"),
          {"offsets", "i32", "their dtype", {"i32", "i64"}},
          load_param(),
          {"gather", "none", "the operand whose rows are found by an index", {"none", "a", "b"}},
          {"sources", "0", "rows of that operand; left out: as many as rows", {}},
          {"epilogue",
           "none",
           "what is made of the sums: SwiGLU of C, or its gradients",
           {"none", "swiglu", "swiglu_backward"}},
          record::flag_param("probs", "1: SwiGLU times a factor of each row")};
}

Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const DType dtype = kDtypes[v[kDtype]];
  return Shape{v[kRows],
               v[kGroups],
               v[kM],
               v[kN],
               v[kK],
               dtype,
               v[kOut] == kOutF32 ? DType::kF32 : dtype,
               kOffsetTypes[v[kOffsets]],
               v[kLayout] == kTn,
               v[kLayout] == kNt,
               v[kAccumulate] == 1,
               v[kGather],
               v[kSources],
               v[kEpilogue],
               v[kProbs] == 1};
}

std::vector<std::int64_t> offsets_of(std::span<const TensorView> operands) {
  return read_offsets(operands[kOffsetsOperand]);
}

Status check_numbers(const Problem& problem, std::span<const TensorView> operands,
                     std::span<const std::int64_t> offsets) {
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_offsets(kOp, offsets, s.rows));
  if (s.gather == kNone) return ok_status();
  return check_index(kOp, operands[s.index()], offsets, s.sources, s.gather == kOfA ? "A" : "B");
}

GroupedOutput output_of(const Shape& s, std::span<const TensorView> operands, std::span<const std::int64_t> offsets) {
  return {operands[s.c()], offsets, s.along_sums, s.accumulate};
}

GroupProduct product_of(const Shape& s, std::span<const TensorView> operands, std::span<const std::int64_t> offsets,
                        std::int64_t group) {
  const auto g = static_cast<std::size_t>(group);
  const std::int64_t first = offsets[g], last = offsets[g + 1];
  const auto part_of = [&](Operand operand, Gather which) {
    return s.gather == which ? operands[operand] : rows_of(operands[operand], first, last);
  };
  GroupProduct p;
  p.a = part_of(kA, kOfA);
  if (s.gather != kNone) {
    p.index = {static_cast<const std::int32_t*>(operands[s.index()].data) + first,
               static_cast<std::size_t>(last - first)};
  }
  p.n = s.n;
  if (s.along_sums) {
    p.b = part_of(kB, kOfB), p.c = matrix_of(operands[s.c()], group);
    p.trans_a = true;
    p.m = s.m, p.k = last - first;
  } else {
    p.b = matrix_of(operands[kB], group), p.c = rows_of(operands[s.c()], first, last);
    p.trans_b = s.trans_b;
    p.m = last - first, p.k = s.k;
  }
  return p;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_layouts(args));
  RIDGE_CHECK_OK(check_dtypes(args));
  RIDGE_CHECK_OK(check_given_index(args));
  RIDGE_CHECK_OK(check_swiglu(args));
  Shape s;
  s.along_sums = args.trans_a;
  s.trans_b = args.trans_b;
  const GivenIndex given = given_index(args);
  const TensorView& index = given.view;
  s.gather = given.gather;
  s.rows = s.gather == kOfA ? index.shape[0] : args.a.shape[0];
  s.sources = s.gather == kOfA ? args.a.shape[0] : s.gather == kOfB ? args.b.shape[0] : 0;
  s.groups = s.along_sums ? args.c.shape[0] : args.b.shape[0];
  s.dtype = args.a.dtype;
  s.epilogue = epilogue_of(args);
  s.probs = args.probs.rank != 0;
  s.n = args.c.shape[s.along_sums ? 2 : 1] / (s.epilogue == kSwigluBackward ? 2 : 1);
  (s.along_sums ? s.m : s.k) = args.a.shape[1];
  RIDGE_CHECK_OK(check_sizes(args, s));
  RIDGE_CHECK_OK(check_swiglu_sizes(args, s));
  RIDGE_CHECK_OK(check_memory(args, index));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = s.rows;
  call.values[kGroups] = s.groups;
  call.values[kM] = s.m;
  call.values[kN] = s.n;
  call.values[kK] = s.k;
  call.values[kDtype] = index_of(kDtypes, args.a.dtype);
  call.values[kOut] = args.c.dtype == args.a.dtype ? kOutSame : kOutF32;
  call.values[kLayout] = s.along_sums ? kTn : s.trans_b ? kNt : kNn;
  call.values[kAccumulate] = args.accumulate ? 1 : 0;
  call.values[kOffsets] = index_of(kOffsetTypes, args.offsets.dtype);
  call.values[kGather] = s.gather;
  call.values[kSources] = s.sources;
  call.values[kEpilogue] = s.epilogue;
  call.values[kProbs] = s.probs ? 1 : 0;
  for (const TensorView* view : {&args.a, &args.b, &args.offsets}) call.operands.push_back(*view);
  for (const TensorView* view : {&index, &args.gate_up, &args.probs, &args.c, &args.y, &args.dprobs}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  return call;
}

namespace {

// The gradient of an input, as a call of this operator. Every product of the three kinds has gradients of the other
// two; rows of A, or of B, that are found by index are found so there.
Args gradient_of(const Args& f, bool of_b, const TensorView& grad_c, const TensorView& grad) {
  Args made;
  made.offsets = f.offsets, made.c = grad;
  if (f.trans_a) {  // C[g] = A_g^T B_g
    made.a = of_b ? f.a : f.b, made.b = grad_c;
    made.index_a = of_b ? f.index_a : f.index_b;
    made.trans_b = !of_b;
  } else if (!of_b) {
    made.a = grad_c, made.b = f.b;
    made.trans_b = !f.trans_b;
  } else {
    made.a = f.trans_b ? grad_c : f.a, made.b = f.trans_b ? f.a : grad_c;
    (f.trans_b ? made.index_b : made.index_a) = f.index_a;
    made.trans_a = true;
  }
  return made;
}

Gradient gradient(std::string input, bool of_b) {
  return {std::move(input), std::string(kOp),
          [of_b](const Problem& problem, std::span<const TensorView> operands, const TensorView& grad_output,
                 const TensorView& grad_input) -> Result<Call> {
            const Shape s = shape_of(problem);
            if (s.epilogue != kSums) {
              return with_hint(make_error(ErrorCode::kUnsupported, "{}: SwiGLU has no gradient that is one call",
                                          problem.problem_case.text()),
                               "call grouped_gemm with gate_up, and for the gradient of B along sums");
            }
            if (s.gather == (of_b ? kOfB : kOfA)) {
              return with_hint(make_error(ErrorCode::kUnsupported,
                                          "{}: a row that is found by index has the gradients of all rows that name it",
                                          problem.problem_case.text()),
                               "take the gradient of a call without an index, and add its rows up by combine_rows");
            }
            Args forward;
            forward.a = operands[kA], forward.b = operands[kB], forward.offsets = operands[kOffsetsOperand];
            forward.trans_a = s.along_sums, forward.trans_b = s.trans_b;
            if (s.gather != kNone) (s.gather == kOfA ? forward.index_a : forward.index_b) = operands[s.index()];
            return make_call(gradient_of(forward, of_b, grad_output, grad_input));
          }};
}

// For launch plans: of what address and rows of y and gate_up are multiples, in bytes.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts) {
  const Shape s = shape_of(problem);
  std::int64_t least = 16;
  if (s.epilogue != kSums) least = view_alignment(operands[s.y()]);
  if (s.epilogue == kSwigluBackward) least = std::min<std::int64_t>(least, view_alignment(operands[s.gate_up()]));
  facts["swiglu_align"] = least;
}

}  // namespace

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "products of a stack of matrices with the rows of their groups, which are known to the device alone";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.device_check = device_check();
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.excuses = [](const Problem& problem, numerics::Family family) {
    const Shape s = shape_of(problem);
    if (family == numerics::Family::kDenormals) return s.dtype == DType::kBf16;
    // Gate times up may leave the range of f16, and then the last bit of C says whether it does.
    return s.epilogue != kSums && s.dtype == DType::kF16 &&
           (family == numerics::Family::kScaled || family == numerics::Family::kHeavyTails);
  };
  op.gradients = {gradient("a", false), gradient("b", true)};
  return op;
}

}  // namespace ridge::ops::grouped_gemm
