#include "ops/device_check.h"

#include <algorithm>

#include "base/embedded.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops {
std::span<const EmbeddedFile> device_sources();  // every device source of the operators
}

namespace ridge::ops::gemm {

namespace {

constexpr std::int64_t kLanes = 5;  // of device_check.cu

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::uint32_t blocks(std::int64_t count, std::int64_t per_block) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(count, per_block), 1, 1 << 16));
}

// Where the vectors of a projection lie in its scratch memory, in doubles.
struct Vectors {
  explicit Vectors(const Shape& s)
      : product(kLanes * s.n),
        expected(product + kLanes * s.k),
        found(expected + kLanes * s.m),
        half_ulps(found + kLanes * s.m),
        end(half_ulps + s.m) {}
  std::int64_t signs = 0, product, expected, found, half_ulps, end;
};

class Plan {
 public:
  explicit Plan(double* scratch) : scratch_(scratch) {}

  // y += X v, or y += X^T v with `transposed`.
  void multiply(const TensorView& x, bool transposed, std::int64_t v, std::int64_t y, std::int64_t half_ulps = -1) {
    const DeviceMatrix matrix = device_matrix(x);
    if (matrix.rows == 0 || matrix.columns == 0) return;
    // Enough blocks for every multiprocessor, long enough runs that the sums at their ends do not matter.
    const std::int64_t lines = transposed ? ceil_div(matrix.columns, 512) : ceil_div(matrix.rows, 64);
    const std::int64_t length = transposed ? matrix.rows : matrix.columns;
    const std::int64_t splits = std::clamp<std::int64_t>(std::min(ceil_div(1056, lines), length / 64), 1, 512);
    const std::int64_t per_block = ceil_div(length, splits);
    CheckLaunch launch;
    launch.grid_x = static_cast<std::uint32_t>(lines);
    launch.grid_y = static_cast<std::uint32_t>(ceil_div(length, per_block));
    launch.arguments = {matrix, at(v), CheckLaunch::number(per_block), at(y)};
    launch.kernel = transposed ? "gemm_columns" : "gemm_rows";
    launch.block = transposed ? 128 : 256;
    if (!transposed) launch.arguments.push_back(half_ulps < 0 ? CheckLaunch::pointer(nullptr) : at(half_ulps));
    launches.push_back(std::move(launch));
  }
  [[nodiscard]] CheckLaunch::Argument at(std::int64_t offset) const { return CheckLaunch::pointer(scratch_ + offset); }

  std::vector<CheckLaunch> launches;

 private:
  double* scratch_;
};

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const Shape s = shape_of(request.problem);
  if (s.m == 0 || s.n == 0) return {};
  const Vectors place(s);
  Plan plan(static_cast<double*>(request.scratch));
  plan.launches.push_back({"gemm_signs",
                           blocks(s.n, 256),
                           1,
                           256,
                           {plan.at(place.signs), CheckLaunch::number(s.n), CheckLaunch::Argument{request.seed}}});
  plan.multiply(request.operands[1], s.trans_b, place.signs, place.product);
  plan.multiply(request.operands[0], s.trans_a, place.product, place.expected);
  if (s.accumulate) plan.multiply(request.operands[3], false, place.signs, place.expected);
  plan.multiply(request.operands[2], false, place.signs, place.found, place.half_ulps);
  plan.launches.push_back(
      {"gemm_judge",
       blocks(s.m, 256),
       1,
       256,
       {plan.at(place.found), plan.at(place.expected), plan.at(place.half_ulps), CheckLaunch::number(s.m),
        CheckLaunch::number(s.k + (s.accumulate ? 1 : 0)), CheckLaunch::number(static_cast<std::int64_t>(s.dtype)),
        CheckLaunch::pointer(request.result)}});
  return std::move(plan.launches);
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const Shape s = shape_of(request.problem);
  if (request.count == 0 || s.n == 0) return {};
  const DeviceMatrix none{};
  CheckLaunch launch;
  launch.kernel = "gemm_reference";
  launch.grid_x = static_cast<std::uint32_t>(ceil_div(s.n, 64));
  launch.grid_y = static_cast<std::uint32_t>(ceil_div(request.count, 64));
  launch.arguments = {device_matrix(request.operands[0]),
                      device_matrix(request.operands[1]),
                      s.accumulate ? device_matrix(request.operands[3]) : none,
                      CheckLaunch::number(s.trans_a ? 1 : 0),
                      CheckLaunch::number(s.trans_b ? 1 : 0),
                      CheckLaunch::number(request.first),
                      CheckLaunch::number(request.count),
                      CheckLaunch::number(s.n),
                      CheckLaunch::number(s.k),
                      CheckLaunch::number(static_cast<std::int64_t>(s.out)),
                      CheckLaunch::pointer(request.value),
                      CheckLaunch::pointer(request.allowed),
                      CheckLaunch::pointer(request.variance),
                      CheckLaunch::pointer(request.shift)};
  return {std::move(launch)};
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  for (const EmbeddedFile& file : device_sources()) {
    if (file.path == "ops/gemm/device_check.cu") check->source = file.text;
  }
  check->scratch_bytes = [](const Problem& problem) {
    return static_cast<std::size_t>(Vectors(shape_of(problem)).end) * sizeof(double);
  };
  check->refuses = [](const Problem& problem) -> std::optional<std::string> {
    const Shape s = shape_of(problem);
    if (!s.epilogue() && s.batch == 1) return std::nullopt;
    return "the checks on a GPU know neither epilogues nor batches of gemm";
  };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::gemm
