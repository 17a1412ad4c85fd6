#include "convert.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace ridge::torch_frontend {
namespace {

constexpr std::pair<at::ScalarType, DType> kTypes[] = {
    {at::kFloat, DType::kF32},        {at::kBFloat16, DType::kBf16},
    {at::kHalf, DType::kF16},         {at::kFloat8_e4m3fn, DType::kE4m3fn},
    {at::kFloat8_e5m2, DType::kE5m2}, {at::kFloat8_e8m0fnu, DType::kE8m0},
    {at::kInt, DType::kI32},          {at::kLong, DType::kI64},
    {at::kByte, DType::kU8},          {at::kUInt64, DType::kU64}};

// [rows, cols] of the last two dimensions, swapped when the matrix is to be seen as its transpose.
struct Matrix {
  std::int64_t rows, cols, row_stride, col_stride;
};

Matrix last_two(const Tensor& tensor, bool swapped) {
  const std::int64_t row = tensor.dim() - (swapped ? 1 : 2), col = tensor.dim() - (swapped ? 2 : 1);
  return {tensor.size(row), tensor.size(col), tensor.stride(row), tensor.stride(col)};
}

// Strides of dimensions with one element mean nothing; they are set to what a dense matrix has.
bool adjacent_rows(Matrix& m) {
  if (m.cols <= 1) m.col_stride = 1;
  if (m.rows <= 1) m.row_stride = std::max<std::int64_t>(m.cols, 1);
  return m.rows * m.cols == 0 || (m.col_stride == 1 && m.row_stride >= m.cols);
}

TensorView view_of(const Tensor& tensor, const Matrix& m, DType dtype) {
  TensorView view;
  view.data = tensor.data_ptr();
  view.dtype = dtype;
  view.rank = static_cast<int>(tensor.dim());
  const auto row = static_cast<std::size_t>(view.rank - 2);
  const bool empty = tensor.numel() == 0;
  view.shape[row] = m.rows, view.shape[row + 1] = m.cols;
  view.stride[row] = empty ? std::max<std::int64_t>(m.cols, 1) : m.row_stride, view.stride[row + 1] = 1;
  if (row == 1) {
    view.shape[0] = tensor.size(0);
    const bool dense = empty || tensor.size(0) <= 1;
    view.stride[0] = dense ? std::max<std::int64_t>(m.rows, 1) * view.stride[1] : tensor.stride(0);
  }
  return view;
}

void check_rank(const Tensor& tensor, std::string_view op, std::string_view name) {
  TORCH_CHECK_VALUE(tensor.dim() == 2 || tensor.dim() == 3, op, ": ", name, " has shape ", tensor.sizes(),
                    "; give a matrix, or a batch of matrices with one dimension more");
}

// Scratch memory from PyTorch's own allocator, on its current stream: while a graph is captured, from the pool of that
// graph.
constexpr WorkspaceAllocator kPyTorchMemory = {[](void*, std::size_t bytes, const Stream&) {
                                                 return c10::GetAllocator(c10::DeviceType::CUDA)->raw_allocate(bytes);
                                               },
                                               [](void*, void* data, std::size_t, const Stream&) {
                                                 c10::GetAllocator(c10::DeviceType::CUDA)->raw_deallocate(data);
                                               },
                                               nullptr};

[[noreturn]] void refuse_strides(const Tensor& tensor, std::string_view op, std::string_view name, const char* wanted) {
  TORCH_CHECK_VALUE(false, op, ": ", name, " of shape ", tensor.sizes(), " has strides ", tensor.strides(), ", not ",
                    wanted, "; call .contiguous() on it first (expanded tensors have stride 0)");
}

}  // namespace

DType dtype_of(const Tensor& tensor, std::string_view op, std::string_view name) {
  for (const auto& [theirs, ours] : kTypes) {
    if (tensor.scalar_type() == theirs) return ours;
  }
  TORCH_CHECK_TYPE(false, op, ": ", name, " is ", type_of(tensor),
                   ", which no operator takes; convert it with .to(torch.float32), .bfloat16() or .half()");
}

void check_same_type(const Tensor& a, const Tensor& b, std::string_view op) {
  const bool equal = a.scalar_type() == b.scalar_type();
  TORCH_CHECK_TYPE(equal, op, ": a is ", type_of(a), " and b is ", type_of(b), "; cast one of them: a.to(", type_of(b),
                   ") or b.to(", type_of(a), "), or call it under torch.autocast");
}

std::string name_of(at::ScalarType type) { return "torch." + std::string(c10::getDtypeNames(type).first); }

at::ScalarType scalar_type_of(DType dtype) {
  for (const auto& [theirs, ours] : kTypes) {
    if (dtype == ours) return theirs;
  }
  TORCH_CHECK_TYPE(false, "ridgeline: no PyTorch type for ", to_string(dtype));
}

TensorView matrix_view(const Tensor& tensor, bool& transposed, std::string_view op, std::string_view name) {
  check_rank(tensor, op, name);
  const DType dtype = dtype_of(tensor, op, name);
  Matrix m = last_two(tensor, false);
  if (adjacent_rows(m)) return view_of(tensor, m, dtype);
  m = last_two(tensor, true);
  if (!adjacent_rows(m)) refuse_strides(tensor, op, name, "row- or column-major");
  transposed = !transposed;
  return view_of(tensor, m, dtype);
}

