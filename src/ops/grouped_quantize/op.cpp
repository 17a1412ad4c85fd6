#include "base/error.h"
#include "ops/arguments.h"
#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {
namespace {

constexpr std::string_view kOp = "grouped_quantize";
constexpr std::int64_t kAligns[] = {16, 32, 64, 128};

// Groups begin at multiples of so many rows: those that have a scale in common or, of a scale for each group, those of
// a step of the sums that read it.
std::int64_t rows_of_scale(Granularity granularity, bool transposed) {
  const bool step = transposed && (granularity == Granularity::kVector || granularity == Granularity::kRow);
  if (step || granularity == Granularity::kBlock) return kScaleBlock;
  return transposed && granularity == Granularity::kMx ? kMxBlock : 1;
}

Status check_align(std::int64_t align) {
  if (index_of(kAligns, align) >= 0) return ok_status();
  return with_hint(invalid("{}: align is {}", kOp, align), "give 16, 32, 64 or 128");
}

// No scale of this copy is of two groups.
Status check_scales(std::int64_t align, Granularity granularity, bool transposed) {
  const std::int64_t rows = rows_of_scale(granularity, transposed);
  if (align % rows == 0) return ok_status();
  if (transposed && granularity == Granularity::kRow) {
    return with_hint(
        invalid("{}: align is {}, and products read q_t with row scales {} columns at a time", kOp, align, rows),
        fmt::format("give {}, so that none of these steps is of two groups", rows));
  }
  return with_hint(invalid("{}: align is {}, and {} rows share a scale of {} with {} scales", kOp, align, rows,
                           transposed ? "q_t" : "q", to_string(granularity)),
                   fmt::format("give a multiple of {}, so that no scale is of two groups", rows));
}

// q of the rows where they lie.
Status check_own_rows(bool both, Granularity granularity, std::int64_t align) {
  if (!both) {
    return with_hint(invalid("{}: own_rows without both copies", kOp),
                     "give q and q_t; q alone is what quantize and activation_quantize make");
  }
  if (align % kScaleBlock != 0) {
    return with_hint(invalid("{}: own_rows with align {}", kOp, align), "give 128, so that a tile is of one group");
  }
  if (granularity == Granularity::kVector || granularity == Granularity::kMx) return ok_status();
  return with_hint(invalid("{}: own_rows with {} scales", kOp, to_string(granularity)),
                   "use kVector or kMx, whose scales of q are of a part of one row");
}

// That there is a gradient of factors.
Status check_dprobs(std::string_view where, GroupedQuantizeOf of, bool probs) {
  if (of != GroupedQuantizeOf::kSwigluBackward) {
    return with_hint(invalid("{}: dprobs is wanted, and of is not swiglu_backward", where), "leave dprobs out");
  }
  if (probs) return ok_status();
  return with_hint(invalid("{}: dprobs is wanted and there are no probs", where), "give probs, or leave dprobs out");
}

// Of m.
std::int64_t rows_of(const Args& args) { return args.index.rank != 0 ? args.index.shape[0] : args.x.shape[0]; }

// What it is made of.
Status check_source(const Args& args) {
  const bool backward = args.of == GroupedQuantizeOf::kSwigluBackward;
  const std::int64_t rows = rows_of(args), cols = args.x.shape[1];
  if (args.of != GroupedQuantizeOf::kRows && cols % 2 != 0) {
    return with_hint(invalid("{}: x is {}, which has no two halves", kOp, args.x.describe()),
                     "give an even number of columns, gate and up side by side");
  }
  if (args.of == GroupedQuantizeOf::kRows && args.probs.rank != 0) {
    return with_hint(invalid("{}: probs of rows that are coded as they are", kOp), "leave probs out, or give of");
  }
  if (!backward && args.dy.rank != 0) {
    return with_hint(invalid("{}: dy, and of is not kSwigluBackward", kOp), "leave dy out");
  }
  if (args.dprobs.rank != 0) {
    RIDGE_CHECK_OK(check_dprobs(kOp, args.of, args.probs.rank != 0));
    RIDGE_CHECK_OK(check_per_row(kOp, "dprobs", args.dprobs, DType::kF32, rows));
  }
  if (args.of != GroupedQuantizeOf::kRows && args.index.rank != 0) {
    return with_hint(invalid("{}: index, and of is not kRows", kOp), "copy what it is made of (combine_rows)");
  }
  if (args.probs.rank != 0) RIDGE_CHECK_OK(check_per_row(kOp, "probs", args.probs, DType::kF32, rows));
  if (!backward) return ok_status();
  const std::int64_t shape[] = {rows, cols / 2};
  return check_like_x(kOp, "dy", args.dy, args.x.dtype, shape);
}

Status check_capacity(const Shape& s) {
  constexpr std::int64_t kMost = 0x7fffffff;
  if (s.offsets == DType::kI64 || s.capacity <= kMost) return ok_status();
  return with_hint(invalid("{}: padded may be {}, and offsets are i32", kOp, s.capacity), "give i64");
}

Status check_args(const Args& args) {
  RIDGE_CHECK_OK(check_align(args.align));
  RIDGE_CHECK_OK(check_layout(kOp, "x", args.x, 2, "copy it to a row-major matrix"));
  if (index_of(kDtypes, args.x.dtype) < 0) {
    return with_hint(invalid("{}: x is {}; this dtype is not supported", kOp, args.x.describe()),
                     "give f32, bf16 or f16");
  }
  RIDGE_CHECK_OK(check_layout(kOp, "offsets", args.offsets, 1, "give a contiguous vector"));
  if (index_of(kOffsetTypes, args.offsets.dtype) < 0) {
    return with_hint(invalid("{}: offsets is {}", kOp, args.offsets.describe()), "give i32 or i64");
  }
  RIDGE_CHECK_OK(check_group_count(kOp, args.offsets.shape[0] - 1, args.offsets.shape[0]));
  if (args.index.rank != 0) {
    RIDGE_CHECK_OK(check_layout(kOp, "index", args.index, 1, "give a contiguous vector"));
    const std::int64_t rows[] = {args.index.shape[0]};
    RIDGE_CHECK_OK(check_shape(kOp, "index", args.index, DType::kI32, rows, [] { return "of numbers of rows"; }));
  }
  const std::int64_t shape[] = {args.offsets.shape[0]};
  RIDGE_CHECK_OK(check_shape(kOp, "padded", args.padded, args.offsets.dtype, shape,
                             [&] { return fmt::format("offsets is {}", args.offsets.describe()); }));
  RIDGE_CHECK_OK(check_layout(kOp, "padded", args.padded, 1, "give a contiguous vector"));
  return check_source(args);
}

Shape sizes_of(const Args& args) {
  const bool halved = args.of == GroupedQuantizeOf::kSwiglu;
  Shape s{rows_of(args), halved ? args.x.shape[1] / 2 : args.x.shape[1], args.offsets.shape[0] - 1, args.align};
  s.of = args.of, s.probs = args.probs.rank != 0, s.own_rows = args.own_rows, s.dprobs = args.dprobs.rank != 0;
  s.gather = args.index.rank != 0, s.sources = s.gather ? args.x.shape[0] : 0;
  s.capacity = grouped_quantize_capacity(s.rows, s.groups, s.align);
  s.dtype = args.x.dtype, s.offsets = args.offsets.dtype;
  return s;
}

Status check_gathered(std::string_view text, const Shape& s) {
  if (!s.gather && s.sources != 0) {
    return with_hint(invalid("{}: sources={} without gather", text, s.sources), "use gather=1, or leave sources out");
  }
  if (!s.gather || s.of == GroupedQuantizeOf::kRows) return ok_status();
  return with_hint(invalid("{}: gather=1, and of is not rows", text), "leave gather out");
}

Result<Problem> bind(const record::Case& requested) {
  record::Case canonical = with_dtype_names(requested, {"dtype", "format", "offsets"});
  coding::complete(canonical);
  complete_sources(canonical, canonical.get("gather", "0") == "1");
  RIDGE_TRY(problem, bind_params(kOp, params(), canonical));
  const std::string text = problem.problem_case.text();
  const std::int64_t rows = problem.values[kRows], groups = problem.values[kGroups], align = problem.values[kAlign];
  RIDGE_CHECK_OK(check_align(align));
  RIDGE_CHECK_OK(check_group_count(kOp, groups, groups + 1));
  RIDGE_CHECK_OK(check_addressable(text, "offsets", groups + 1, 2 * kScaleBlock));
  const coding::Coding c = coding_of(problem);
  for (const bool transposed : {false, true}) {
    if (c.copies == (transposed ? coding::kAsIs : coding::kTransposed)) continue;
    RIDGE_CHECK_OK(check_scales(align, c.granularity, transposed));
  }
  const Shape s = shape_of(problem);
  if (s.own_rows) RIDGE_CHECK_OK(check_own_rows(c.copies == coding::kBoth, c.granularity, align));
  const bool backward = s.of == GroupedQuantizeOf::kSwigluBackward;
  if (backward && s.cols % 2 != 0) {
    return with_hint(invalid("{}: cols is {} of two halves", text, s.cols), "give an even number");
  }
  if (s.of == GroupedQuantizeOf::kRows && s.probs) {
    return with_hint(invalid("{}: probs of rows that are coded as they are", text), "use of=swiglu, or probs=0");
  }
  if (s.dprobs) RIDGE_CHECK_OK(check_dprobs(text, s.of, s.probs));
  RIDGE_CHECK_OK(check_capacity(s));
  RIDGE_CHECK_OK(check_gathered(text, s));
  RIDGE_CHECK_OK(check_addressable(text, "x", s.rows_of_x(), s.columns_of_x()));
  RIDGE_CHECK_OK(check_addressable(text, "y", s.capacity, s.cols));
  OperandSpec offsets{"offsets", s.offsets, {groups + 1}};
  offsets.fill = offsets_fill(problem.values[kLoad], rows);
  problem.operands = {{"x", s.dtype, {s.rows_of_x(), s.columns_of_x()}, false, false}, std::move(offsets)};
  if (s.gather) problem.operands.push_back(index_operand(rows, s.sources));
  if (backward) problem.operands.push_back({"dy", s.dtype, {rows, s.cols / 2}, false, false});
  if (s.probs) problem.operands.push_back({"probs", DType::kF32, {rows}, false, false});
  std::vector<OperandSpec> outputs = {{"padded", s.offsets, {groups + 1}, true, false}};
  if (s.dprobs) outputs.push_back({"dprobs", DType::kF32, {rows}, true, false});
  RIDGE_CHECK_OK(coding::add_operands(problem, c, std::move(outputs)));
  return problem;
}

}  // namespace

Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kRows],
               v[kCols],
               v[kGroups],
               v[kAlign],
               grouped_quantize_capacity(v[kRows], v[kGroups], v[kAlign]),
               kDtypes[v[kDtype]],
               kOffsetTypes[v[kOffsets]],
               static_cast<GroupedQuantizeOf>(v[kOf]),
               v[kProbs] == 1,
               v[kOwnRows] == 1,
               v[kDprobs] == 1,
               v[kGather] == 1,
               v[kSources]};
}

