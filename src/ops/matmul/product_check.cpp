#include "ops/matmul/product_check.h"

#include <algorithm>

#include "ops/matmul/case.h"
#include "ops/matmul/matrix_unit.h"

namespace ridge::ops {

std::int64_t terms_per_block(std::int64_t lines, std::int64_t length) {
  const std::int64_t splits = std::clamp<std::int64_t>(std::min(cuda::ceil_div(1056, lines), length / 64), 1, 512);
  return cuda::ceil_div(length, splits);
}

namespace {

using Argument = CheckLaunch::Argument;

constexpr std::int64_t kLanes = kProjectionVectors, kSampleSide = 4 * 64;  // of product_check.cu

using cuda::ceil_div;

std::uint32_t blocks(std::int64_t count, std::int64_t per_block) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(count, per_block), 1, 1 << 16));
}

// Where the vectors of a projection lie in its scratch memory, in doubles.
struct Vectors {
  Vectors(std::int64_t m, std::int64_t n, std::int64_t k)
      : product(kLanes * n),
        expected(product + kLanes * k),
        added(expected + kLanes * m),
        found(added + kLanes * m),
        half_ulps(found + kLanes * m),
        end(half_ulps + m) {}
  std::int64_t signs = 0, product, expected, added, found, half_ulps, end;
};

struct Scaled {
  const DeviceMatrix& matrix;
  const DeviceMatrix& scale;
  std::int64_t granularity = -1;
  bool transposed = false;  // X^T is multiplied
  bool k_is_row = false;    // scales run along the stored rows
};

// y += X v, or y += X^T v; `half_ulps` may be null.
CheckLaunch times(const Scaled& x, const double* v, double* y, double* half_ulps) {
  const std::int64_t rows = x.matrix.rows, columns = x.matrix.columns;
  const std::int64_t lines = x.transposed ? ceil_div(columns, 512) : ceil_div(rows, 64);
  const std::int64_t length = x.transposed ? rows : columns;
  const std::int64_t per_block = terms_per_block(lines, length);
  CheckLaunch launch;
  launch.grid_x = static_cast<std::uint32_t>(lines);
  launch.grid_y = static_cast<std::uint32_t>(ceil_div(length, per_block));
  launch.arguments = {x.matrix,
                      x.scale,
                      CheckLaunch::number(x.granularity),
                      CheckLaunch::number(x.k_is_row ? 1 : 0),
                      CheckLaunch::pointer(v),
                      CheckLaunch::number(per_block),
                      CheckLaunch::pointer(y)};
  launch.kernel = x.transposed ? "product_columns" : "product_rows";
  launch.block = x.transposed ? 128 : 256;
  if (!x.transposed) launch.arguments.push_back(CheckLaunch::pointer(half_ulps));
  return launch;
}

class Plan {
 public:
  explicit Plan(double* scratch) : scratch_(scratch) {}

  void multiply(const Scaled& x, std::int64_t v, std::int64_t y, std::int64_t half_ulps = -1) {
    if (x.matrix.rows == 0 || x.matrix.columns == 0) return;
    launches.push_back(times(x, scratch_ + v, scratch_ + y, half_ulps < 0 ? nullptr : scratch_ + half_ulps));
  }
  void multiply(const DeviceMatrix& x, std::int64_t v, std::int64_t y, std::int64_t half_ulps = -1) {
    multiply(Scaled{x, DeviceMatrix{}}, v, y, half_ulps);
  }
  [[nodiscard]] Argument at(std::int64_t offset) const { return CheckLaunch::pointer(scratch_ + offset); }

  std::vector<CheckLaunch> launches;

 private:
  double* scratch_;
};

double terms_of(const ProductModel& model) { return static_cast<double>(model.k + (model.accumulate ? 1 : 0)); }

// `truncated` is of sums whose losses are not known better.
void append_model(const CheckedProduct& p, double truncated, std::vector<Argument>& arguments) {
  for (const double number : {terms_of(p.model), truncated, p.model.more_allowed, p.model.more_ideal_shared}) {
    arguments.push_back(CheckLaunch::real(number));
  }
}

// What product_samples and product_reference begin with.
std::vector<Argument> operands_of(const CheckedProduct& p) {
  return {p.a, p.b, p.scale_a, p.scale_b, p.bias, p.old.data != 0 ? p.old : p.residual};
}
std::int64_t flags_of(const CheckedProduct& p) {
  return (p.trans_a ? 1 : 0) | (p.trans_b ? 2 : 0) | (p.old.data != 0 ? 4 : 0) | (p.settles ? 8 : 0);
}
void append_kind(const CheckedProduct& p, std::vector<Argument>& arguments) {
  for (const std::int64_t number : {p.granularity_a, p.granularity_b, flags_of(p), p.activation}) {
    arguments.push_back(CheckLaunch::number(number));
  }
}