TensorView row_major_view(const Tensor& tensor, std::string_view op, std::string_view name) {
  check_rank(tensor, op, name);
  Matrix m = last_two(tensor, false);
  if (!adjacent_rows(m)) refuse_strides(tensor, op, name, "row-major");
  return view_of(tensor, m, dtype_of(tensor, op, name));
}

TensorView rows_view(const Tensor& tensor, std::string_view op, std::string_view name) {
  TensorView view;
  view.data = tensor.data_ptr();
  view.dtype = dtype_of(tensor, op, name);
  view.rank = 2;
  view.shape[1] = tensor.size(-1);
  view.shape[0] = view.shape[1] == 0 ? 0 : tensor.numel() / view.shape[1];
  const bool strided = tensor.dim() == 2 && view.shape[0] > 1 && view.shape[1] > 0;
  view.stride[0] = strided ? tensor.stride(0) : view.shape[1];
  view.stride[1] = 1;
  return view;
}

TensorView dense_view(const Tensor& tensor, std::string_view op, std::string_view name) {
  if (!tensor.is_contiguous()) refuse_strides(tensor, op, name, "contiguous");
  TORCH_CHECK_VALUE(tensor.dim() <= kMaxRank, op, ": ", name, " has ", tensor.dim(), " dimensions");
  TensorView view;
  view.data = tensor.data_ptr();
  view.dtype = dtype_of(tensor, op, name);
  view.rank = static_cast<int>(tensor.dim());
  std::int64_t stride = 1;
  for (auto i = static_cast<std::size_t>(view.rank); i-- > 0;) {
    view.shape[i] = tensor.size(static_cast<std::int64_t>(i));
    view.stride[i] = stride;
    stride *= std::max<std::int64_t>(view.shape[i], 1);
  }
  return view;
}

Tensor allocated(const Tensor& like, c10::IntArrayRef sizes, at::ScalarType type) {
  const c10::DispatchKeySet backend(like.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
  return at::_ops::empty_memory_format::redispatch(backend, c10::fromIntArrayRefSlow(sizes), type, like.layout(),
                                                   like.device(), std::nullopt, std::nullopt);
}

namespace {
constexpr std::int64_t kMostMultiprocessors = 1024;
std::atomic<int> own_sm_budget{0};
}  // namespace

void set_sm_budget(std::int64_t multiprocessors) {
  TORCH_CHECK_VALUE(std::abs(multiprocessors) <= kMostMultiprocessors, "set_sm_budget: ", multiprocessors,
                    " multiprocessors; give 1 to ", kMostMultiprocessors,
                    ", less than 0 to leave so many to others, or 0 for all");
  own_sm_budget.store(static_cast<int>(multiprocessors));
}

int sm_budget() {
  if (const int own = own_sm_budget.load(std::memory_order_relaxed); own != 0) return own;
  return -at::globalContext()._SMCarveout_EXPERIMENTAL().value_or(0);
}

Stream stream_of(const Tensor& tensor) {
  if (tensor.is_cpu()) return Stream::cpu(at::get_num_threads());
  const c10::Device device = tensor.device();
  TORCH_CHECK_NOT_IMPLEMENTED(device.is_cuda(), "ridgeline: no operators on device ", device,
                              "; move the tensors to the CPU or to a CUDA device");
  const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
  Stream stream = Stream::cuda(cuda.getStreamNativeHandle(cuda.getStream(device)), device.index());
  stream.allocator = &kPyTorchMemory;
  stream.multiprocessors = sm_budget();
  return stream;
}

OnDeviceOf::OnDeviceOf(const Tensor& tensor) {
  if (!tensor.is_cuda()) return;
  const c10::Device before = c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).exchangeDevice(tensor.device());
  if (before != tensor.device()) previous_ = before;  // going back costs as much as coming, so only where it is needed
}

OnDeviceOf::~OnDeviceOf() {
  if (previous_) c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).uncheckedSetDevice(*previous_);
}

void check_same_device(std::string_view op, std::initializer_list<Named> tensors) {
  const Named& first = *tensors.begin();
  for (const Named& other : tensors) {
    if (other.tensor == nullptr || !other.tensor->defined()) continue;
    TORCH_CHECK(other.tensor->device() == first.tensor->device(), op, ": ", first.name, " is on ",
                first.tensor->device(), " and ", other.name, " on ", other.tensor->device(),
                "; move them to one device with .to(device)");
  }
}

void raise(const Error& error) {
  const std::string text = error.text();
  TORCH_CHECK_VALUE(error.code != ErrorCode::kInvalidArgument && error.code != ErrorCode::kNotFound, text);
  TORCH_CHECK_NOT_IMPLEMENTED(error.code != ErrorCode::kUnsupported, text);
  TORCH_CHECK(false, text);
}

void check(const Status& status) {
  if (!status) raise(status.error());
}

Tensor usable(const Tensor& gradient) {
  if (gradient.is_contiguous() || gradient.transpose(-1, -2).is_contiguous()) return gradient;
  return gradient.contiguous();
}

}  // namespace ridge::torch_frontend