coding::Coding coding_of(const Problem& problem) {
  const Shape s = shape_of(problem);
  coding::Coding coding = coding::coding_of(problem, kParamCount, s.capacity, s.cols);
  coding.segments = s.groups;
  if (s.own_rows) coding.plain_rows = s.rows;
  return coding;
}

coding::Coding own_coding_of(const Problem& problem) { return coding::copy_alone(coding_of(problem), false); }
coding::Coding transposed_coding_of(const Problem& problem) { return coding::copy_alone(coding_of(problem), true); }

std::vector<std::int64_t> padded_offsets(std::span<const std::int64_t> offsets, std::int64_t align) {
  std::vector<std::int64_t> padded = {0};
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    padded.push_back(padded.back() + (offsets[g + 1] - offsets[g] + align - 1) / align * align);
  }
  return padded;
}

Status check_numbers(const Problem& problem, const Arguments& arguments, std::span<const std::int64_t> offsets) {
  const Shape s = shape_of(problem);
  RIDGE_CHECK_OK(check_offsets(kOp, offsets, s.rows));
  if (!s.gather) return ok_status();
  return check_index(kOp, operand(problem, arguments, "index"), offsets, s.sources, "x");
}

Result<Call> make_call(const Args& args) {
  RIDGE_CHECK_OK(check_args(args));
  if (args.q.rank != 0) RIDGE_CHECK_OK(check_scales(args.align, args.granularity, false));
  if (args.q_t.rank != 0) RIDGE_CHECK_OK(check_scales(args.align, args.granularity, true));
  if (args.own_rows)
    RIDGE_CHECK_OK(check_own_rows(args.q.rank != 0 && args.q_t.rank != 0, args.granularity, args.align));
  const Shape s = sizes_of(args);
  RIDGE_CHECK_OK(check_capacity(s));
  const NamedView x{"x", &args.x}, offsets{"offsets", &args.offsets}, dy{"dy", &args.dy}, probs{"probs", &args.probs},
      padded{"padded", &args.padded}, dprobs{"dprobs", &args.dprobs}, index{"index", &args.index};
  RIDGE_CHECK_OK(check_apart(kOp, padded, {x, offsets, index, dy, probs}));
  RIDGE_CHECK_OK(check_apart(kOp, dprobs, {x, offsets, index, dy, probs, padded}));
  TensorView y = args.x;
  y.shape[0] = s.capacity, y.shape[1] = s.cols;
  const NamedView others[] = {x, offsets, index, dy, probs, padded, dprobs};
  coding::Views views = coding::views_of(args);
  views.segments = s.groups;
  if (s.own_rows) views.plain_rows = s.rows;
  RIDGE_CHECK_OK(coding::check(kOp, views, y, others, "padded x"));
  Call call;
  call.values.resize(kParamCount);  // the load stays what it is by default: a call's offsets are its own
  call.values[kRows] = s.rows;
  call.values[kCols] = s.cols;
  call.values[kGroups] = s.groups;
  call.values[kAlign] = s.align;
  call.values[kDtype] = index_of(kDtypes, s.dtype);
  call.values[kOffsets] = index_of(kOffsetTypes, s.offsets);
  call.values[kOf] = static_cast<std::int64_t>(s.of);
  call.values[kProbs] = s.probs ? 1 : 0;
  call.values[kOwnRows] = s.own_rows ? 1 : 0;
  call.values[kDprobs] = s.dprobs ? 1 : 0;
  call.values[kGather] = s.gather ? 1 : 0;
  call.values[kSources] = s.sources;
  for (const TensorView* view : {&args.x, &args.offsets, &args.index, &args.dy, &args.probs}) {
    if (view->rank != 0) call.operands.push_back(*view);
  }
  coding::add_to(call, views, {args.padded, args.dprobs});
  return call;
}

