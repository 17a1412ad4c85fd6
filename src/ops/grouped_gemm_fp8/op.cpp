#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "ops/arguments.h"
#include "ops/grouped_gemm_fp8/grouped_gemm_fp8.h"

namespace ridge::ops::grouped_gemm_fp8 {
namespace {

constexpr std::string_view kOp = "grouped_gemm_fp8";
constexpr std::string_view kVector = "give a contiguous vector";

std::string operand_text(const Args& args) {
  return fmt::format("A {}, B {}, C {}{}", args.a.describe(), args.b.describe(), args.c.describe(),
                     args.along_sums ? ", along sums" : "");
}

Status check_dtypes(const Args& args) {
  if (index_of(kFormats, Formats{args.a.dtype, args.b.dtype}) < 0) {
    return with_hint(invalid("{}: {}: these dtypes are not supported", kOp, operand_text(args)),
                     "give A and B e4m3fn or e5m2; grouped_gemm multiplies f32, bf16 and f16");
  }
  if (index_of(kOuts, args.c.dtype) < 0) {
    return with_hint(invalid("{}: {}: C cannot be {}", kOp, operand_text(args), to_string(args.c.dtype)),
                     "give C bf16, f16 or f32");
  }
  if (index_of(kOffsetTypes, args.offsets.dtype) >= 0) return ok_status();
  return with_hint(invalid("{}: offsets is {}", kOp, args.offsets.describe()), "give i32 or i64");
}

Status check_layouts(const Args& args) {
  if (args.accumulate && !args.along_sums) {
    return with_hint(invalid("{}: {}: accumulate along rows", kOp, operand_text(args)),
                     "only sums over rows are added to C; add the product of rows afterwards");
  }
  constexpr std::string_view kCopy = "copy it to row-major matrices";
  const auto check_scale = [&](std::string_view name, const TensorView& view, const std::vector<std::int64_t>& shape) {
    return check_layout(kOp, name, view, static_cast<int>(shape.size()), shape.size() == 1 ? kVector : kCopy);
  };
  Shape form;  // no sizes yet: the scales have their ranks without them
  form.scaling = args.scaling;
  form.along_sums = args.along_sums;
  RIDGE_CHECK_OK(check_layout(kOp, "A", args.a, 2, kCopy));
  RIDGE_CHECK_OK(args.along_sums ? check_layout(kOp, "B", args.b, 2, kCopy)
                                 : check_interleaved_layout(kOp, "B", args.b, "[groups, n, k]", kCopy));
  RIDGE_CHECK_OK(check_scale("scale_a", args.scale_a, form.scale_a()));
  RIDGE_CHECK_OK(check_scale("scale_b", args.scale_b, form.scale_b()));
  RIDGE_CHECK_OK(check_layout(kOp, "C", args.c, args.along_sums ? 3 : 2, kCopy));
  if (args.index_a.rank != 0) RIDGE_CHECK_OK(check_layout(kOp, "index_a", args.index_a, 1, kVector));
  return check_layout(kOp, "offsets", args.offsets, 1, kVector);
}

// Of a call and of a case.
Status check_gather(std::string_view text, const Shape& s) {
  if (!s.gather && s.sources != 0) {
    return with_hint(invalid("{}: sources={} without gather", text, s.sources), "use gather=1, or leave sources out");
  }
  if (!s.gather || !s.along_sums) return ok_status();
  return with_hint(
      invalid("{}: rows by index along sums", text),
      "make the codes of the transposes of the rows that the index names (grouped_quantize with an index)");
}

Shape sizes_of(const Args& args) {
  Shape s;
  s.along_sums = args.along_sums;
  s.accumulate = args.accumulate;
  s.scaling = args.scaling;
  s.formats = {args.a.dtype, args.b.dtype};
  s.out = args.c.dtype;
  s.offsets = args.offsets.dtype;
  s.gather = args.index_a.rank != 0;
  s.rows = s.gather ? args.index_a.shape[0] : args.a.shape[args.along_sums ? 1 : 0];
  s.sources = s.gather ? args.a.shape[0] : 0;
  s.groups = (args.along_sums ? args.c : args.b).shape[0];
  s.n = args.b.shape[args.along_sums ? 0 : 1];
  (s.along_sums ? s.m : s.k) = args.a.shape[args.along_sums ? 0 : 1];
  return s;
}

Status check_sizes(const Args& args, const Shape& s) {
  RIDGE_CHECK_OK(check_group_count(kOp, s.groups, args.offsets.shape[0]));
  RIDGE_CHECK_OK(check_gather(kOp, s));
  const auto fits = [&](const char* name, const TensorView& view, DType dtype, const std::vector<std::int64_t>& shape) {
    return check_shape(kOp, name, view, dtype, shape,
                       [&] { return fmt::format("{}; check along_sums and scaling", operand_text(args)); });
  };
  RIDGE_CHECK_OK(fits("B", args.b, s.formats.b, s.b()));
  RIDGE_CHECK_OK(fits("C", args.c, s.out, s.c()));
  RIDGE_CHECK_OK(fits("scale_a", args.scale_a, DType::kF32, s.scale_a()));
  if (s.gather) RIDGE_CHECK_OK(fits("index_a", args.index_a, DType::kI32, {s.rows}));
  return fits("scale_b", args.scale_b, DType::kF32, s.scale_b());
}

Result<Problem> bind(const record::Case& requested) {
  const bool along_sums = requested.get("along", "rows") == "sums";
  RIDGE_TRY(whole, with_group_depth(with_dtype_names(requested, {"out", "offsets"}), along_sums,
                                    along_sums ? "along=sums" : "along=rows"));
  complete_sources(whole, whole.get("gather", "0") == "1");
  RIDGE_TRY(problem, bind_params(kOp, params(), whole));
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_group_count(kOp, s.groups, s.groups + 1));
  if (s.accumulate && !s.along_sums) {
    return with_hint(invalid("{}: accumulate=1 without along=sums", problem.problem_case.text()),
                     "only sums over rows are added to C");
  }
  RIDGE_CHECK_OK(check_gather(problem.problem_case.text(), s));
  OperandSpec offsets{"offsets", s.offsets, {s.groups + 1}};
  offsets.fill = offsets_fill(problem.values[kLoad], s.rows, s.along_sums ? kScaleBlock : 1);
  problem.operands = {{"a", s.formats.a, s.a()},
                      {"b", s.formats.b, s.b()},
                      {"scale_a", DType::kF32, s.scale_a()},
                      {"scale_b", DType::kF32, s.scale_b()},
                      std::move(offsets)};
  if (s.gather) problem.operands.push_back(index_operand(s.rows, s.sources));
  problem.operands.push_back({"c", s.out, s.c(), true, s.accumulate});
  RIDGE_CHECK_OK(check_addressable(problem));
  return problem;
}

// Scales of B have one to three dimensions, and a launch plan names only strides that there are.
void plan_values(const Problem&, std::span<const TensorView> operands, std::map<std::string, std::int64_t>& facts) {
  const TensorView& scales = operands[kScaleB];
  facts["scale_b_row"] = scales.stride[static_cast<std::size_t>(std::max(scales.rank - 2, 0))];
}

// One scale, a vector of them, or a matrix.
TensorView scales_of_group(const TensorView& scale, std::int64_t group) {
  return scale.rank == 1 ? rows_of(scale, group, group + 1) : matrix_of(scale, group);
}

}  // namespace

