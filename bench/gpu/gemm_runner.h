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

using cuda::GemmActivation;
using cuda::GemmCase;
using cuda::GemmScaling;
using cuda::GemmType;
using cuda::WgmmaConfig;
using cuda::WgmmaPlan;

inline constexpr const char* kHarness = "bench/gpu/harness.cu";
inline constexpr const char* kWgmmaSource = "src/ops/gemm/cuda_wgmma.cu";
inline constexpr const char* kSimtSource = "src/ops/gemm/cuda_simt.cu";

// ---- Shapes in words
// ------------------------------------------------------------------------------------------------------

// LAYOUT:WORDS:M,N,K. The words are joined by '-': first the type of A and B (bf16, f16, f32, tf32, e4m3, e5m2, or two
// 8-bit ones like e4m3e5m2), then in any order the type of C (default: A's, bf16 for 8-bit, f32 for tf32; with `add`
// for C +=), the scales of 8-bit operands (tensor, row, block, vector, mx), `promote`, and the epilogue (bias, gelu,
// gelutanh, silu, residual). For instance NT:bf16:4096,4096,4096, TN:bf16-f32add:..., NT:e4m3-block:...
struct Named {
  std::string layout, types;
  GemmCase g;
};

inline bool read_word(const std::string& word, GemmCase& g) {
  const std::map<std::string, GemmType> outputs = {
      {"bf16", GemmType::kBf16}, {"f16", GemmType::kF16}, {"f32", GemmType::kF32}};
  const std::map<std::string, GemmScaling> scalings = {{"tensor", GemmScaling::kTensor},
                                                       {"row", GemmScaling::kRow},
                                                       {"block", GemmScaling::kBlock},
                                                       {"vector", GemmScaling::kVector},
                                                       {"mx", GemmScaling::kMx}};
  const std::map<std::string, GemmActivation> activations = {
      {"gelu", GemmActivation::kGelu}, {"gelutanh", GemmActivation::kGeluTanh}, {"silu", GemmActivation::kSilu}};
  const bool adds = word.size() > 3 && word.ends_with("add");
  const std::string out = adds ? word.substr(0, word.size() - 3) : word;
  if (outputs.count(out)) {
    g.type_c = outputs.at(out);
    g.accumulate = adds;
  } else if (scalings.count(word)) {
    g.scaling = scalings.at(word);
  } else if (activations.count(word)) {
    g.activation = activations.at(word);
  } else if (word == "promote") {
    g.promote = true;
  } else if (word == "bias") {
    g.bias = true;
  } else if (word == "residual") {
    g.residual = true;
  } else {
    return false;
  }
  return true;
}