std::vector<record::ParamInfo> params() {
  std::vector<record::ParamInfo> all = {{"rows", "256", "of all groups together, and of none", {}},
                                        {"cols", "256", "of what is coded", {}},
                                        {"groups", "4", "of rows", {}},
                                        {"align", "128", "each group begins at a multiple of it: 16, 32, 64, 128", {}},
                                        {"dtype", "bf16", "of x", {"f32", "bf16", "f16"}},
                                        {"offsets", "i32", "their dtype", {"i32", "i64"}},
                                        load_param(),
                                        {"of", "rows", "what is coded", {"rows", "swiglu", "swiglu_backward"}},
                                        record::flag_param("probs", "1: times a factor of each row"),
                                        record::flag_param("own_rows", "1: q lies as the rows do, not padded"),
                                        record::flag_param("dprobs", "1: the gradient of probs, too"),
                                        record::flag_param("gather", "1: rows of x are found by an index"),
                                        {"sources", "0", "rows of x with gather; left out: as many as rows", {}}};
  coding::add_params(all, "1x128");
  return all;
}

Operator describe() {
  Operator op;
  op.name = kOp;
  op.summary = "8-bit floats with scales, of rows whose groups are padded to whole blocks, and of their transpose";
  op.params = params();
  op.bind = bind;
  op.reference = reference;
  op.spot_check = [](const Problem& problem, const Arguments& arguments, std::uint64_t) {
    return spot_check_by_reference(problem, arguments, reference);
  };
  op.cost = cost;
  op.cases = cases;
  op.device_check = device_check();
  op.vary = vary;
  return op;
}

}  // namespace ridge::ops::grouped_quantize
