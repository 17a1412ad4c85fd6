// cuBLASLt as the peer of our matrix products, and the race between contenders.
#pragma once
#include <functional>

#include "gemm_check.h"
#include "ops/matmul/cuda_cublaslt.h"

namespace ridge::gpu {

namespace lt = ops::matmul::peer;

inline std::optional<std::string> why_no_peer() { return lt::why_not_installed(); }

// Of all products, one after the other: larger than what a call of the library gives.
inline const Buffer& peer_workspace() {
  static const Buffer workspace(64u << 20);
  return workspace;
}

// One cuBLASLt product with its ranked algorithms. Row-major C = A B^T is column-major C^T = B A^T, so the operands
// swap.
class PeerGemm {
 public:
  explicit PeerGemm(const GemmCase& g, Address scale_a = 0, Address scale_b = 0, bool fast_accumulate = true)
      : case_(g) {
    const lt::CublasLt& api = lt::lt();
    const auto type_of = [](GemmType type) { return lt::library_type(dtype_of(type)); };
    api.desc_create(&operation_, g.type_a == GemmType::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                    CUDA_R_32F);
    auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      api.desc_set(operation_, attribute, &value, sizeof value);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, g.b_mn_major ? CUBLAS_OP_N : CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, g.a_mn_major ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (g.eight_bit()) {
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(fast_accumulate));
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, reinterpret_cast<void*>(scale_b));
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, reinterpret_cast<void*>(scale_a));
      using Scales = lt::Scales;
      const auto modes = [&](Scales of_a, Scales of_b) {
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, lt::scale_mode(of_b));
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, lt::scale_mode(of_a));
      };
      if (g.scaling == GemmScaling::kRow) modes(Scales::kRow, Scales::kRow);
      if (g.scaling == GemmScaling::kBlock) modes(Scales::kVector, Scales::kBlock);
      if (g.scaling == GemmScaling::kVector) modes(Scales::kVector, Scales::kVector);
    }
    auto layout = [&](cublasLtMatrixLayout_t* out, GemmType type, bool mn_major, std::int64_t mn, std::int64_t ld) {
      api.layout_create(out, type_of(type), mn_major ? mn : g.k, mn_major ? g.k : mn, ld);
    };
    layout(&first_, g.type_b, g.b_mn_major, g.n, g.row_b());
    layout(&second_, g.type_a, g.a_mn_major, g.m, g.row_a());
    api.layout_create(&output_, type_of(g.type_c), g.n, g.m, g.row_c());
    cublasLtMatmulPreference_t preference;
    api.preference_create(&preference);
    const std::size_t workspace = peer_workspace().bytes();
    api.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    int found = 0;
    algorithms_.resize(24);
    api.heuristic(handle_, operation_, first_, second_, output_, output_, preference,
                  static_cast<int>(algorithms_.size()), algorithms_.data(), &found);
    algorithms_.resize(static_cast<std::size_t>(found));
  }
  // cuBLASLt is asked for the product alone: a case with an epilogue of ours has no peer here.
  std::size_t algorithms() const { return algorithms_.size(); }
  bool launch(std::size_t algorithm, Address a, Address b, Address c, StreamHandle stream) const {
    if (algorithm >= algorithms_.size()) return false;  // cuBLASLt refused the case
    const float alpha = 1.0f, beta = case_.accumulate ? 1.0f : 0.0f;
    const auto at = [](Address address) { return reinterpret_cast<void*>(address); };
    return lt::lt().matmul(handle_, operation_, &alpha, at(b), first_, at(a), second_, &beta, at(c), output_, at(c),
                           output_, &algorithms_[algorithm].algo, at(peer_workspace().get()), peer_workspace().bytes(),
                           reinterpret_cast<cudaStream_t>(stream)) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  GemmCase case_;
  cublasLtHandle_t handle_ = must(lt::Context::handle(*gpu().device));
  cublasLtMatmulDesc_t operation_{};
  cublasLtMatrixLayout_t first_{}, second_{}, output_{};
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

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

// Which of `count` contenders is at a place of a round: over the rounds each is at each place, and right behind each
// other one, equally often (as turns.py).
inline std::size_t in_turn(std::size_t place, std::size_t round, std::size_t count) {
  if (count % 2 == 1 && round / count % 2 == 1) place = count - 1 - place;
  const std::size_t zigzag = place % 2 == 0 ? count - place / 2 : (place + 1) / 2;
  return (zigzag + round) % count;
}

// Seconds per launch of every contender: samples of `per_sample` launches, contenders taking turns inside each round
// in a balanced order, so that clock, temperature and what ran before fall on all of them alike. `cool` empties the
// cache and lets the card rest before each sample (burst); without it the card runs without a pause (sustained).
struct Timing {
  std::vector<std::vector<double>> samples;  // [contender][round]
  Telemetry telemetry;
};
inline Timing time_interleaved(const std::vector<Launcher>& contenders, std::size_t sets, int rounds, int per_sample,
                               const std::function<void()>& cool = {}) {
  const StreamHandle stream = gpu().stream;
  Timing timing;
  timing.samples.resize(contenders.size());
  std::vector<std::vector<std::pair<Event, Event>>> events(contenders.size());
  for (auto& list : events) list.resize(static_cast<std::size_t>(rounds));
  std::size_t set = 0;
  for (const auto& contender : contenders) contender(set++ % sets);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      const std::size_t who = in_turn(turn, static_cast<std::size_t>(round), contenders.size());
      if (cool) cool();
      auto& [begin, end] = events[who][static_cast<std::size_t>(round)];
      begin.record(stream);
      for (int i = 0; i < per_sample; ++i) contenders[who](set++ % sets);
      end.record(stream);
    }
    if (round == rounds * 2 / 3) timing.telemetry = read_telemetry();
  }
  gpu().synchronize();
  for (std::size_t who = 0; who < contenders.size(); ++who) {
    for (auto& [begin, end] : events[who]) timing.samples[who].push_back(end.seconds_since(begin) / per_sample);
  }
  return timing;
}

}  // namespace ridge::gpu
