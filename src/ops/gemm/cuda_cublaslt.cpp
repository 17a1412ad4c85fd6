// NVIDIA's cuBLASLt, a peer to measure against, and what runs f32 fastest: loaded at run time. Descriptors and the
// library's own choice of algorithm are kept per case; the workspace belongs to a stream, because two products at once
// must not share it.
#include "device/cpu/shared_library.h"
#include "device/cuda/library.h"
#include "ops/gemm/cuda_call.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <map>
#include <mutex>

namespace ridge::ops::gemm {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

struct CublasLt {
  device::cpu::SharedLibrary library{gpu::toolkit_library("cublasLt", {"13", "12"})};
  template <class F>
  F* find(const char* name) const {
    return library.function<F>(name);
  }
  decltype(&::cublasLtCreate) create = find<decltype(::cublasLtCreate)>("cublasLtCreate");
  decltype(&::cublasLtGetVersion) version = find<decltype(::cublasLtGetVersion)>("cublasLtGetVersion");
  decltype(&::cublasLtGetStatusName) status_name = find<decltype(::cublasLtGetStatusName)>("cublasLtGetStatusName");
  decltype(&::cublasLtMatmulDescCreate) desc_create =
      find<decltype(::cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy =
      find<decltype(::cublasLtMatmulDescDestroy)>("cublasLtMatmulDescDestroy");
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set =
      find<decltype(::cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&::cublasLtMatrixLayoutCreate) layout_create =
      find<decltype(::cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy =
      find<decltype(::cublasLtMatrixLayoutDestroy)>("cublasLtMatrixLayoutDestroy");
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create =
      find<decltype(::cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy =
      find<decltype(::cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy");
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set =
      find<decltype(::cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic =
      find<decltype(::cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(&::cublasLtMatmul) matmul = find<decltype(::cublasLtMatmul)>("cublasLtMatmul");

  [[nodiscard]] bool usable() const { return matmul != nullptr && heuristic != nullptr && status_name != nullptr; }
};

const CublasLt& lt() {
  static const CublasLt* const instance = new CublasLt;
  return *instance;
}

Status checked(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return ok_status();
  return make_error(ErrorCode::kToolFailed, "{}: {}", call, lt().status_name(status));
}

// What belongs to a device and its streams; kept until the process ends.
class Context {
 public:
  static Result<cublasLtHandle_t> handle(const gpu::Device& device) {
    const std::scoped_lock lock(mutex());
    static std::map<int, cublasLtHandle_t> handles;
    cublasLtHandle_t& handle = handles[device.info().index];
    if (handle == nullptr) RIDGE_CHECK_OK(checked(lt().create(&handle), "cublasLtCreate"));
    return handle;
  }
  static Result<void*> workspace(const gpu::Device& device, gpu::StreamHandle stream) {
    const std::scoped_lock lock(mutex());
    static auto* const workspaces = new std::map<std::pair<int, gpu::StreamHandle>, gpu::Buffer>;
    gpu::Buffer& buffer = (*workspaces)[{device.info().index, stream}];
    if (buffer.data() == nullptr) {
      RIDGE_TRY(capturing, gpu::is_capturing(stream));
      if (capturing) {
        return with_hint(make_error(ErrorCode::kConflict,
                                    "gemm: the workspace of this stream is not allocated yet, and "
                                    "no graph can record that"),
                         "call gemm once on this stream before the capture");
      }
      RIDGE_TRY(fresh, gpu::Buffer::allocate(device, kWorkspaceBytes));
      buffer = std::move(fresh);
    }
    return buffer.data();
  }

 private:
  static std::mutex& mutex() {
    static auto* const instance = new std::mutex;
    return *instance;
  }
};

// Descriptors of one case and the algorithm for it. Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T, so
// B comes first.
class Matmul {
 public:
  static Result<Matmul> create(const Problem& problem, std::span<const TensorView> operands,
                               const gpu::Device& device) {
    Matmul made;
    const Shape s = shape_of(problem);
    made.device_ = &device;
    made.beta_ = s.accumulate ? 1.0f : 0.0f;
    RIDGE_TRY(handle, Context::handle(device));
    made.handle_ = handle;
    RIDGE_CHECK_OK(
        checked(lt().desc_create(&made.operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate"));
    RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_TRANSA, s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_TRANSB, s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    RIDGE_CHECK_OK(made.layout(made.b_, s.dtype, operands[1]));
    RIDGE_CHECK_OK(made.layout(made.a_, s.dtype, operands[0]));
    RIDGE_CHECK_OK(made.layout(made.c_, s.out, operands[2]));
    RIDGE_CHECK_OK(made.choose(problem, operands));
    return made;
  }
  Matmul(Matmul&& other) noexcept { swap(other); }
  Matmul& operator=(Matmul&& other) noexcept {
    swap(other);
    return *this;
  }
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul() {
    if (operation_ != nullptr) lt().desc_destroy(operation_);
    for (cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
      if (layout != nullptr) lt().layout_destroy(layout);
    }
  }

  Status launch(std::span<const TensorView> operands, gpu::StreamHandle stream) const {
    RIDGE_CHECK_OK(device_->make_current());
    RIDGE_TRY(workspace, Context::workspace(*device_, stream));
    const float alpha = 1.0f;
    return checked(lt().matmul(handle_, operation_, &alpha, operands[1].data, b_, operands[0].data, a_, &beta_,
                               operands[2].data, c_, operands[2].data, c_, &algorithm_.algo, workspace, kWorkspaceBytes,
                               reinterpret_cast<cudaStream_t>(stream)),
                   "cublasLtMatmul");
  }

 private:
  Matmul() = default;

  void swap(Matmul& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    std::swap(operation_, other.operation_);
    std::swap(a_, other.a_);
    std::swap(b_, other.b_);
    std::swap(c_, other.c_);
    std::swap(algorithm_, other.algorithm_);
    std::swap(beta_, other.beta_);
  }

  template <class T>
  Status set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return checked(lt().desc_set(operation_, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }

  // A stored row-major matrix is its column-major transpose.
  Status layout(cublasLtMatrixLayout_t& out, DType dtype, const TensorView& view) {
    const cudaDataType_t type = dtype == DType::kBf16 ? CUDA_R_16BF : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
    return checked(lt().layout_create(&out, type, static_cast<std::uint64_t>(view.shape[1]),
                                      static_cast<std::uint64_t>(view.shape[0]), view.stride[0]),
                   "cublasLtMatrixLayoutCreate");
  }

  Status choose(const Problem& problem, std::span<const TensorView> operands) {
    cublasLtMatmulPreference_t preference = nullptr;
    RIDGE_CHECK_OK(checked(lt().preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      lt().preference_set(preference, attribute, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    // Parts of a split sum are added in fp32: C is rounded once.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto alignment = [&](std::size_t i) { return static_cast<std::uint32_t>(view_alignment(operands[i])); };
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(1));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(0));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(2));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(2));
    int found = 0;
    const cublasStatus_t status =
        lt().heuristic(handle_, operation_, b_, a_, c_, c_, preference, 1, &algorithm_, &found);
    lt().preference_destroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && found > 0) return ok_status();
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: cuBLASLt has no algorithm for it ({})",
                                problem.problem_case.text(), lt().status_name(status)),
                     "use cuda_simt");
  }

  const gpu::Device* device_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_{};
  float beta_ = 0.0f;
};

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<Matmul> calls;
  gpu::StreamHandle handle = gpu::handle_of(stream);
  RIDGE_TRY(done, finish_empty(shape_of(problem), operands, handle));
  if (done) return ok_status();
  RIDGE_TRY(matmul, calls.get(problem, operands, stream,
                              [&](const gpu::Device& device) { return Matmul::create(problem, operands, device); }));
  return matmul->launch(operands, handle);
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  const Shape s = shape_of(problem);
  // Measured: with a 16-bit C it rounds the product before it adds, up to 45 times the error our contract allows.
  if (s.accumulate && s.out != DType::kF32) {
    return fmt::format("accumulate=1 out={}: cuBLASLt rounds before it adds", to_string(s.out));
  }
  if (!lt().library.loaded()) return "not installed: " + lt().library.error();
  if (!lt().usable()) return lt().library.path() + " is not a usable cuBLASLt 12 or 13";
  return std::nullopt;
}

std::string version() { return lt().usable() ? fmt::format("{} {}", lt().library.path(), lt().version()) : ""; }

Implementation describe_peer() {
  Implementation peer;
  peer.supports = supports;
  peer.run = run;
  peer.version = version;
  return peer;
}

}  // namespace
}  // namespace ridge::ops::gemm

#else

namespace ridge::ops::gemm {
namespace {

Implementation describe_peer() {
  Implementation peer;
  peer.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return "built without the headers of cuBLASLt"; };
  peer.run = [](const Problem&, std::span<const TensorView>, const Stream&) -> Status {
    return make_error(ErrorCode::kUnsupported, "built without the headers of cuBLASLt");
  };
  return peer;
}

}  // namespace
}  // namespace ridge::ops::gemm

#endif

namespace ridge::ops::gemm {

Implementation cuda_cublaslt() {
  Implementation peer = describe_peer();
  peer.name = "cuda_cublaslt";
  peer.summary = "NVIDIA's cuBLASLt, loaded at run time";
  peer.backend = Backend::kCuda;
  peer.rank = 10;
  peer.vendor = true;
  return peer;
}

}  // namespace ridge::ops::gemm
