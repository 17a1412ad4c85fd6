// The launches of gemm_runner.h behind a C interface, so that a Python program can race them against torch.matmul in
// one process, on one stream, over the same tensors. Built as a shared library.
#include "gemm_peer.h"

using namespace ridge::gpu;

extern "C" {

void ridge_bench_open() { gpu(); }

// Compiles the chosen configuration for the shape and binds it to the tensors (`extras`: scales of A and B, bias,
// residual); the name of the configuration goes to `name`. What the wgmma kernel refuses runs on copies with padded
// rows where it takes those, else on the plain one.
void* ridge_bench_gemm(const char* shape, const char* config, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                       const std::uint64_t* extras, char* name, int name_size) {
  const GemmCase g = parse(shape).g;
  const Extras extra{extras[0], extras[1], extras[2], extras[3]};
  const bool pads = wgmma_refuses(g) && !pad_rows().refuses(facts_of(g)) && !wgmma_refuses(padded(g));
  const GemmCase run = pads ? padded(g) : g;
  int chosen = wgmma_refuses(run) ? -1 : choose_wgmma(run);
  for (int i = 0; config && i < static_cast<int>(ridge::cuda::wgmma_configs().size()); ++i) {
    if (config_at(i).name == config && config_fits(i, run)) chosen = i;
  }
  const std::string said = chosen < 0 ? "simt" : (pads ? "padded " : "") + config_at(chosen).name;
  std::snprintf(name, static_cast<std::size_t>(name_size), "%s", said.c_str());
  if (chosen >= 0 && pads) {
    const auto made = std::make_shared<PaddedGemm>(chosen, g, a, b, c, extra);
    return new std::function<void(StreamHandle)>([made](StreamHandle stream) { made->launch(stream); });
  }
  const ReadyGemm made = ready(chosen < 0 ? simt() : wgmma(), chosen < 0 ? 0 : chosen, g, a, b, c, extra);
  return new std::function<void(StreamHandle)>([made](StreamHandle stream) { made.launch(stream); });
}
void ridge_bench_gemm_launch(void* gemm, void* stream) {
  (*static_cast<std::function<void(StreamHandle)>*>(gemm))(static_cast<StreamHandle>(stream));
}
void ridge_bench_gemm_free(void* gemm) { delete static_cast<std::function<void(StreamHandle)>*>(gemm); }

void* ridge_bench_peer(const char* shape, std::uint64_t scale_a, std::uint64_t scale_b, int fast_accumulate) {
  if (why_no_peer()) return nullptr;
  return new PeerGemm(parse(shape).g, scale_a, scale_b, fast_accumulate != 0);
}
int ridge_bench_peer_algorithms(void* peer) { return static_cast<int>(static_cast<PeerGemm*>(peer)->algorithms()); }
int ridge_bench_peer_launch(void* peer, int algorithm, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                            void* stream) {
  return static_cast<PeerGemm*>(peer)->launch(static_cast<std::size_t>(algorithm), a, b, c,
                                              static_cast<StreamHandle>(stream));
}
void ridge_bench_peer_free(void* peer) { delete static_cast<PeerGemm*>(peer); }

void ridge_bench_telemetry(unsigned* clock_mhz, unsigned* power_w, unsigned* temperature_c) {
  const Telemetry t = read_telemetry();
  *clock_mhz = t.clock_mhz;
  *power_w = t.power_w;
  *temperature_c = t.temperature_c;
}

}  // extern "C"
