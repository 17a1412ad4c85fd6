// oneDNN's matmul primitive, a peer to measure against: f32, and bf16 where the processor has AVX-512. Primitives are
// compiled for one shape and layout by oneDNN, so each thread keeps the ones it has made.
#include "base/error.h"
#include "device/cpu/cpu_info.h"
#include "device/cpu/shared_library.h"
#include "ops/gemm/vendor.h"

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#if DNNL_VERSION_MAJOR == 2
#define RIDGE_HAS_ONEDNN 1
#endif
#endif

#if defined(RIDGE_HAS_ONEDNN)

#include <array>
#include <map>

namespace ridge::ops::gemm {
namespace {

using device::cpu::SharedLibrary;

struct OneDnn {
  SharedLibrary library{{"libdnnl.so.2"}};
  SharedLibrary openmp{{"libgomp.so.1"}};  // the runtime its threads come from
  void (*set_threads)(int) = openmp.function<void(int)>("omp_set_num_threads");
  decltype(::dnnl_engine_create)* engine_create =
      library.function<decltype(::dnnl_engine_create)>("dnnl_engine_create");
  decltype(::dnnl_stream_create)* stream_create =
      library.function<decltype(::dnnl_stream_create)>("dnnl_stream_create");
  decltype(::dnnl_stream_wait)* stream_wait = library.function<decltype(::dnnl_stream_wait)>("dnnl_stream_wait");
  decltype(::dnnl_memory_desc_init_by_strides)* memory_desc_init_by_strides =
      library.function<decltype(::dnnl_memory_desc_init_by_strides)>("dnnl_memory_desc_init_by_strides");
  decltype(::dnnl_memory_create)* memory_create =
      library.function<decltype(::dnnl_memory_create)>("dnnl_memory_create");
  decltype(::dnnl_memory_destroy)* memory_destroy =
      library.function<decltype(::dnnl_memory_destroy)>("dnnl_memory_destroy");
  decltype(::dnnl_memory_set_data_handle)* memory_set_data_handle =
      library.function<decltype(::dnnl_memory_set_data_handle)>("dnnl_memory_set_data_handle");
  decltype(::dnnl_matmul_desc_init)* matmul_desc_init =
      library.function<decltype(::dnnl_matmul_desc_init)>("dnnl_matmul_desc_init");
  decltype(::dnnl_primitive_attr_create)* primitive_attr_create =
      library.function<decltype(::dnnl_primitive_attr_create)>("dnnl_primitive_attr_create");
  decltype(::dnnl_primitive_attr_destroy)* primitive_attr_destroy =
      library.function<decltype(::dnnl_primitive_attr_destroy)>("dnnl_primitive_attr_destroy");
  decltype(::dnnl_primitive_attr_set_post_ops)* primitive_attr_set_post_ops =
      library.function<decltype(::dnnl_primitive_attr_set_post_ops)>("dnnl_primitive_attr_set_post_ops");
  decltype(::dnnl_post_ops_create)* post_ops_create =
      library.function<decltype(::dnnl_post_ops_create)>("dnnl_post_ops_create");
  decltype(::dnnl_post_ops_destroy)* post_ops_destroy =
      library.function<decltype(::dnnl_post_ops_destroy)>("dnnl_post_ops_destroy");
  decltype(::dnnl_post_ops_append_sum)* post_ops_append_sum =
      library.function<decltype(::dnnl_post_ops_append_sum)>("dnnl_post_ops_append_sum");
  decltype(::dnnl_primitive_desc_create)* primitive_desc_create =
      library.function<decltype(::dnnl_primitive_desc_create)>("dnnl_primitive_desc_create");
  decltype(::dnnl_primitive_desc_destroy)* primitive_desc_destroy =
      library.function<decltype(::dnnl_primitive_desc_destroy)>("dnnl_primitive_desc_destroy");
  decltype(::dnnl_primitive_desc_query)* primitive_desc_query =
      library.function<decltype(::dnnl_primitive_desc_query)>("dnnl_primitive_desc_query");
  decltype(::dnnl_primitive_create)* primitive_create =
      library.function<decltype(::dnnl_primitive_create)>("dnnl_primitive_create");
  decltype(::dnnl_primitive_destroy)* primitive_destroy =
      library.function<decltype(::dnnl_primitive_destroy)>("dnnl_primitive_destroy");
  decltype(::dnnl_primitive_execute)* primitive_execute =
      library.function<decltype(::dnnl_primitive_execute)>("dnnl_primitive_execute");
  decltype(::dnnl_get_effective_cpu_isa)* get_effective_cpu_isa =
      library.function<decltype(::dnnl_get_effective_cpu_isa)>("dnnl_get_effective_cpu_isa");
  decltype(::dnnl_version)* version = library.function<decltype(::dnnl_version)>("dnnl_version");
  dnnl_engine_t engine = nullptr;
  dnnl_stream_t stream = nullptr;

