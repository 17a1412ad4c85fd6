// Between PyTorch's tensors, devices and errors and those of the public interface.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "ridge/result.h"
#include "ridge/stream.h"
#include "ridge/tensor.h"

namespace ridge::torch_frontend {

using at::Tensor;

// The element type of a tensor of ours; TypeError with the way out for what no operator takes. Which one takes which
// type says its own check.
DType dtype_of(const Tensor& tensor, std::string_view op, std::string_view name);
// Two factors have one dtype, as torch.matmul asks: a product of two would have to say in which it is computed.
// TypeError with both and the casts.
void check_same_type(const Tensor& a, const Tensor& b, std::string_view op);
at::ScalarType scalar_type_of(DType dtype);
// As Python spells it: torch.float32.
std::string name_of(at::ScalarType type);
inline std::string type_of(const Tensor& tensor) { return name_of(tensor.scalar_type()); }

// A stored matrix, or a batch of them, as the operators want it: rows whose elements are adjacent. A column-major one
// is its transpose, so `transposed` is flipped and nothing is copied. ValueError for what is neither, for instance an
// expanded tensor.
TensorView matrix_view(const Tensor& tensor, bool& transposed, std::string_view op, std::string_view name);
// The same where a transpose will not do: an output, codes, scales.
TensorView row_major_view(const Tensor& tensor, std::string_view op, std::string_view name);
// [..., columns] as a matrix of rows; check_rows() has seen it.
TensorView rows_view(const Tensor& tensor, std::string_view op, std::string_view name);
// Contiguous, of any rank up to kMaxRank.
TensorView dense_view(const Tensor& tensor, std::string_view op, std::string_view name);

// An uninitialised tensor on the device of `like`. What at::empty ends in, without asking again which backend is meant:
// half a microsecond of a call.
Tensor allocated(const Tensor& like, c10::IntArrayRef sizes, at::ScalarType type);

// PyTorch's current stream of the tensor's device, or as many CPU threads as PyTorch uses.
Stream stream_of(const Tensor& tensor);

// Of a GPU's multiprocessors, as Stream::multiprocessors says it: what set_sm_budget() was given, else what PyTorch's
// own carve-out leaves.
void set_sm_budget(std::int64_t multiprocessors);
int sm_budget();

// Makes the tensor's device current while a call runs; nothing to do on the CPU.
class OnDeviceOf {
 public:
  explicit OnDeviceOf(const Tensor& tensor);
  ~OnDeviceOf();
  OnDeviceOf(const OnDeviceOf&) = delete;
  OnDeviceOf& operator=(const OnDeviceOf&) = delete;

 private:
  std::optional<c10::Device> previous_;
};

// All on one device, as PyTorch asks of its own operators; RuntimeError names the two that are not.
struct Named {
  std::string_view name;
  const Tensor* tensor;  // null or undefined: not given
  Named(std::string_view its_name, const Tensor* one) : name(its_name), tensor(one) {}
  Named(std::string_view its_name, const std::optional<Tensor>* one)
      : name(its_name), tensor(one->has_value() ? &**one : nullptr) {}
};
void check_same_device(std::string_view op, std::initializer_list<Named> tensors);

// Throws the Python exception that fits, with our message: ValueError, NotImplementedError, else RuntimeError.
void check(const Status& status);
[[noreturn]] void raise(const Error& error);

// A gradient as the operators want it: autograd hands out expanded and otherwise strided ones, and no caller can change
// that, so here alone a copy is made.
Tensor usable(const Tensor& gradient);

}  // namespace ridge::torch_frontend
