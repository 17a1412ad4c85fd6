// Runs matrix products for the checks and the benchmarks: our kernels through their launch plan, cuBLASLt as the peer,
// random operands, and the float64 comparison.
#pragma once
#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "../../src/ops/gemm/cuda_wgmma_plan.h"
#include "gpu.h"

namespace ridge::gpu {

using cuda::GemmCase;
using cuda::GemmType;
using cuda::WgmmaConfig;
using cuda::WgmmaPlan;

inline constexpr const char* kHarness = "bench/gpu/harness.cu";
inline constexpr const char* kWgmmaSource = "src/ops/gemm/cuda_wgmma.cu";
inline constexpr const char* kSimtSource = "src/ops/gemm/cuda_simt.cu";

// ---- Shapes in words
// ------------------------------------------------------------------------------------------------------

// LAYOUT:TYPES:M,N,K, for instance NT:bf16:4096,4096,4096, TN:bf16-f32add:... or NT:e4m3-bf16:...
struct Named {
  std::string layout, types;
  GemmCase g;
};

inline Named parse(const std::string& text) {
  Named named;
  char layout[8], types[32];
  long long m, n, k;
  if (std::sscanf(text.c_str(), "%7[A-Z]:%31[a-z0-9-]:%lld,%lld,%lld", layout, types, &m, &n, &k) != 5) {
    fail("cannot read the shape " + text + "; expected for instance NT:bf16:4096,4096,4096");
  }
  named.layout = layout;
  named.types = types;
  auto& g = named.g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a_mn_major = layout[0] == 'T';
  g.b_mn_major = layout[1] == 'N';
  const std::string t = types;
  g.block_scaled = t.find("block") != std::string::npos;  // e4m3block-bf16
  const std::string in = t.substr(0, g.block_scaled ? t.find("block") : t.find('-')),
                    out = t.find('-') == std::string::npos ? in : t.substr(t.find('-') + 1);
  auto type_of = [](const std::string& s) {
    if (s == "bf16") return GemmType::kBf16;
    if (s == "f16") return GemmType::kF16;
    if (s == "e4m3") return GemmType::kE4m3;
    if (s == "e5m2") return GemmType::kE5m2;
    return GemmType::kF32;
  };
  g.type_a = g.type_b = type_of(in);
  g.accumulate = out == "f32add";
  g.type_c = out == "f32" || out == "f32add" ? GemmType::kF32 : type_of(out);
  return named;
}

// ---- Our kernel
// -------------------------------------------------------------------------------------------------------------

inline CUtensorMap encode(const cuda::TensorMapSpec& spec, CUdeviceptr base) {
  CUtensorMap map;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (spec.type == GemmType::kBf16) type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (spec.type == GemmType::kF16) type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (spec.type == GemmType::kF32) type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(spec.inner), static_cast<cuuint64_t>(spec.outer)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(spec.row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(spec.box_inner), static_cast<cuuint32_t>(spec.box_outer)};
  const cuuint32_t element_strides[2] = {1, 1};
  RIDGE_CU(cuTensorMapEncodeTiled(&map, type, 2, reinterpret_cast<void*>(base), sizes, strides, box, element_strides,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

// A plan with its kernel and its encoded maps: everything a launch needs, so that timing measures the launch alone.
struct ReadyGemm {
  WgmmaPlan plan;
  CUfunction function{};
  CUtensorMap a, b, c{};
  struct Output {
    CUdeviceptr data;
    long long row_stride;
    unsigned rows, cols;
  } output{};
  CUdeviceptr scale_a = 0, scale_b = 0;
  long long scale_stride = 0;

  void launch(CUstream stream) const {
    gpu::launch(function, plan.grid, plan.block, plan.cluster, plan.shared_bytes, stream,
                {&a, &b, &c, &output, &plan.tile_rows, &plan.k_blocks, &scale_a, &scale_b, &scale_stride});
  }
};

inline ReadyGemm ready(Kernels& kernels, const GemmCase& g, const WgmmaConfig& config, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr c, int group_rows = 0, CUdeviceptr scale_a = 0, CUdeviceptr scale_b = 0) {
  ReadyGemm r;
  r.plan = cuda::plan_wgmma(g, config, device().multiprocessors, group_rows);
  r.function = kernels.get(kWgmmaSource, r.plan.defines, "ridge_gemm");
  RIDGE_CU(cuFuncSetAttribute(r.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              static_cast<int>(r.plan.shared_bytes)));
  r.a = encode(r.plan.a, a);
  r.b = encode(r.plan.b, b);
  if (!r.plan.direct_store) r.c = encode(r.plan.c, c);
  r.output = {c, g.row_c(), static_cast<unsigned>(g.m), static_cast<unsigned>(g.n)};
  r.scale_a = scale_a;
  r.scale_b = scale_b;
  r.scale_stride = g.m;
  return r;
}

// The path for operands that the copy engine cannot address.
inline std::vector<std::string> simt_defines(const GemmCase& g) {
  return {std::string("RIDGE_TYPE_A=") + cuda::name_of(g.type_a),
          std::string("RIDGE_TYPE_B=") + cuda::name_of(g.type_b),
          std::string("RIDGE_TYPE_C=") + cuda::name_of(g.type_c),
          std::string("RIDGE_MAJOR_A=") + (g.a_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_MAJOR_B=") + (g.b_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_STORE=") + (g.accumulate ? "kAdd" : "kOverwrite")};
}
inline void launch_simt(Kernels& kernels, const GemmCase& g, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c,
                        CUstream stream, CUdeviceptr scale_a = 0, CUdeviceptr scale_b = 0) {
  const ReadyGemm::Output output{c, g.row_c(), static_cast<unsigned>(g.m), static_cast<unsigned>(g.n)};
  const long long row_a = g.row_a(), row_b = g.row_b(), k = g.k;
  launch(kernels.get(kSimtSource, simt_defines(g), "ridge_gemm_simt"), static_cast<unsigned>(cuda::ceil_div(g.n, 64)),
         256, 1, 0, stream, {&a, &b, &row_a, &row_b, &k, &output, &scale_a, &scale_b},
         static_cast<unsigned>(cuda::ceil_div(g.m, 64)));
}

// ---- Operands and checks
// ----------------------------------------------------------------------------------------------------

inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + 255) / 256, 1, 132 * 16));
}