  [[nodiscard]] bool usable() const {
    return library.loaded() && version != nullptr && version()->major == 2 && stream != nullptr;
  }
};

const OneDnn& onednn() {
  static const OneDnn* const instance = [] {
    auto* dnn = new OneDnn;
    if (dnn->library.loaded() && dnn->matmul_desc_init != nullptr && dnn->stream_create != nullptr) {
      dnn->engine_create(&dnn->engine, dnnl_cpu, 0);
      dnn->stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags);
    }
    return dnn;
  }();
  return *instance;
}

// A compiled matmul and the three memory objects whose pointers each call sets.
class Matmul {
 public:
  Matmul(const Shape& s, std::span<const TensorView> operands) {
    const OneDnn& dnn = onednn();
    std::array<dnnl_memory_desc_t, 3> descs{};
    const bool ready = describe(descs[0], s.m, s.k, s.dtype, operands[0].stride[0], s.trans_a) &&
                       describe(descs[1], s.k, s.n, s.dtype, operands[1].stride[0], s.trans_b) &&
                       describe(descs[2], s.m, s.n, s.out, operands[2].stride[0], false);
    dnnl_matmul_desc_t matmul{};
    if (!ready || dnn.matmul_desc_init(&matmul, descs.data(), &descs[1], nullptr, &descs[2]) != dnnl_success) return;
    dnnl_primitive_attr_t attributes = nullptr;
    dnnl_post_ops_t post_ops = nullptr;
    dnn.primitive_attr_create(&attributes);
    dnn.post_ops_create(&post_ops);
    if (s.accumulate) dnn.post_ops_append_sum(post_ops, 1.0f);
    dnn.primitive_attr_set_post_ops(attributes, post_ops);
    dnnl_primitive_desc_t compiled = nullptr;
    if (dnn.primitive_desc_create(&compiled, &matmul, attributes, dnn.engine, nullptr) == dnnl_success) {
      const char* info = nullptr;
      if (dnn.primitive_desc_query(compiled, dnnl_query_impl_info_str, 0, &info) == dnnl_success) kernel_ = info;
      dnn.primitive_create(&primitive_, compiled);
      dnn.primitive_desc_destroy(compiled);
    }
    dnn.post_ops_destroy(post_ops);
    dnn.primitive_attr_destroy(attributes);
    for (std::size_t i = 0; i < 3; ++i) dnn.memory_create(&memory_[i], &descs[i], dnn.engine, DNNL_MEMORY_NONE);
  }
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul() {
    const OneDnn& dnn = onednn();
    if (primitive_ != nullptr) dnn.primitive_destroy(primitive_);
    for (dnnl_memory_t memory : memory_) {
      if (memory != nullptr) dnn.memory_destroy(memory);
    }
  }

  [[nodiscard]] bool ready() const { return primitive_ != nullptr; }
  [[nodiscard]] const std::string& kernel() const { return kernel_; }

  bool execute(std::span<const TensorView> operands) {
    const OneDnn& dnn = onednn();
    for (std::size_t i = 0; i < 3; ++i) dnn.memory_set_data_handle(memory_[i], operands[i].data);
    const std::array<dnnl_exec_arg_t, 3> arguments{
        {{DNNL_ARG_SRC, memory_[0]}, {DNNL_ARG_WEIGHTS, memory_[1]}, {DNNL_ARG_DST, memory_[2]}}};
    return dnn.primitive_execute(primitive_, dnn.stream, 3, arguments.data()) == dnnl_success &&
           dnn.stream_wait(dnn.stream) == dnnl_success;
  }