std::vector<std::int64_t> Shape::a() const { return {rows_of_a(), along_sums ? rows : k}; }

std::vector<std::int64_t> Shape::b() const { return along_sums ? std::vector{n, rows} : std::vector{groups, n, k}; }

std::vector<std::int64_t> Shape::scale_a() const {
  if (scaling == GroupedFp8Scaling::kTensor) return {groups};
  if (scaling == GroupedFp8Scaling::kRow) return along_sums ? std::vector{groups, m} : std::vector{rows_of_a()};
  return scale_shape(Granularity::kVector, rows_of_a(), along_sums ? rows : k);
}

std::vector<std::int64_t> Shape::scale_b() const {
  if (scaling == GroupedFp8Scaling::kTensor) return {groups};
  if (scaling == GroupedFp8Scaling::kRow) return {groups, n};
  if (along_sums) return scale_shape(Granularity::kVector, n, rows);
  std::vector<std::int64_t> stack = scale_shape(Granularity::kBlock, n, k);
  stack.insert(stack.begin(), groups);
  return stack;
}

std::vector<std::int64_t> Shape::c() const { return along_sums ? std::vector{groups, m, n} : std::vector{rows, n}; }

Granularities Shape::granularities() const {
  switch (scaling) {
    case GroupedFp8Scaling::kTensor: return {Granularity::kTensor, Granularity::kTensor};
    case GroupedFp8Scaling::kRow: return {Granularity::kRow, Granularity::kRow};
    case GroupedFp8Scaling::kBlock: break;
  }
  return {Granularity::kVector, along_sums ? Granularity::kVector : Granularity::kBlock};
}

std::vector<record::ParamInfo> params() {
  return {{"rows", "256", "of all groups together, and of none", {}},
          {"groups", "4", "of rows", {}},
          {"m", "0", "rows of each C, with along=sums", {}},
          {"n", "256", "columns of C", {}},
          {"k", "0", "terms of each sum, with along=rows", {}},
          {"dtype", "e4m3fn", "of A and B; two names: of A, of B", {"e4m3fn", "e5m2", "e4m3fn_e5m2", "e5m2_e4m3fn"}},
          {"out", "bf16", "dtype of C", {"bf16", "f16", "f32"}},
          {"along", "rows", "rows of A times a B for each group, or sums over the rows", {"rows", "sums"}},
          record::flag_param("accumulate", "1: C += the sums"),
          {"offsets", "i32", "their dtype", {"i32", "i64"}},
          load_param(),
          {"scaling",
           "block",
           "of A and B: 1x128 and 128x128 (along sums 1x128), a scale for each row, or for each group",
           {"block", "row", "tensor"}},
          record::flag_param("gather", "1: rows of A are found by an index, along=rows"),
          {"sources", "0", "rows of A then; left out: as many as rows", {}}};
}

Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows],
               v[kGroups],
               v[kM],
               v[kN],
               v[kK],
               kFormats[v[kDtype]],
               kOuts[v[kOut]],
               kOffsetTypes[v[kOffsets]],
               v[kAlong] == 1,
               v[kAccumulate] == 1,
               static_cast<GroupedFp8Scaling>(v[kScaling]),
               v[kGather] == 1,
               v[kSources]};
}

