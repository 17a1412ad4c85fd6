#include "device/cuda/plan.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "device/cuda/buffer.h"

namespace ridge::device::cuda {
namespace {

using record::ResolvedArgument;

Dim3 dim3(const std::uint32_t (&sides)[3]) { return Dim3{sides[0], sides[1], sides[2]}; }

LaunchShape shape_of(const record::ResolvedKernel& kernel) {
  LaunchShape shape;
  shape.grid = dim3(kernel.grid);
  shape.block = dim3(kernel.block);
  shape.cluster = dim3(kernel.cluster);
  shape.shared_bytes = kernel.shared_bytes;
  shape.overlap_previous = kernel.overlap_previous;
  return shape;
}

// The driver copies as many bytes as the kernel declares from wherever we point, so the sizes must agree.
Status check_parameters(const record::ResolvedKernel& planned, const Kernel& kernel) {
  const std::vector<std::size_t>& wanted = kernel.parameter_bytes();
  if (wanted.empty()) return ok_status();
  if (wanted.size() != planned.parameters.size()) {
    return with_hint(invalid("kernel {}: the plan gives {} arguments, the kernel has {} parameters", planned.symbol,
                             planned.parameters.size(), wanted.size()),
                     "list one argument for each parameter, in order");
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == planned.parameters[i].bytes) continue;
    return with_hint(invalid("kernel {}: argument {} of the plan has {} bytes, the kernel's parameter {}",
                             planned.symbol, i, planned.parameters[i].bytes, wanted[i]),
                     "i32, u32 and f32 are 4 bytes, i64, u64, f64 and addresses 8, a tensor map 128");
  }
  return ok_status();
}

Status check_kernel(const record::ResolvedKernel& planned, const Kernel& kernel, const GpuInfo& gpu) {
  const LaunchShape shape = shape_of(planned);
  if (Status fits = check_shape(shape, gpu); !fits) return in_context("kernel " + planned.symbol, fits.error());
  const KernelAttributes& built = kernel.attributes();
  if (shape.block.count() > static_cast<std::uint64_t>(built.max_threads_per_block)) {
    return with_hint(invalid("kernel {}: block of {} threads, but with its {} registers and launch bounds it takes {}",
                             planned.symbol, shape.block.count(), built.registers, built.max_threads_per_block),
                     "use a smaller block or add __launch_bounds__");
  }
  const std::int64_t shared = std::int64_t{shape.shared_bytes} + built.static_shared_bytes;
  if (shared > gpu.max_shared_bytes) {
    return invalid("kernel {}: {} bytes of dynamic and {} of static shared memory; a block of {} has {}",
                   planned.symbol, shape.shared_bytes, built.static_shared_bytes, gpu.name, gpu.max_shared_bytes);
  }
  return check_parameters(planned, kernel);
}

// The kernel for lists of a planned one, held to the same limits.
Result<Kernel> find_list(const PreparedPlan::FindKernel& find, const record::ResolvedKernel& planned,
                         const GpuInfo& gpu) {
  if (calls_of_list(planned.parameters[0].bytes) == 0) {
    return with_hint(invalid("kernel {}: its argument has {} bytes, too many for a list of such calls", planned.list,
                             planned.parameters[0].bytes),
                     "leave \"list\" out of its plan");
  }
  record::ResolvedKernel as_list = planned;
  as_list.symbol = planned.list;
  as_list.parameters[0].bytes = bytes_of_list(planned.parameters[0].bytes);
  RIDGE_TRY(list, find(as_list));
  RIDGE_CHECK_OK(check_kernel(as_list, list, gpu));
  if (planned.shared_bytes > 0) RIDGE_CHECK_OK(list.allow(planned.shared_bytes));
  return list;
}

TensorMapRequest request_of(const record::ResolvedTensorMap& map) {
  TensorMapRequest request;
  request.dtype = map.dtype;
  request.rank = static_cast<int>(map.sizes.size());
  for (std::size_t i = 0; i < map.sizes.size(); ++i) {
    request.sizes[i] = map.sizes[i];
    request.box[i] = map.box[i];
    if (i < map.element_strides.size()) request.element_strides[i] = map.element_strides[i];
    if (i > 0) request.strides_bytes[i] = map.strides_bytes[i - 1];
  }
  request.swizzle_bytes = map.swizzle_bytes;
  request.l2_promotion_bytes = map.l2_promotion_bytes;
  request.fill_nan = map.fill_nan;
  return request;
}

constexpr std::size_t kArgumentAlignment = 128;  // of a tensor map, the strictest
std::size_t aligned(std::size_t bytes) {
  return (bytes + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
}

// A second turn of clusters would begin when the first has done all of its share. Without clusters grids are made of
// the number of multiprocessors, which is exact.
Status cut_to_resident(record::ResolvedKernel& planned, const Kernel& kernel) {
  const std::uint64_t cluster = dim3(planned.cluster).count();
  if (!planned.persistent || cluster == 1) return ok_status();
  RIDGE_TRY(most, kernel.most_clusters(shape_of(planned)));
  const std::uint64_t blocks = std::uint64_t{planned.cluster[0]} * static_cast<std::uint64_t>(most);
  if (most > 0 && blocks < planned.grid[0]) planned.grid[0] = static_cast<std::uint32_t>(blocks);
  return ok_status();
}

}  // namespace

Status BoundPlan::rebind(std::span<void* const> operands, std::span<void* const> workspaces) {
  using Kind = ResolvedArgument::Kind;
  if (operands.size() != operand_count_ || workspaces.size() != workspace_count_) {
    return make_error(ErrorCode::kInternal,
                      "the plan has {} operands and {} workspaces; {} and {} addresses were given", operand_count_,
                      workspace_count_, operands.size(), workspaces.size());
  }
  for (Clear& clear : clears_) clear.data = (clear.in_workspace ? workspaces : operands)[clear.index];
  for (Map& map : maps_) {
    const void* base = map.in_workspace ? workspaces[map.index] : operands[map.index];
    if (Status encoded = encode(map.request, base, map.encoded); !encoded) {
      return in_context("tensor map " + map.name, encoded.error());
    }
  }
  for (const Patch& patch : patches_) {
    if (patch.kind == Kind::kTensorMap) {
      std::memcpy(patch.target, &maps_[patch.index].encoded, sizeof(TensorMap));
    } else {
      const auto& from = patch.kind == Kind::kWorkspace ? workspaces : operands;
      std::memcpy(patch.target, &from[patch.index], sizeof(void*));
    }
  }
  return ok_status();
}

void BoundPlan::set_scalars(std::span<const double> scalars) {
  if (formulas_.empty() || std::ranges::equal(scalars, scalars_)) return;
  std::ranges::copy(scalars, scalars_.begin());
  for (Formula& formula : formulas_) {
    const double value = formula.expression.at(scalars);
    const auto narrow = static_cast<float>(value);
    std::memcpy(formula.target, formula.bytes == sizeof narrow ? static_cast<const void*>(&narrow) : &value,
                formula.bytes);
  }
}

Status BoundPlan::launch(StreamHandle stream) const {
  for (const Clear& clear : clears_) RIDGE_CHECK_OK(fill_bytes(clear.data, 0, clear.bytes, stream));
  for (const Step& step : steps_) RIDGE_CHECK_OK(step.kernel.launch(step.shape, step.arguments, stream));
  return ok_status();
}

Status BoundPlan::launch_in(CallList& list) const {
  const Step& step = steps_[0];
  return list.add({step.kernel, step.list, step.shape, step.arguments[0], step.parameter_bytes});
}

Result<PreparedPlan> PreparedPlan::prepare(const FindKernel& find, const record::ResolvedPlan& plan,
                                           const GpuInfo& gpu) {
  PreparedPlan prepared;
  prepared.plan_ = plan;
  for (record::ResolvedKernel& planned : prepared.plan_.kernels) {
    RIDGE_TRY(kernel, find(planned));
    RIDGE_CHECK_OK(check_kernel(planned, kernel, gpu));
    const bool large_clusters = dim3(planned.cluster).count() > 8;
    if (planned.shared_bytes > 0 || large_clusters) RIDGE_CHECK_OK(kernel.allow(planned.shared_bytes, large_clusters));
    RIDGE_CHECK_OK(cut_to_resident(planned, kernel));
    prepared.kernels_.push_back(std::move(kernel));
    Kernel list;
    if (!planned.list.empty()) {
      RIDGE_TRY(found, find_list(find, planned, gpu));
      list = std::move(found);
    }
    prepared.lists_.push_back(std::move(list));
  }
  for (const record::ResolvedWorkspace& workspace : plan.workspaces)
    prepared.workspace_bytes_.push_back(workspace.bytes);
  return prepared;
}

Result<PreparedPlan> PreparedPlan::prepare(const Module& module, const record::ResolvedPlan& plan, const GpuInfo& gpu) {
  return prepare([&](const record::ResolvedKernel& planned) { return module.kernel(planned.symbol); }, plan, gpu);
}

Result<BoundPlan> PreparedPlan::bind(std::span<void* const> operands, std::span<void* const> workspaces) const {
  BoundPlan bound = lay_out();
  RIDGE_CHECK_OK(bound.rebind(operands, workspaces));
  return bound;
}

BoundPlan PreparedPlan::lay_out() const {
  using Kind = ResolvedArgument::Kind;
  BoundPlan bound;
  bound.operand_count_ = plan_.operand_count;
  bound.workspace_count_ = plan_.workspaces.size();
  for (const record::ResolvedTensorMap& map : plan_.tensor_maps) {
    bound.maps_.push_back({map.name, request_of(map), map.in_workspace, map.index, {}});
  }
  for (std::size_t i = 0; i < plan_.workspaces.size(); ++i) {
    if (plan_.workspaces[i].zero) bound.clears_.push_back({true, i, plan_.workspaces[i].bytes, nullptr});
  }
  for (const record::ResolvedClear& clear : plan_.clears) {
    bound.clears_.push_back({false, clear.operand, clear.bytes, nullptr});
  }
  std::vector<std::string> scalars;
  for (const record::PlanScalar& scalar : plan_.scalars) {
    scalars.push_back(scalar.name);
    bound.scalars_.push_back(scalar.usual);
  }
  for (std::size_t i = 0; i < plan_.kernels.size(); ++i) {
    const record::ResolvedKernel& planned = plan_.kernels[i];
    std::size_t total = kArgumentAlignment;
    for (const auto& parameter : planned.parameters) total += aligned(parameter.bytes);
    auto& storage = bound.storage_.emplace_back(std::make_unique<std::byte[]>(total));
    const auto start = reinterpret_cast<std::uintptr_t>(storage.get());
    std::byte* next = storage.get() + (kArgumentAlignment - start % kArgumentAlignment) % kArgumentAlignment;
    BoundPlan::Step step{kernels_[i], lists_[i], shape_of(planned), {}, 0};
    if (!planned.list.empty()) step.parameter_bytes = planned.parameters[0].bytes;
    for (const auto& parameter : planned.parameters) {
      for (const ResolvedArgument& part : parameter.parts) {
        std::byte* const target = next + part.offset;
        if (part.kind == Kind::kZeros) continue;  // as the storage is
        if (part.kind == Kind::kFormula) {
          const record::ResolvedFormula& formula = plan_.formulas[part.index];
          bound.formulas_.push_back({target, part.bytes, {formula.expression, formula.known, scalars}});
        }
        if (part.kind == Kind::kValue || part.kind == Kind::kFormula) {
          std::memcpy(target, &part.bits, part.bytes);
        } else {
          bound.patches_.push_back({target, part.kind, part.index});
        }
      }
      step.arguments.push_back(next);
      next += aligned(parameter.bytes);
    }
    bound.steps_.push_back(std::move(step));
  }
  return bound;
}

}  // namespace ridge::device::cuda