 private:
  static bool describe(dnnl_memory_desc_t& desc, std::int64_t rows, std::int64_t cols, DType dtype, std::int64_t stride,
                       bool transposed) {
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {transposed ? 1 : stride, transposed ? stride : 1};
    return onednn().memory_desc_init_by_strides(&desc, 2, dims, dtype == DType::kF32 ? dnnl_f32 : dnnl_bf16, strides) ==
           dnnl_success;
  }

  dnnl_primitive_t primitive_ = nullptr;
  std::array<dnnl_memory_t, 3> memory_{};
  std::string kernel_;
};

// OpenMP's team size belongs to the calling thread and is baked into a primitive, so it is part of the key.
using Key = std::array<std::int64_t, kParamCount + 4>;

Matmul& prepared(const Problem& problem, std::span<const TensorView> operands, int threads) {
  static thread_local std::map<Key, std::unique_ptr<Matmul>> known;
  Key key{};
  for (std::size_t i = 0; i < kParamCount; ++i) key[i] = problem.values[i];
  for (std::size_t i = 0; i < 3; ++i) key[kParamCount + i] = operands[i].stride[0];
  key[kParamCount + 3] = threads;
  if (known.size() > 256) known.clear();
  std::unique_ptr<Matmul>& matmul = known[key];
  if (!matmul) matmul = std::make_unique<Matmul>(shape_of(problem), operands);
  return *matmul;
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  const Shape s = shape_of(problem);
  if (s.dtype == DType::kF16) return "dtype=f16: oneDNN 2 has no f16 matmul on CPUs";
  if (s.dtype == DType::kBf16 && !device.has("avx512bw")) return "dtype=bf16: oneDNN wants AVX-512 for it";
  if (s.accumulate && s.out != DType::kF32) {
    return fmt::format("accumulate=1 out={}: oneDNN rounds before it adds", to_string(s.out));
  }
  if (Refusal refusal = refuse_by_size(s)) return refusal;
  if (!onednn().library.loaded()) return "not installed: " + onednn().library.error();
  if (!onednn().usable()) return onednn().library.path() + " is not a usable oneDNN 2";
  return std::nullopt;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  if (onednn().set_threads != nullptr) onednn().set_threads(stream.threads);
  Matmul& matmul = prepared(problem, operands, stream.threads);
  if (!matmul.ready() || !matmul.execute(operands)) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{}: oneDNN has no matmul for it", problem.problem_case.text()),
        "use cpu_simd");
  }
  return ok_status();
}

std::string version() {
  const OneDnn& dnn = onednn();
  if (!dnn.usable()) return "";
  return fmt::format("{} {}.{}.{}, instruction set {:#x}", dnn.library.path(), dnn.version()->major,
                     dnn.version()->minor, dnn.version()->patch, static_cast<unsigned>(dnn.get_effective_cpu_isa()));
}

}  // namespace

Implementation cpu_onednn() {
  Implementation peer;
  peer.name = "cpu_onednn";
  peer.summary = "oneDNN matmul primitive, loaded at run time";
  peer.rank = 10;
  peer.vendor = true;
  peer.supports = supports;
  peer.run = per_matrix(run);
  peer.version = version;
  return peer;
}

}  // namespace ridge::ops::gemm

#else

namespace ridge::ops::gemm {

Implementation cpu_onednn() {
  Implementation peer;
  peer.name = "cpu_onednn";
  peer.summary = "oneDNN matmul primitive";
  peer.rank = 10;
  peer.vendor = true;
  peer.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return "built without the headers of oneDNN 2"; };
  peer.run = [](const Problem&, std::span<const TensorView>, const Stream&) -> Status {
    return make_error(ErrorCode::kUnsupported, "built without the headers of oneDNN 2");
  };
  return peer;
}

}  // namespace ridge::ops::gemm

#endif