Result<std::vector<std::int64_t>> offsets_of(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  std::vector<std::int64_t> offsets = read_offsets(operands[kOffsetsOperand]);
  RIDGE_CHECK_OK(check_offsets(kOp, offsets, s.rows));
  for (std::size_t g = 0; s.along_sums && g < offsets.size(); ++g) {
    if (offsets[g] % kScaleBlock == 0) continue;
    return with_hint(invalid("{}: offset {} is {}, and 128 rows are a step of the sums", kOp, g, offsets[g]),
                     "let groups begin and end at multiples of 128, as grouped_quantize pads them");
  }
  if (s.gather) RIDGE_CHECK_OK(check_index(kOp, operands[s.index()], offsets, s.sources, "A"));
  return offsets;
}

GroupedOutput output_of(const Shape& s, std::span<const TensorView> operands, std::span<const std::int64_t> offsets) {
  return {operands[s.c_at()], offsets, s.along_sums, s.accumulate};
}

CodedProduct product_of(const Shape& s, std::span<const TensorView> operands, std::span<const std::int64_t> offsets,
                        std::int64_t group) {
  const auto g = static_cast<std::size_t>(group);
  const std::int64_t first = offsets[g], last = offsets[g + 1];
  CodedProduct p;
  p.n = s.n;
  p.trans_b = true;
  p.accumulate = s.accumulate;
  p.granularities = s.granularities();
  const bool blocks = s.scaling == GroupedFp8Scaling::kBlock;
  if (s.along_sums) {
    p.m = s.m, p.k = last - first;
    p.a = columns_of(operands[kA], first, last);
    p.b = columns_of(operands[kB], first, last);
    const auto scales = [&](const TensorView& of) {
      return blocks ? rows_of(of, first / kScaleBlock, last / kScaleBlock) : scales_of_group(of, group);
    };
    p.scale_a = scales(operands[kScaleA]);
    p.scale_b = scales(operands[kScaleB]);
    p.c = matrix_of(operands[s.c_at()], group);
  } else {
    p.m = last - first, p.k = s.k;
    p.a = rows_of(operands[kA], first, last);
    p.b = matrix_of(operands[kB], group);
    p.scale_a = blocks                                 ? columns_of(operands[kScaleA], first, last)
                : s.scaling == GroupedFp8Scaling::kRow ? rows_of(operands[kScaleA], first, last)
                                                       : scales_of_group(operands[kScaleA], group);
    p.scale_b = scales_of_group(operands[kScaleB], group);
    p.c = rows_of(operands[s.c_at()], first, last);
  }
  return p;
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_layouts(args));
  RIDGE_CHECK_OK(check_dtypes(args));
  const Shape s = sizes_of(args);
  RIDGE_CHECK_OK(check_sizes(args, s));
  RIDGE_CHECK_OK(check_apart(kOp, {"C", &args.c},
                             {{"A", &args.a},
                              {"B", &args.b},
                              {"scale_a", &args.scale_a},
                              {"scale_b", &args.scale_b},
                              {"offsets", &args.offsets},
                              {"index_a", &args.index_a}}));
  Call call;
  call.values.resize(kParamCount);
  call.values[kRows] = s.rows;
  call.values[kGroups] = s.groups;
  call.values[kM] = s.m;
  call.values[kN] = s.n;
  call.values[kK] = s.k;
  call.values[kDtype] = index_of(kFormats, s.formats);
  call.values[kOut] = index_of(kOuts, s.out);
  call.values[kAlong] = s.along_sums ? 1 : 0;
  call.values[kAccumulate] = s.accumulate ? 1 : 0;
  call.values[kOffsets] = index_of(kOffsetTypes, s.offsets);
  call.values[kScaling] = static_cast<std::int64_t>(s.scaling);
  call.values[kGather] = s.gather ? 1 : 0;
  call.values[kSources] = s.sources;
  for (const TensorView* view : {&args.a, &args.b, &args.scale_a, &args.scale_b, &args.offsets}) {
    call.operands.push_back(*view);
  }
  if (s.gather) call.operands.push_back(args.index_a);
  call.operands.push_back(args.c);
  return call;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "products of groups of rows in 8-bit floats with scales, by offsets that the device alone knows";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = spot_check;
  op.cost = cost;
  op.cases = cases;
  op.vary = vary;
  op.plan_values = plan_values;
  op.device_check = device_check();
  // Scales below 2^-126 are outside the contract, and that family makes them.
  op.excuses = [](const Problem&, numerics::Family family) { return family == numerics::Family::kDenormals; };
  return op;
}

}  // namespace ridge::ops::grouped_gemm_fp8
