// What the files of this folder share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attention/contract.h"
#include "ops/op.h"

namespace ridge::ops::attention {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t {
  kBatch,
  kHeads,
  kKvHeads,
  kQLen,
  kKLen,
  kDim,
  kDtype,
  kMask,
  kKeysLeft,
  kKeysRight,
  kDocuments,
  kVDim,
  kSinks,
  kSoftcap,
  kAlibi,
  kParamCount
};
// Positions among the operands; behind these the offsets of packed documents, the sinks and the slopes, where a case
// has any, and the outputs.
enum OperandAt : std::size_t { kQ, kK, kV };

inline constexpr DType kDtypes[] = {DType::kBf16, DType::kF16};  // by the value of `dtype`
inline constexpr std::int64_t kLargestDim = 256;

// Keys before and after the place of a query that it sees; less than 0: as many as there are.
struct Window {
  std::int64_t left = -1, right = -1;
};

// From `begin` up to `end`; nothing where they are equal.
struct Range {
  std::int64_t begin = 0, end = 0;
};

struct Shape {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0;
  std::int64_t dim = 0, v_dim = 0;  // of the heads of q and k, and of v and o
  DType dtype = DType::kBf16;
  Window window;               // a causal mask is a right of 0
  double scale = 1;            // of a score, where a call is at hand
  std::int64_t documents = 0;  // packed in one sequence; 0: it is one
  bool sinks = false, softcap = false, alibi = false;
  double cap = 0;  // of scores, where a call is at hand; 0: none

  [[nodiscard]] std::int64_t kv_head(std::int64_t head) const { return head / (heads / kv_heads); }
  // The place of a query among the keys: the last one is at the last key.
  [[nodiscard]] std::int64_t place(std::int64_t query) const { return query + k_len - q_len; }
  // The keys that a query sees.
  [[nodiscard]] Range keys_of(std::int64_t query) const {
    const std::int64_t at = place(query);
    const std::int64_t end = window.right < 0 ? k_len : std::clamp<std::int64_t>(at + window.right + 1, 0, k_len);
    return {window.left < 0 ? 0 : std::clamp<std::int64_t>(at - window.left, 0, end), end};
  }
  // The queries that see one of the keys first .. last.
  [[nodiscard]] Range queries_of(std::int64_t first, std::int64_t last) const {
    const std::int64_t ahead = place(0);
    const std::int64_t end =
        window.left < 0 ? q_len : std::clamp<std::int64_t>(last - ahead + window.left + 1, 0, q_len);
    return {window.right < 0 ? 0 : std::clamp<std::int64_t>(first - ahead - window.right, 0, end), end};
  }
};

// A window that reaches beyond all keys is none.
inline Window window_of(bool causal, std::int64_t left, std::int64_t right, std::int64_t q_len, std::int64_t k_len) {
  if (causal) right = 0;
  return {left < 0 || left >= k_len - 1 ? -1 : left, right < 0 || right >= q_len - 1 ? -1 : right};
}

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  Shape s{v[kBatch], v[kHeads], v[kKvHeads], v[kQLen], v[kKLen], v[kDim], v[kVDim] == 0 ? v[kDim] : v[kVDim]};
  s.dtype = kDtypes[static_cast<std::size_t>(v[kDtype])];
  s.window = window_of(v[kMask] == 1, v[kKeysLeft] - 1, v[kKeysRight] - 1, s.q_len, s.k_len);
  s.documents = v[kDocuments];
  s.sinks = v[kSinks] == 1;
  s.softcap = v[kSoftcap] == 1;
  s.alibi = v[kAlibi] == 1;
  return s;
}

// Where packed documents begin and the last one ends; empty where a case has none.
struct Documents {
  std::vector<std::int64_t> q_offsets, k_offsets;
};
// Of a call on a processor; an error where they fall or leave the rows.
Result<Documents> documents_of(const Problem& problem, const Arguments& arguments);

// Rows that see each other and no others: a sequence of a batch or a packed document, as a shape of its own, and where
// its rows begin.
struct Sequence {
  Shape shape;
  std::int64_t batch = 0, first_query = 0, first_key = 0;
};
// Rows of no document are in sequences without keys, and keys of none in sequences without queries.
std::vector<Sequence> sequences_of(const Shape& shape, const Documents& documents);

enum ScalarAt : std::size_t { kScale, kCap };  // the second where the case says so
inline Shape shape_of(const Problem& problem, const Arguments& arguments) {
  Shape s = shape_of(problem);
  s.scale = arguments.scalar(problem, kScale).real();
  if (s.softcap) s.cap = arguments.scalar(problem, kCap).real();
  return s;
}
// What a call that names no scale has.
inline double usual_scale(std::int64_t dim) { return 1 / std::sqrt(static_cast<double>(dim)); }