inline void fill_normal(Kernels& kernels, CUdeviceptr data, GemmType type, std::int64_t count, std::uint64_t seed,
                        float scale = 1.0f) {
  const int t = static_cast<int>(type);
  const long long n = count;
  const unsigned long long s = seed;
  launch(kernels.get(kHarness, {}, "fill_normal"), blocks_for(count), 256, 1, 0, device().stream,
         {&data, &t, &n, &s, &scale});
}

inline std::int64_t elements_a(const GemmCase& g) { return (g.a_mn_major ? g.k : g.m) * g.row_a(); }
inline std::int64_t elements_b(const GemmCase& g) { return (g.b_mn_major ? g.k : g.n) * g.row_b(); }
inline std::int64_t elements_c(const GemmCase& g) { return g.m * g.row_c(); }

struct CheckResult {
  std::uint64_t wrong = 0, first_wrong = 0, touched_outside = 0;
  double relative_error = 0, worst = 0;
  bool passed() const { return wrong == 0 && touched_outside == 0 && !std::isnan(relative_error) && worst <= 1.0; }
};

// Compares `rows` rows of C (row0, row0 + step, ...) with float64. The bound: half an ulp of the output type, plus what
// fp32 accumulation may lose: the tensor core truncates when it aligns the sixteen products of a step with the running
// sum, so each step may cost one unit in the last place of the largest partial sum, which the sum of magnitudes bounds.
inline CheckResult compare_with_reference(Kernels& kernels, const GemmCase& g, CUdeviceptr a, CUdeviceptr b,
                                          CUdeviceptr c, CUdeviceptr c_before, std::int64_t rows_wanted,
                                          CUdeviceptr scale_a = 0, CUdeviceptr scale_b = 0) {
  CheckResult result;
  if (g.m == 0 || g.n == 0) return result;
  const long long rows = std::min<std::int64_t>(g.m, rows_wanted);
  const long long step = std::max<std::int64_t>(1, (g.m - 1) / std::max<long long>(1, rows - 1));
  const long long row0 = 0;
  const long long total = rows * g.n;
  Buffer ref(total * 8), magnitude(total * 4), comparison(64);
  comparison.fill(0);
  const int ta = static_cast<int>(g.type_a), tb = static_cast<int>(g.type_b), tc = static_cast<int>(g.type_c);
  const int amn = g.a_mn_major, bmn = g.b_mn_major;
  const long long m = g.m, n = g.n, k = g.k, lda = g.row_a(), ldb = g.row_b(), ldc = g.row_c();
  CUdeviceptr ref_p = ref.get(), mag_p = magnitude.get(), cmp_p = comparison.get();
  launch(kernels.get(kHarness, {}, "reference"), static_cast<unsigned>((total + 127) / 128), 128, 1, 0, device().stream,
         {&a,   &b,    &ta,   &tb,   &amn,      &bmn, &m,       &n,       &k,     &lda,
          &ldb, &row0, &step, &rows, &c_before, &ldc, &scale_a, &scale_b, &ref_p, &mag_p});
  const double half_ulp = g.type_c == GemmType::kBf16  ? 1.0 / 256
                          : g.type_c == GemmType::kF16 ? 1.0 / 2048
                                                       : 1.0 / 16777216;
  const bool eight_bit = cuda::bytes_of(g.type_a) == 1;
  // 8-bit operands: the adder keeps about 14 bits, so aligning to the largest addend costs up to 2^-13 of it in each
  // step of 32.
  const double per_step = eight_bit ? 1.0 / 8192 : 1.0 / 8388608;
  // Block scales promote every 128 of K, so only four steps add up.
  const double steps = g.block_scaled ? 8 : static_cast<double>(g.k) / (eight_bit ? 32 : 16) + 4;
  const double accumulate = (eight_bit ? 1 + std::sqrt(steps) * 0.25 : steps) * per_step;
  const double tiny = g.type_c == GemmType::kF16 ? 6e-8 : 1e-37;
  launch(kernels.get(kHarness, {}, "compare"), blocks_for(total), 256, 1, 0, device().stream,
         {&c, &tc, &n, &ldc, &row0, &step, &rows, &ref_p, &mag_p, &half_ulp, &accumulate, &tiny, &cmp_p});
  struct Raw {
    unsigned long long wrong, first;
    double error, ref, worst;
  };
  const Raw raw = to_host<Raw>(comparison, 1)[0];
  result.wrong = raw.wrong;
  result.first_wrong = raw.first;
  result.relative_error = raw.ref > 0 ? std::sqrt(raw.error / raw.ref) : std::sqrt(raw.error);
  result.worst = raw.worst;
  return result;
}