inline Named parse(const std::string& text) {
  Named named;
  char layout[8], types[64];
  long long m, n, k;
  if (std::sscanf(text.c_str(), "%7[A-Z]:%63[a-z0-9-]:%lld,%lld,%lld", layout, types, &m, &n, &k) != 5) {
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
  const std::map<std::string, GemmType> inputs = {{"bf16", GemmType::kBf16}, {"f16", GemmType::kF16},
                                                  {"f32", GemmType::kF32},   {"tf32", GemmType::kTf32},
                                                  {"e4m3", GemmType::kE4m3}, {"e5m2", GemmType::kE5m2}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= named.types.size();) {
    const std::size_t end = std::min(named.types.find('-', begin), named.types.size());
    words.push_back(named.types.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool two = words[0].size() == 8;
  const std::string first = two ? words[0].substr(0, 4) : words[0], second = two ? words[0].substr(4) : words[0];
  if (!inputs.count(first) || !inputs.count(second)) fail("unknown operand type " + words[0] + " in " + text);
  g.type_a = inputs.at(first);
  g.type_b = inputs.at(second);
  g.type_c = g.eight_bit() ? GemmType::kBf16 : g.type_a == GemmType::kTf32 ? GemmType::kF32 : g.type_a;
  if (g.eight_bit()) g.scaling = GemmScaling::kTensor;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!read_word(words[i], g)) fail("unknown word " + words[i] + " in " + text);
  }
  return named;
}

// ---- Our kernel
// -------------------------------------------------------------------------------------------------------------

inline CUtensorMap encode(const cuda::TensorMapSpec& spec, CUdeviceptr base) {
  CUtensorMap map;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (spec.type == GemmType::kBf16) type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (spec.type == GemmType::kF16) type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (spec.type == GemmType::kF32 || spec.type == GemmType::kTf32) type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(spec.inner), static_cast<cuuint64_t>(spec.outer)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(spec.row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(spec.box_inner), static_cast<cuuint32_t>(spec.box_outer)};
  const cuuint32_t element_strides[2] = {1, 1};
  RIDGE_CU(cuTensorMapEncodeTiled(&map, type, 2, reinterpret_cast<void*>(base), sizes, strides, box, element_strides,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

// What a product reads besides A and B.
struct Extras {
  CUdeviceptr scale_a = 0, scale_b = 0, bias = 0, residual = 0;
};
struct ScaleView {
  CUdeviceptr a = 0, b = 0;
  long long stride_a = 0, stride_b = 0;
};
struct EpilogueView {
  CUdeviceptr bias = 0, residual = 0;
  long long residual_stride = 0;
};
struct OutputView {
  CUdeviceptr data;
  long long row_stride;
  unsigned rows, cols;
};

// A plan with its kernel and its encoded maps: everything a launch needs, so that timing measures the launch alone.
struct ReadyGemm {
  WgmmaPlan plan;
  CUfunction function{};
  CUtensorMap a, b, c{};
  OutputView output{};
  ScaleView scales;
  EpilogueView extra;

  void launch(CUstream stream) const {
    gpu::launch(function, plan.grid, plan.block, plan.cluster, plan.shared_bytes, stream,
                {&a, &b, &c, &output, &plan.tile_rows, &plan.k_blocks, &scales, &extra});
  }
};

inline ReadyGemm ready(Kernels& kernels, const GemmCase& g, const WgmmaConfig& config, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr c, const Extras& extras = {}) {
  ReadyGemm r;
  r.plan = cuda::plan_wgmma(g, config, device().multiprocessors);
  r.function = kernels.get(kWgmmaSource, r.plan.defines, "ridge_gemm");
  RIDGE_CU(cuFuncSetAttribute(r.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              static_cast<int>(r.plan.shared_bytes)));
  r.a = encode(r.plan.a, a);
  r.b = encode(r.plan.b, b);
  if (!r.plan.direct_store) r.c = encode(r.plan.c, c);
  r.output = {c, g.row_c(), static_cast<unsigned>(g.m), static_cast<unsigned>(g.n)};
  r.scales = {extras.scale_a, extras.scale_b, r.plan.scale_stride_a, r.plan.scale_stride_b};
  r.extra = {extras.bias, extras.residual, g.row_residual()};
  if (r.plan.residual_is_c) r.extra = {0, c, g.row_c()};
  return r;
}

// The path for operands that the copy engine cannot address.
inline std::vector<std::string> simt_defines(const GemmCase& g) {
  return {std::string("RIDGE_TYPE_A=") + cuda::name_of(g.type_a),
          std::string("RIDGE_TYPE_B=") + cuda::name_of(g.type_b),
          std::string("RIDGE_TYPE_C=") + cuda::name_of(g.type_c),
          std::string("RIDGE_MAJOR_A=") + (g.a_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_MAJOR_B=") + (g.b_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_STORE=") + (g.accumulate && !g.residual_is_c() ? "kAdd" : "kOverwrite"),
          std::string("RIDGE_SCALING=") + cuda::name_of(g.scaling),
          std::string("RIDGE_BIAS=") + (g.bias ? "1" : "0"),
          std::string("RIDGE_ACTIVATION=") + cuda::name_of(g.activation),
          std::string("RIDGE_RESIDUAL=") + (g.residual || g.residual_is_c() ? "1" : "0")};
}
inline void launch_simt(Kernels& kernels, const GemmCase& g, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c,
                        CUstream stream, const Extras& extras = {}) {
  const OutputView output{c, g.row_c(), static_cast<unsigned>(g.m), static_cast<unsigned>(g.n)};
  const ScaleView scales{extras.scale_a, extras.scale_b, g.m,
                         g.scaling == GemmScaling::kBlock ? cuda::ceil_div(g.k, 128) : g.n};
  const EpilogueView extra{extras.bias, g.residual_is_c() ? c : extras.residual,
                           g.residual_is_c() ? g.row_c() : g.row_residual()};
  const long long row_a = g.row_a(), row_b = g.row_b(), k = g.k;
  launch(kernels.get(kSimtSource, simt_defines(g), "ridge_gemm_simt"), static_cast<unsigned>(cuda::ceil_div(g.n, 128)),
         256, 1, 0, stream, {&a, &b, &row_a, &row_b, &k, &output, &scales, &extra},
         static_cast<unsigned>(cuda::ceil_div(g.m, 128)));
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

// Sizes of the arrays beside the operands, in bytes; 0 where the case has none.
struct ExtraBytes {
  std::int64_t scale_a = 0, scale_b = 0, bias = 0, residual = 0;
};
inline ExtraBytes extra_bytes(const GemmCase& g) {
  const std::int64_t k128 = cuda::ceil_div(g.k, 128), k32 = cuda::ceil_div(g.k, 32), size = cuda::bytes_of(g.type_c);
  ExtraBytes bytes;
  switch (g.scaling) {
    case GemmScaling::kNone: break;
    case GemmScaling::kTensor: bytes = {4, 4}; break;
    case GemmScaling::kRow: bytes = {4 * g.m, 4 * g.n}; break;
    case GemmScaling::kBlock: bytes = {4 * k128 * g.m, 4 * k128 * cuda::ceil_div(g.n, 128)}; break;
    case GemmScaling::kVector: bytes = {4 * k128 * g.m, 4 * k128 * g.n}; break;
    case GemmScaling::kMx: bytes = {k32 * g.m, k32 * g.n}; break;
  }
  if (g.bias) bytes.bias = g.n * size;
  if (g.residual) bytes.residual = g.m * g.row_residual() * size;
  return bytes;
}

// Random scales, bias and residual for a case. Scales keep off zero and differ by factors, so that a mixed-up index
// shows.
struct ExtraBuffers {
  Buffer scale_a, scale_b, bias, residual;
  ExtraBuffers(Kernels& kernels, const GemmCase& g, std::uint64_t seed) {
    const ExtraBytes bytes = extra_bytes(g);
    auto scales = [&](std::int64_t size, std::uint64_t which) {
      Buffer buffer(static_cast<std::size_t>(size));
      const int mx = g.scaling == GemmScaling::kMx;
      const CUdeviceptr data = buffer.get();
      const long long count = mx ? size : size / 4;
      const unsigned long long s = which;
      if (count != 0) {
        launch(kernels.get(kHarness, {}, "fill_scales"), blocks_for(count), 256, 1, 0, device().stream,
               {&data, &mx, &count, &s});
      }
      return buffer;
    };
    scale_a = scales(bytes.scale_a, seed);
    scale_b = scales(bytes.scale_b, seed + 1);
    bias = Buffer(static_cast<std::size_t>(bytes.bias));
    residual = Buffer(static_cast<std::size_t>(bytes.residual));
    const std::int64_t size = cuda::bytes_of(g.type_c);
    if (bytes.bias) fill_normal(kernels, bias.get(), g.type_c, bytes.bias / size, seed + 2, 3.0f);
    if (bytes.residual) fill_normal(kernels, residual.get(), g.type_c, bytes.residual / size, seed + 3, 3.0f);
  }
  Extras view() const {
    auto of = [](const Buffer& buffer) { return buffer.bytes() ? buffer.get() : 0; };
    return {of(scale_a), of(scale_b), of(bias), of(residual)};
  }
};

inline std::int64_t elements_a(const GemmCase& g) { return (g.a_mn_major ? g.k : g.m) * g.row_a(); }
inline std::int64_t elements_b(const GemmCase& g) { return (g.b_mn_major ? g.k : g.n) * g.row_b(); }
inline std::int64_t elements_c(const GemmCase& g) { return g.m * g.row_c(); }

struct CheckResult {
  std::uint64_t wrong = 0, first_wrong = 0, touched_outside = 0;
  double relative_error = 0, worst = 0;
  bool passed() const { return wrong == 0 && touched_outside == 0 && !std::isnan(relative_error) && worst <= 1.0; }
};

// Compares about `rows_wanted` evenly spaced rows of C with float64. The bound: half an ulp of the output type, plus
// what fp32 accumulation may lose: the tensor core truncates when it aligns the sixteen products of a step with the
// running sum, so each step may cost one unit in the last place of the largest partial sum, which the sum of magnitudes
// bounds. `exact_sums`: the product was not made by the matrix unit but by fp32 multiply-adds.
inline CheckResult compare_with_reference(Kernels& kernels, const GemmCase& g, CUdeviceptr a, CUdeviceptr b,
                                          CUdeviceptr c, CUdeviceptr c_before, std::int64_t rows_wanted,
                                          const Extras& extras = {}, bool exact_sums = false) {
  CheckResult result;
  if (g.m == 0 || g.n == 0) return result;
  const long long rows = std::min<std::int64_t>(g.m, rows_wanted);
  const long long step = std::max<std::int64_t>(1, (g.m - 1) / std::max<long long>(1, rows - 1));
  const long long total = rows * g.n;
  Buffer ref(total * 8), magnitude(total * 4), comparison(64);
  comparison.fill(0);
  double accumulate, peak_weight = 0;
  if (exact_sums) {
    accumulate = static_cast<double>(g.k + 4) / 16777216;
  } else if (g.eight_bit()) {
    // The adder keeps about 14 bits, so aligning to the largest addend costs up to 2^-13 of it in each step of 32.
    // Promotion starts afresh every 128 of K, so only four steps add up.
    const double steps = g.promotes() ? 8 : static_cast<double>(g.k) / 32 + 4;
    accumulate = (1 + std::sqrt(steps) * 0.25) / 8192;
    // Where one product towers over the others, each of them may be cut by a unit of its last place, not only by one of
    // the sum's: at most a unit for each of the 33 addends of a step, and steps add up like independent errors.
    peak_weight = 33 * std::sqrt(steps) / 8192 / accumulate;
  } else {
    accumulate = (static_cast<double>(g.k) / 16 + 4) / 8388608;
  }
  struct Problem {  // as harness.cu has it
    CUdeviceptr a, b, c_before, scale_a, scale_b, bias, residual;
    double peak_weight;
    long long m, n, k, lda, ldb, ldc, ld_residual, row_step, rows;
    int type_a, type_b, type_c, a_mn_major, b_mn_major, scaling, activation;
  };
  const Problem problem{a,
                        b,
                        c_before,
                        extras.scale_a,
                        extras.scale_b,
                        extras.bias,
                        extras.residual,
                        peak_weight,
                        g.m,
                        g.n,
                        g.k,
                        g.row_a(),
                        g.row_b(),
                        g.row_c(),
                        g.row_residual(),
                        step,
                        rows,
                        static_cast<int>(g.type_a),
                        static_cast<int>(g.type_b),
                        static_cast<int>(g.type_c),
                        g.a_mn_major,
                        g.b_mn_major,
                        static_cast<int>(g.scaling),
                        static_cast<int>(g.activation)};
  CUdeviceptr ref_p = ref.get(), mag_p = magnitude.get(), cmp_p = comparison.get();
  launch(kernels.get(kHarness, {}, "reference"), static_cast<unsigned>((total + 127) / 128), 128, 1, 0, device().stream,
         {&problem, &ref_p, &mag_p});
  const double half_ulp = g.type_c == GemmType::kBf16  ? 1.0 / 256
                          : g.type_c == GemmType::kF16 ? 1.0 / 2048
                                                       : 1.0 / 16777216;
  if (g.type_a == GemmType::kTf32) accumulate += 2.0 / 1024;  // each operand loses up to an ulp of its 10 bits
  // The activations' slope is at most 1.13 and their own error a few ulps.
  if (g.activation != GemmActivation::kIdentity) accumulate = 1.13 * accumulate + 2e-6;
  const double tiny = g.type_c == GemmType::kF16 ? 6e-8 : 1e-37;
  const int tc = static_cast<int>(g.type_c);
  const long long n = g.n, ldc = g.row_c();
  launch(kernels.get(kHarness, {}, "compare"), blocks_for(total), 256, 1, 0, device().stream,
         {&c, &tc, &n, &ldc, &step, &rows, &ref_p, &mag_p, &half_ulp, &accumulate, &tiny, &cmp_p});
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
        case GemmType::kF32:
        case GemmType::kTf32: return CUDA_R_32F;
        case GemmType::kE4m3: return CUDA_R_8F_E4M3;
        default: return CUDA_R_8F_E5M2;
      }
    };
    lt.cublasLtMatmulDescCreate(
        &operation_, g.type_a == GemmType::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      lt.cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.b_mn_major ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.a_mn_major ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (g.eight_bit()) {
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(fast_accumulate));
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, reinterpret_cast<void*>(scale_b));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, reinterpret_cast<void*>(scale_a));
      auto modes = [&](cublasLtMatmulMatrixScale_t of_b, cublasLtMatmulMatrixScale_t of_a) {
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, of_b);
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, of_a);
      };
      if (g.scaling == GemmScaling::kRow)
        modes(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
      if (g.scaling == GemmScaling::kBlock)
        modes(CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
      if (g.scaling == GemmScaling::kVector)
        modes(CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
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
  // cuBLASLt is asked for the product alone: a case with an epilogue of ours has no peer here.
  std::size_t algorithms() const { return algorithms_.size(); }
  bool launch(std::size_t algorithm, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream) const {
    if (algorithm >= algorithms_.size()) return false;  // cuBLASLt refused the case
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