// Checks that forward and backward, and the forward of codes, share; `op` is the operator that an error names.
Status check_heads(std::string_view where, const Shape& shape);
// Shapes and layouts, k and v of the dtype of q, and the scale.
Status check_operands(std::string_view op, const TensorView& q, const TensorView& k, const TensorView& v,
                      const TensorView& log_sum_exp, std::optional<double> scale);
Status check_inputs(std::string_view op, const TensorView& q, const TensorView& k, const TensorView& v,
                    const TensorView& log_sum_exp, std::optional<double> scale, double softcap);
Status check_window(std::string_view where, std::int64_t left, std::int64_t right);
Status check_documents(std::string_view where, std::int64_t documents, std::int64_t batch);
Status check_offsets(std::string_view op, const TensorView& q_offsets, const TensorView& k_offsets, std::int64_t batch);
void add_offsets(Problem& problem);  // operands, where the case has documents
// Of a vector with a number for each head, where there is one: sinks, slopes.
Status check_of_heads(std::string_view op, std::string_view name, const TensorView& view, std::int64_t heads);
// The parameters of a mask, one way to write each: a right of 0 is a causal mask. Lengths are there already.
void set_mask(Call& call, bool causal, std::int64_t left, std::int64_t right);
// The sizes of a case, of its inputs.
void set_sizes(Call& call, const TensorView& q, const TensorView& k, const TensorView& v);
Status check_rows(std::string_view op, std::string_view name, const TensorView& view, const TensorView& q,
                  const TensorView& v);
Status check_like(std::string_view op, std::string_view name, const TensorView& view, std::string_view other_name,
                  const TensorView& other);
std::vector<record::ParamInfo> params();
// A case with its parameters checked, whose v_dim is 0 where it is dim: operands and scalars are still to come.
Result<Problem> bind_sizes(std::string_view op, std::span<const record::ParamInfo> params,
                           const record::Case& requested);
// Scales up to `most` times the usual one, and the softcap where the case has one; those of a call, and its parameter.
void add_scalars(Problem& problem, double most);
void set_scalars(Call& call, std::optional<double> scale, double softcap);
OperandSpec slopes_operand(const Shape& shape);  // of a case that has them
// v_dim as it is, for launch plans.
void plan_values(const Problem& problem, std::span<const TensorView> operands,
                 std::map<std::string, std::int64_t>& facts);
bool excuses(const Problem& problem, numerics::Family family);
// Pairs of a query and a key that it sees; of packed documents as if they were of one length.
double visible_pairs(const Shape& shape);

// The views of a call on a processor; of rank 0 where it has none. The scales are those of codes.
struct TileOperands {
  TensorView q, k, v, o, log_sum_exp, sinks, slopes;
  TensorView q_scale, k_scale, v_scale;
};
// What the kernels for processors do.
Status run_tiles(const Shape& shape, const Documents& documents, const TileOperands& operands, const Stream& stream);

// The keys that a query sees, and its place among them, for references alone.
struct Seen {
  std::vector<std::int64_t> keys;
  std::int64_t place = 0;
};
Seen keys_seen(const Shape& shape, const Documents& documents, std::int64_t query);
// A tensor [batch, length, heads, dim] as numbers, for references alone.
struct Rows {
  std::vector<double> values;
  std::int64_t length = 0, heads = 0, dim = 0;

  [[nodiscard]] std::int64_t at(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return ((b * length + i) * heads + h) * dim;
  }
  [[nodiscard]] const double* row(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return values.data() + at(b, i, h);
  }
};
Rows rows_of(const TensorView& view);
// Of the products of two rows, for references alone.
struct ProductSums {
  double value = 0, magnitude = 0, square = 0;
};
ProductSums sums_of_products(const double* x, const double* y, std::int64_t count);
// A score of a scaled product, for references alone: behind the softcap, and the head's slope times the distance of
// query and key taken off.
struct Score {
  double value = 0;
  double slope = 1;     // by the scaled product
  double variance = 0;  // of the ideal kernel's roundings of it, relative to u^2
};
Score score_of(const Shape& shape, double product, double alibi_slope, std::int64_t distance);
Result<Call> make_call(const Args& args);
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
std::shared_ptr<const DeviceCheck> device_check();
Refusal no_wgmma(const DeviceInfo& device);  // of the kernels for Hopper, forward and backward
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
// The same of a problem with these sizes, also one of codes: lengths are at the same places of its values.
record::Cost cost_of(const Problem& problem, const Shape& shape);
record::Case vary_of(const Problem& problem, const Shape& shape, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
// Words of cases in a window, of packed documents, of values of another size than keys, with sinks, with a softcap, and
// with slopes, to check forward and backward by.
std::span<const std::string_view> window_cases();
std::span<const std::string_view> document_cases();
std::span<const std::string_view> value_cases();
std::span<const std::string_view> head_cases();  // forward
std::span<const std::string_view> sink_cases();
std::span<const std::string_view> softcap_cases();
std::span<const std::string_view> alibi_cases();

}  // namespace ridge::ops::attention