// ---- The peer
// -------------------------------------------------------------------------------------------------------------

struct BlasLt {
  Library library{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  cublasLtHandle_t handle{};
#define RIDGE_LT(name) \
  decltype(&::name) name = library ? library.find<std::remove_pointer_t<decltype(&::name)>>(#name) : nullptr
  RIDGE_LT(cublasLtCreate);
  RIDGE_LT(cublasLtGetVersion);
  RIDGE_LT(cublasLtMatmulDescCreate);
  RIDGE_LT(cublasLtMatmulDescSetAttribute);
  RIDGE_LT(cublasLtMatrixLayoutCreate);
  RIDGE_LT(cublasLtMatmulPreferenceCreate);
  RIDGE_LT(cublasLtMatmulPreferenceSetAttribute);
  RIDGE_LT(cublasLtMatmulAlgoGetHeuristic);
  RIDGE_LT(cublasLtMatmul);
#undef RIDGE_LT
  Buffer workspace;

  BlasLt() {
    if (!library) return;
    device();
    if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) fail("cublasLtCreate failed");
    workspace = Buffer(64u << 20);
  }
};
inline BlasLt& blaslt() {
  static BlasLt instance;
  return instance;
}

// One cuBLASLt product with its ranked algorithms. Row-major C = A B^T is column-major C^T = B A^T, so the operands
// swap.
class PeerGemm {
 public:
  explicit PeerGemm(const GemmCase& g, CUdeviceptr scale_a = 0, CUdeviceptr scale_b = 0, bool fast_accumulate = true)
      : case_(g) {
    auto& lt = blaslt();
    auto type_of = [](GemmType type) {
      switch (type) {
        case GemmType::kBf16: return CUDA_R_16BF;
        case GemmType::kF16: return CUDA_R_16F;
        case GemmType::kF32: return CUDA_R_32F;
        case GemmType::kE4m3: return CUDA_R_8F_E4M3;
        default: return CUDA_R_8F_E5M2;
      }
    };
    lt.cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      lt.cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.b_mn_major ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.a_mn_major ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (cuda::bytes_of(g.type_a) == 1) {
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(fast_accumulate));
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, reinterpret_cast<void*>(scale_b));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, reinterpret_cast<void*>(scale_a));
      if (g.block_scaled) {
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
      }
    }
    auto layout = [&](cublasLtMatrixLayout_t* out, GemmType type, bool mn_major, std::int64_t mn, std::int64_t ld) {
      lt.cublasLtMatrixLayoutCreate(out, type_of(type), mn_major ? mn : g.k, mn_major ? g.k : mn, ld);
    };
    layout(&first_, g.type_b, g.b_mn_major, g.n, g.row_b());
    layout(&second_, g.type_a, g.a_mn_major, g.m, g.row_a());
    lt.cublasLtMatrixLayoutCreate(&output_, type_of(g.type_c), g.n, g.m, g.row_c());
    cublasLtMatmulPreference_t preference;
    lt.cublasLtMatmulPreferenceCreate(&preference);
    const std::size_t workspace = lt.workspace.bytes();
    lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                            sizeof workspace);
    int found = 0;
    algorithms_.resize(24);
    lt.cublasLtMatmulAlgoGetHeuristic(lt.handle, operation_, first_, second_, output_, output_, preference,
                                      static_cast<int>(algorithms_.size()), algorithms_.data(), &found);
    algorithms_.resize(static_cast<std::size_t>(found));
  }
  std::size_t algorithms() const { return algorithms_.size(); }
  bool launch(std::size_t algorithm, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream) const {
    auto& lt = blaslt();
    const float alpha = 1.0f, beta = case_.accumulate ? 1.0f : 0.0f;
    return lt.cublasLtMatmul(lt.handle, operation_, &alpha, reinterpret_cast<void*>(b), first_,
                             reinterpret_cast<void*>(a), second_, &beta, reinterpret_cast<void*>(c), output_,
                             reinterpret_cast<void*>(c), output_, &algorithms_[algorithm].algo,
                             reinterpret_cast<void*>(lt.workspace.get()), lt.workspace.bytes(),
                             reinterpret_cast<cudaStream_t>(stream)) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  GemmCase case_;
  cublasLtMatmulDesc_t operation_{};
  cublasLtMatrixLayout_t first_{}, second_{}, output_{};
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

// ---- Timing
// ---------------------------------------------------------------------------------------------------------------

// Several sets of operands, together well over the L2, so that no launch finds its inputs cached by the one before.
struct OperandSets {
  std::vector<Buffer> a, b, c;
  OperandSets(Kernels& kernels, const GemmCase& g, std::uint64_t seed) {
    const std::int64_t bytes = elements_a(g) * cuda::bytes_of(g.type_a) + elements_b(g) * cuda::bytes_of(g.type_b) +
                               elements_c(g) * cuda::bytes_of(g.type_c);
    const std::int64_t sets = std::clamp<std::int64_t>((200ll << 20) / bytes + 1, 3, 24);
    for (std::int64_t i = 0; i < sets; ++i) {
      a.emplace_back(static_cast<std::size_t>(elements_a(g) * cuda::bytes_of(g.type_a)));
      b.emplace_back(static_cast<std::size_t>(elements_b(g) * cuda::bytes_of(g.type_b)));
      c.emplace_back(static_cast<std::size_t>(elements_c(g) * cuda::bytes_of(g.type_c)));
      fill_normal(kernels, a.back().get(), g.type_a, elements_a(g), seed + 3 * i);
      fill_normal(kernels, b.back().get(), g.type_b, elements_b(g), seed + 3 * i + 1);
      c.back().fill(0);
    }
  }
  std::size_t size() const { return a.size(); }
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

using Launcher = std::function<void(std::size_t set)>;

// Seconds per launch of every contender: samples of `per_sample` launches, contenders taking turns inside each round
// and the order rotating between rounds, so that clock and temperature drift fall on all of them alike. `cool` empties
// the cache and lets the card rest before each sample (burst); without it the card runs without a pause (sustained).
struct Timing {
  std::vector<std::vector<double>> samples;  // [contender][round]
  Telemetry telemetry;
};
inline Timing time_interleaved(const std::vector<Launcher>& contenders, std::size_t sets, int rounds, int per_sample,
                               const std::function<void()>& cool = {}) {
  auto& stream = device().stream;
  Timing timing;
  timing.samples.resize(contenders.size());
  std::vector<std::vector<std::pair<Event, Event>>> events(contenders.size());
  for (auto& list : events) list.resize(static_cast<std::size_t>(rounds));
  std::size_t set = 0;
  for (const auto& contender : contenders) contender(set++ % sets);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      const std::size_t who = (turn + static_cast<std::size_t>(round)) % contenders.size();
      if (cool) cool();
      auto& [begin, end] = events[who][static_cast<std::size_t>(round)];
      begin.record(stream);
      for (int i = 0; i < per_sample; ++i) contenders[who](set++ % sets);
      end.record(stream);
    }
    if (round == rounds * 2 / 3) timing.telemetry = read_telemetry();
  }
  RIDGE_CU(cuStreamSynchronize(stream));
  for (std::size_t who = 0; who < contenders.size(); ++who) {
    for (auto& [begin, end] : events[who]) timing.samples[who].push_back(end.seconds_since(begin) / per_sample);
  }
  return timing;
}

}  // namespace ridge::gpu
