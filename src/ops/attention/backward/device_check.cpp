#include "ops/device_check.h"

#include <algorithm>

#include "ops/attention/backward/backward.h"
#include "ops/attention/device_call.h"

namespace ridge::ops::attention_backward {
namespace {

using Argument = CheckLaunch::Argument;
using attention::check_launch, attention::kCheckLanes, attention::kCheckTile, attention::kCheckWarps;

constexpr std::int64_t kSamples = 256;  // rows of dQ of a projection that are checked in fp64

// The structs of device_check.cu.
struct BackwardCall {
  attention::DeviceCall forward;
  DeviceMatrix d_o, d_q, d_k, d_v, d_sinks;
};
struct BackwardKeys {
  double *products, *k_square, *k_most, *v_square, *v_most, *head_square, *head_most;
};
struct BackwardQueries {
  double *q_products, *d_o_products, *d_o_square, *d_o_most, *delta, *delta_variance, *score_variance, *sums,
      *variances;
};
struct SpecialHeads {
  double *queries, *keys;
};
constexpr std::int64_t kFacts = 6;  // numbers of QueryFacts

BackwardCall call_of(const Problem& problem, const Arguments& arguments) {
  const auto matrix = [&](std::string_view name) { return device_matrix(operand(problem, arguments.operands, name)); };
  BackwardCall call{
      attention::device_call(problem, arguments), matrix("d_o"), matrix("d_q"), matrix("d_k"), matrix("d_v"), {}};
  if (call.forward.sinks != nullptr) call.d_sinks = matrix("d_sinks");
  return call;
}

// The numbers of a projection, or the facts of a reference: the larger of the two.
struct Layout {
  explicit Layout(const attention::Shape& s)
      : queries(s.batch * s.q_len * s.heads),
        keys(s.batch * s.k_len * s.kv_heads),
        heads(s.batch * s.kv_heads),
        query_heads(s.batch * s.heads) {}
  std::int64_t queries, keys, heads, query_heads;

  [[nodiscard]] std::int64_t of_specials() const { return query_heads + heads; }
  [[nodiscard]] std::int64_t of_keys() const { return (kCheckLanes + 4) * keys + 2 * heads; }
  [[nodiscard]] std::size_t bytes() const {
    const std::int64_t projection = of_keys() + (3 * kCheckLanes + 6) * queries;
    return static_cast<std::size_t>(std::max(projection, of_specials() + kFacts * queries)) * sizeof(double);
  }
  [[nodiscard]] BackwardKeys keys_in(double* at) const {
    double* const rows = at + kCheckLanes * keys;
    return {at, rows, rows + keys, rows + 2 * keys, rows + 3 * keys, rows + 4 * keys, rows + 4 * keys + heads};
  }
  [[nodiscard]] BackwardQueries queries_in(double* at) const {
    double* const rows = at + of_keys() + 2 * kCheckLanes * queries;
    return {at + of_keys(),
            at + of_keys() + kCheckLanes * queries,
            rows,
            rows + queries,
            rows + 2 * queries,
            rows + 3 * queries,
            rows + 4 * queries,
            rows + 5 * queries,
            rows + (5 + kCheckLanes) * queries};
  }
};

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const BackwardCall call = call_of(request.problem, {request.operands, request.scalars});
  const Layout layout(attention::shape_of(request.problem));
  auto* const scratch = static_cast<double*>(request.scratch);
  const Argument operands = CheckLaunch::words(call), keys = CheckLaunch::words(layout.keys_in(scratch)),
                 queries = CheckLaunch::words(layout.queries_in(scratch)), seed = request.seed,
                 result = CheckLaunch::pointer(request.result);
  const std::int64_t tiles = (call.forward.k_len + kCheckTile - 1) / kCheckTile * layout.heads;
  const std::int64_t samples = std::min(kSamples, layout.queries);
  std::vector<CheckLaunch> launches = {
      check_launch("attention_backward_key_rows", layout.keys / kCheckWarps + 1, {operands, keys, seed}),
      check_launch("attention_backward_query_rows", layout.queries / kCheckWarps + 1, {operands, keys, queries, seed}),
      check_launch("attention_backward_project", tiles, {operands, keys, queries, seed, result}),
      check_launch("attention_backward_judge", layout.queries / kCheckWarps + 1, {operands, queries, seed, result}),
      check_launch("attention_backward_samples", samples, {operands, CheckLaunch::number(samples), seed, result})};
  if (call.forward.sinks != nullptr) {
    launches.push_back(check_launch("attention_backward_judge_sinks", call.forward.heads, {operands, result}));
  }
  return launches;
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const BackwardCall call = call_of(request.problem, {request.operands, request.scalars});
  const Layout layout(attention::shape_of(request.problem));
  auto* const scratch = static_cast<double*>(request.scratch);
  const std::string& output = request.problem.operands[request.output].name;
  if (output == "d_sinks") {
    return {check_launch("attention_backward_sinks", call.forward.heads,
                         {CheckLaunch::words(call), CheckLaunch::pointer(scratch), request.arrays()})};
  }
  const Argument operands = CheckLaunch::words(call), first = CheckLaunch::number(request.first),
                 count = CheckLaunch::number(request.count), arrays = request.arrays(),
                 special = CheckLaunch::words(SpecialHeads{scratch, scratch + layout.query_heads}),
                 facts = CheckLaunch::pointer(scratch + layout.of_specials());
  std::vector<CheckLaunch> launches = {
      check_launch("attention_backward_clear", 1,
                   {special, CheckLaunch::number(layout.query_heads), CheckLaunch::number(layout.heads)}),
      check_launch("attention_backward_special", (layout.queries + layout.keys) / kCheckWarps + 1,
                   {operands, special})};
  if (output == "d_q") {
    launches.push_back(
        check_launch("attention_backward_queries", request.count, {operands, special, first, count, arrays}));
    return launches;
  }
  launches.push_back(check_launch("attention_backward_facts", layout.queries, {operands, facts}));
  launches.push_back(
      check_launch("attention_backward_keys", request.count,
                   {operands, special, facts, CheckLaunch::number(output == "d_v" ? 1 : 0), first, count, arrays}));
  return launches;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/attention/check_pairs.cuh", "ops/attention/backward/device_check.cu"});
  check->scratch_bytes = [](const Problem& problem) { return Layout(attention::shape_of(problem)).bytes(); };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::attention_backward
