// NVIDIA's cuBLASLt, loaded at run time, for the operators that have it as a peer. Descriptors and the library's own
// choice of algorithm are kept per case; the workspace comes with a call, because two products at once must not share
// it. Where its headers are missing the same names refuse every case.
#pragma once

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "device/cpu/shared_library.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/library.h"
#include "device/cuda/stream.h"
#include "ops/op.h"

namespace ridge::ops::matmul::peer {

namespace gpu = device::cuda;

// Which elements of an 8-bit operand share a scale: all, a row, 1 x 128 or 128 x 128.
enum class Scales { kTensor, kRow, kVector, kBlock };
// A product in the library's words.
struct PeerCase {
  bool trans_a = false, trans_b = false, accumulate = false;
  // Of 8-bit operands: how the matrix unit may sum, and the scales.
  bool fast_accumulate = false;
  Scales scales_a = Scales::kTensor, scales_b = Scales::kTensor;
  bool tf32 = false;        // f32 operands rounded to 10 bits of mantissa
  int multiprocessors = 0;  // that it may count on; 0: all
};

inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

#if __has_include(<cublasLt.h>)

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

inline const CublasLt& lt() {
  static const CublasLt* const instance = new CublasLt;
  return *instance;
}

inline Status checked(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return ok_status();
  return make_error(ErrorCode::kToolFailed, "{}: {}", call, lt().status_name(status));
}

// What belongs to a device; kept until the process ends.
class Context {
 public:
  static Result<cublasLtHandle_t> handle(const gpu::Device& device) {
    const std::scoped_lock lock(mutex());
    static std::map<int, cublasLtHandle_t> handles;
    cublasLtHandle_t& handle = handles[device.info().index];
    if (handle == nullptr) RIDGE_CHECK_OK(checked(lt().create(&handle), "cublasLtCreate"));
    return handle;
  }

 private:
  static std::mutex& mutex() {
    static auto* const instance = new std::mutex;
    return *instance;
  }
};

inline cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    case DType::kE4m3fn: return CUDA_R_8F_E4M3;
    case DType::kE5m2: return CUDA_R_8F_E5M2;
    default: return CUDA_R_32F;
  }
}

inline std::int32_t scale_mode(Scales scales) {
  switch (scales) {
    case Scales::kTensor: break;
    case Scales::kRow: return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    case Scales::kVector: return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Scales::kBlock: return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  }
  return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

// Descriptors of one case and the algorithm for it. Row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T, so
// B comes first.
class Matmul {
 public:
  static Result<Matmul> create(const std::string& label, const PeerCase& s, const TensorView& a, const TensorView& b,
                               const TensorView& c, const gpu::Device& device) {
    Matmul made;
    made.device_ = &device;
    made.beta_ = s.accumulate ? 1.0f : 0.0f;
    RIDGE_TRY(handle, Context::handle(device));
    made.handle_ = handle;
    const cublasComputeType_t how = s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    RIDGE_CHECK_OK(checked(lt().desc_create(&made.operation_, how, CUDA_R_32F), "cublasLtMatmulDescCreate"));
    RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_TRANSA, s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_TRANSB, s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (s.multiprocessors > 0) {
      RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(s.multiprocessors)));
    }
    if (size_bits(a.dtype) == 8) {
      RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(s.fast_accumulate)));
      if (s.scales_a != Scales::kTensor) {  // which libraries before 12.8 have no word for
        RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(s.scales_b)));
        RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(s.scales_a)));
      }
      RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(b.data)));
      RIDGE_CHECK_OK(made.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(a.data)));
    }
    RIDGE_CHECK_OK(made.layout(made.b_, b));
    RIDGE_CHECK_OK(made.layout(made.a_, a));
    RIDGE_CHECK_OK(made.layout(made.c_, c));
    RIDGE_CHECK_OK(made.choose(label, a, b, c));
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

  // Scales lie elsewhere in every call; null leaves 16-bit operands without.
  Status launch(const void* a, const void* b, void* c, const void* scale_a, const void* scale_b,
                std::span<std::byte> workspace, gpu::StreamHandle stream) {
    RIDGE_CHECK_OK(device_->make_current());
    if (scale_a != nullptr) {
      RIDGE_CHECK_OK(set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_b));
      RIDGE_CHECK_OK(set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_a));
    }
    const float alpha = 1.0f;
    return checked(lt().matmul(handle_, operation_, &alpha, b, b_, a, a_, &beta_, c, c_, c, c_, &algorithm_.algo,
                               workspace.data(), workspace.size(), reinterpret_cast<cudaStream_t>(stream)),
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
  Status layout(cublasLtMatrixLayout_t& out, const TensorView& view) {
    return checked(lt().layout_create(&out, library_type(view.dtype), static_cast<std::uint64_t>(view.shape[1]),
                                      static_cast<std::uint64_t>(view.shape[0]), view.stride[0]),
                   "cublasLtMatrixLayoutCreate");
  }

  Status choose(const std::string& label, const TensorView& a, const TensorView& b, const TensorView& c) {
    cublasLtMatmulPreference_t preference = nullptr;
    RIDGE_CHECK_OK(checked(lt().preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      lt().preference_set(preference, attribute, &value, sizeof value);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    // Parts of a split sum are added in fp32: C is rounded once.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto alignment = [](const TensorView& view) { return static_cast<std::uint32_t>(view_alignment(view)); };
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(c));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(c));
    int found = 0;
    const cublasStatus_t status =
        lt().heuristic(handle_, operation_, b_, a_, c_, c_, preference, 1, &algorithm_, &found);
    lt().preference_destroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && found > 0) return ok_status();
    return with_hint(make_error(ErrorCode::kUnsupported, "{}: cuBLASLt has no algorithm for it ({})", label,
                                lt().status_name(status)),
                     "use the plain kernel");
  }

  const gpu::Device* device_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_{};
  float beta_ = 0.0f;
};

inline Refusal why_not_installed() {
  if (!lt().library.loaded()) return "not installed: " + lt().library.error();
  if (!lt().usable()) return lt().library.path() + " is not a usable cuBLASLt 12 or 13";
  return std::nullopt;
}

inline std::string version() { return lt().usable() ? fmt::format("{} {}", lt().library.path(), lt().version()) : ""; }

#else

inline constexpr const char* kNoHeaders = "built without the headers of cuBLASLt";

struct Matmul {
  static Result<Matmul> create(const std::string&, const PeerCase&, const TensorView&, const TensorView&,
                               const TensorView&, const gpu::Device&) {
    return make_error(ErrorCode::kUnsupported, "{}", kNoHeaders);
  }
  Status launch(const void*, const void*, void*, const void*, const void*, std::span<std::byte>, gpu::StreamHandle) {
    return make_error(ErrorCode::kUnsupported, "{}", kNoHeaders);
  }
};
inline Refusal why_not_installed() { return kNoHeaders; }
inline std::string version() { return ""; }

#endif

inline Implementation implementation(std::string name, decltype(Implementation::supports) supports,
                                     decltype(Implementation::run) run) {
  Implementation peer;
  peer.name = std::move(name);
  peer.summary = "NVIDIA's cuBLASLt, loaded at run time";
  peer.backend = Backend::kCuda;
  peer.rank = 10;
  peer.vendor = true;
  peer.supports = std::move(supports);
  peer.run = std::move(run);
  peer.version = version;
  peer.workspace_bytes = [](const Problem&, const Stream&) { return kWorkspaceBytes; };
  return peer;
}

}  // namespace ridge::ops::matmul::peer