std::vector<CheckLaunch> samples(const CheckedProduct& p, std::uint64_t seed, void* result) {
  CheckLaunch launch;
  launch.kernel = "product_samples";
  launch.arguments = operands_of(p);
  launch.arguments.push_back(p.c);
  append_kind(p, launch.arguments);
  for (const std::int64_t size : {p.model.m, p.model.n, p.model.k}) {
    launch.arguments.push_back(CheckLaunch::number(size));
  }
  append_model(p, p.truncated, launch.arguments);
  launch.arguments.emplace_back(seed);
  launch.arguments.push_back(CheckLaunch::pointer(result));
  const std::int64_t warps = ceil_div(p.model.m, kSampleSide) * ceil_div(p.model.n, kSampleSide);
  launch.grid_x = static_cast<std::uint32_t>(ceil_div(warps, 8));
  return {std::move(launch)};
}

CheckLaunch over_rows(const char* kernel, const CheckedProduct& p, const ReferenceRows& rows) {
  CheckLaunch launch;
  launch.kernel = kernel;
  launch.grid_x = static_cast<std::uint32_t>(ceil_div(p.model.n, 64));
  launch.grid_y = static_cast<std::uint32_t>(ceil_div(rows.count, 64));
  return launch;
}

CheckLaunch truncation(const CheckedProduct& p, const ReferenceRows& rows) {
  CheckLaunch launch = over_rows("product_truncation", p, rows);
  launch.arguments = {p.a, p.b, p.scale_a, p.scale_b};
  for (const std::int64_t number : {p.granularity_a, p.granularity_b, flags_of(p), rows.first, rows.count, p.model.n,
                                    p.model.k, p.model.matrix_unit_terms}) {
    launch.arguments.push_back(CheckLaunch::number(number));
  }
  for (const double* array : {rows.allowed, rows.variance, rows.shift}) {
    launch.arguments.push_back(CheckLaunch::pointer(array));
  }
  return launch;
}

}  // namespace

CheckLaunch sign_vectors(double* to, std::int64_t count, std::uint64_t seed) {
  return {"product_signs",
          blocks(count, 256),
          1,
          256,
          {CheckLaunch::pointer(to), CheckLaunch::number(count), Argument{seed}}};
}

std::size_t product_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k) {
  return static_cast<std::size_t>(Vectors(m, n, k).end) * sizeof(double);
}

std::vector<CheckLaunch> product_projection(const CheckedProduct& p, std::uint64_t seed, void* scratch, void* result) {
  const ProductModel& s = p.model;
  if (s.m == 0 || s.n == 0) return {};
  if (p.activation != 0) return samples(p, seed, result);
  const Vectors place(s.m, s.n, s.k);
  Plan plan(static_cast<double*>(scratch));
  plan.launches.push_back(sign_vectors(static_cast<double*>(scratch) + place.signs, s.n, seed));
  plan.multiply({p.b, p.scale_b, p.granularity_b, p.trans_b, !p.trans_b}, place.signs, place.product);
  plan.multiply({p.a, p.scale_a, p.granularity_a, p.trans_a, p.trans_a}, place.product, place.expected);
  if (p.old.data != 0) plan.multiply(p.old, place.signs, place.expected);
  const bool adds = p.bias.data != 0 || p.residual.data != 0;
  if (p.bias.data != 0) {
    DeviceMatrix every_row = p.bias;
    every_row.rows = s.m;
    every_row.pitch = 0;
    plan.multiply(every_row, place.signs, place.added);
  }
  if (p.residual.data != 0) plan.multiply(p.residual, place.signs, place.added);
  plan.multiply(p.c, place.signs, place.found, place.half_ulps);
  plan.launches.push_back(
      {"product_judge",
       blocks(s.m, 256),
       1,
       256,
       {plan.at(place.found), plan.at(place.expected), adds ? plan.at(place.added) : CheckLaunch::pointer(nullptr),
        plan.at(place.half_ulps), CheckLaunch::number(s.m), CheckLaunch::real(terms_of(s)),
        CheckLaunch::real(p.truncated), CheckLaunch::real(expected_truncation(s).ideal),
        CheckLaunch::real(s.more_ideal_shared), CheckLaunch::pointer(result)}});
  return std::move(plan.launches);
}

std::vector<CheckLaunch> product_rows_of_reference(const CheckedProduct& p, const ReferenceRows& rows) {
  if (rows.count == 0 || p.model.n == 0) return {};
  std::vector<CheckLaunch> launches;
  const std::int64_t unit_terms = p.model.matrix_unit_terms;
  if (unit_terms != 0) launches.push_back(truncation(p, rows));
  CheckLaunch launch = over_rows("product_reference", p, rows);
  launch.arguments = operands_of(p);
  append_kind(p, launch.arguments);
  for (const std::int64_t number :
       {static_cast<std::int64_t>(p.model.out), rows.first, rows.count, p.model.n, p.model.k}) {
    launch.arguments.push_back(CheckLaunch::number(number));
  }
  append_model(p, unit_terms != 0 ? 0.0 : p.truncated, launch.arguments);
  launch.arguments.push_back(CheckLaunch::number(unit_terms));
  for (const double* array : {rows.value, rows.allowed, rows.variance, rows.shift}) {
    launch.arguments.push_back(CheckLaunch::pointer(array));
  }
  launches.push_back(std::move(launch));
  return launches;
}

}  // namespace ridge::ops
