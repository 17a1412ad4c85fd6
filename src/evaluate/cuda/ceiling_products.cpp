// Ceilings of the matrix units: large products of random data by whatever multiplies them fastest here.
#include <bit>

#include "base/error.h"
#include "evaluate/cuda/ceilings.h"
#include "evaluate/gpu.h"
#include "ops/matmul/cuda/tf32_product.h"
#include "record/case_list.h"

namespace ridge::evaluate::cuda {
namespace {

namespace gpu = device::cuda;

constexpr std::int64_t kSide = 8192;
constexpr double kRest = 0.02;   // seconds before each sample
constexpr double kHopeless = 3;  // times slower than another in a quick look: not measured

struct Product {
  const char *ceiling, *op, *words;
};
constexpr Product kProducts[] = {
    {"matrix_bf16", "gemm", "m=8192 n=8192 k=8192 dtype=bf16 layout=nt"},
    {"matrix_fp16", "gemm", "m=8192 n=8192 k=8192 dtype=f16 layout=nt"},
    {"matrix_fp8", "gemm_fp8", "m=8192 n=8192 k=8192 dtype=e4m3fn layout=nt scaling=tensor sums=fast"}};

// One way to the product, ready to be launched.
struct Way {
  std::string name;
  CeilingBench::Launches launches;
  double seconds = 0;
};

// Random operands; scales of one, and an output.
Result<std::vector<TensorView>> operands_of(CeilingBench& bench, const ops::Problem& problem) {
  std::vector<TensorView> views;
  std::uint64_t seed = 4711;
  for (const ops::OperandSpec& spec : problem.operands) {
    const std::int64_t columns = spec.shape.back(), rows = spec.element_count() / std::max<std::int64_t>(columns, 1);
    const bool scale = spec.name.starts_with("scale_");
    RIDGE_TRY(view, scale ? bench.constant(spec.dtype, rows, columns, std::bit_cast<std::uint32_t>(1.0f))
                          : bench.random(spec.dtype, rows, columns, seed++));
    if (spec.shape.size() == 1) view = TensorView::contiguous(view.data, spec.dtype, {columns});
    views.push_back(view);
  }
  return views;
}

Result<std::vector<Way>> ways_of(const CeilingBench& bench, const ops::Operator& op, const ops::Problem& problem,
                                 const std::vector<TensorView>& operands) {
  RIDGE_TRY(device, gpu_device_info());
  std::vector<Way> ways;
  for (const ops::Implementation& one : op.implementations) {
    if (one.is_reference || ops::why_not(one, problem, device)) continue;
    ways.push_back({one.name,
                    [&one, &problem, &operands, &bench](gpu::StreamHandle) {
                      return one.run(problem, operands, bench.stream().view());
                    },
                    0});
  }
  return ways;
}

// A quick look at each way; those that refuse their first launch are left out, and why is returned.
Result<std::string> look_at(CeilingBench& bench, std::vector<Way>& ways) {
  std::string refused;
  std::vector<Way> usable;
  for (Way& way : ways) {
    if (const Status first = way.launches(bench.stream().handle()); !first) {
      refused += fmt::format("; {} refused: {}", way.name, first.error().message);
      continue;
    }
    RIDGE_CHECK_OK(bench.stream().synchronize());
    RIDGE_TRY(seconds, bench.quick(way.launches));
    way.seconds = seconds;
    usable.push_back(std::move(way));
  }
  ways = std::move(usable);
  return refused;
}

CeilingBench::Subject subject_of(const std::string& name, double flop, const Way& way, double rest) {
  return {name,
          "FLOP/s",
          flop,
          way.launches,
          fmt::format("{0} x {0} x {0} of random normal values by {1}", kSide, way.name),
          rest};
}

// All ways that are not hopeless, each under its own name; the best under that of the ceiling, and once more without
// rest.
Status measure_ways(CeilingBench& bench, const std::string& name, double flop, std::vector<Way>& ways,
                    std::vector<record::Ceiling>& ceilings) {
  RIDGE_TRY(refused, look_at(bench, ways));
  if (ways.empty()) return make_error(ErrorCode::kUnsupported, "nothing here multiplies these matrices{}", refused);
  double least = ways.front().seconds;
  for (const Way& way : ways) least = std::min(least, way.seconds);
  std::optional<record::Ceiling> best;
  const Way* fastest = nullptr;
  for (const Way& way : ways) {
    if (way.seconds > kHopeless * least) continue;
    RIDGE_TRY(ceiling, bench.measure(subject_of(name + "." + way.name, flop, way, kRest)));
    if (!best || ceiling.value > best->value) best = ceiling, fastest = &way;
    ceilings.push_back(std::move(ceiling));
  }
  best->name = name;
  best->method += refused;
  ceilings.push_back(std::move(*best));
  RIDGE_TRY(sustained, bench.measure(subject_of(name + "_sustained", flop, *fastest, 0)));
  ceilings.push_back(std::move(sustained));
  return ok_status();
}

Status product(CeilingBench& bench, const Product& wanted, std::vector<record::Ceiling>& ceilings) {
  RIDGE_TRY(op, ops::find_operator(wanted.op));
  std::vector<std::string> words;
  for (std::string_view text = wanted.words; !text.empty();) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  RIDGE_TRY(cases, record::expand_cases(wanted.op, words));
  RIDGE_TRY(problem, op->bind(cases.front()));
  RIDGE_TRY(operands, operands_of(bench, problem));
  RIDGE_TRY(ways, ways_of(bench, *op, problem, operands));
  const Status measured = measure_ways(bench, wanted.ceiling, op->cost(problem).flop, ways, ceilings);
  RIDGE_CHECK_OK(bench.stream().synchronize());
  bench.free_memory();
  return measured;
}

// No operator of ours rounds fp32 to TF32 silently.
Status tf32_product(CeilingBench& bench, std::vector<record::Ceiling>& ceilings) {
  RIDGE_TRY(a, bench.random(DType::kF32, kSide, kSide, 1));
  RIDGE_TRY(b, bench.random(DType::kF32, kSide, kSide, 2));
  RIDGE_TRY(c, bench.constant(DType::kF32, kSide, kSide, 0));
  std::vector<Way> ways;
  for (ops::matmul::Tf32Way& way : ops::matmul::tf32_ways(bench.device(), a, b, c))
    ways.push_back({way.name, std::move(way.launch), 0});
  const double flop = 2.0 * kSide * kSide * kSide;
  const Status measured = measure_ways(bench, "matrix_tf32", flop, ways, ceilings);
  RIDGE_CHECK_OK(bench.stream().synchronize());
  bench.free_memory();
  return measured;
}

}  // namespace

Status product_ceilings(CeilingBench& bench, const NoteCeiling& note, std::vector<record::Ceiling>& ceilings) {
  double at = 0;
  for (const Product& wanted : kProducts) {
    note(wanted.ceiling, at++ / 4);
    if (const Status done = product(bench, wanted, ceilings); !done) return in_context(wanted.ceiling, done.error());
  }
  note("matrix_tf32", at / 4);
  if (const Status done = tf32_product(bench, ceilings); !done) return in_context("matrix_tf32", done.error());
  return ok_status();
}

Result<std::vector<record::Ceiling>> measure_ceilings(CeilingBench& bench, const NoteCeiling& note) {
  std::vector<record::Ceiling> ceilings;
  double part = 0;
  const auto part_note = [&](const std::string& name, double fraction) { note(name, (part + fraction) / 3); };
  RIDGE_CHECK_OK(stream_ceilings(bench, part_note, ceilings));
  part = 1;
  RIDGE_CHECK_OK(unit_ceilings(bench, part_note, ceilings));
  part = 2;
  RIDGE_CHECK_OK(product_ceilings(bench, part_note, ceilings));
  return ceilings;
}

}  // namespace ridge::evaluate::cuda
