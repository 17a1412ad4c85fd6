// BLIS, a peer to measure against. Left alone it picks Haswell kernels on recent Xeons, half the speed of its AVX-512
// ones, so the architecture is forced before the library is loaded.
#include "base/error.h"
#include "device/cpu/cpu_info.h"
#include "device/cpu/shared_library.h"
#include "ops/gemm/vendor.h"

namespace ridge::ops::gemm {
namespace {

using device::cpu::SharedLibrary;

struct Blis {
  SharedLibrary library;
  CblasSgemm* sgemm = library.function<CblasSgemm>("cblas_sgemm");
  void (*set_threads)(std::int64_t) = library.function<void(std::int64_t)>("bli_thread_set_num_threads");
  std::string arch;
};

const Blis& blis() {
  static const Blis* const instance = [] {
    const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
    if (cpu.has_avx512()) {
      device::cpu::suggest_environment("BLIS_ARCH_TYPE", "skx");
    }
    auto* loaded = new Blis{SharedLibrary({"libblis.so.4", "libblis.so"})};
    // Its tables must stand before it can be asked anything: it aborts otherwise.
    if (auto* init = loaded->library.function<void()>("bli_init")) init();
    auto* query = loaded->library.function<int()>("bli_arch_query_id");
    auto* name = loaded->library.function<const char*(int)>("bli_arch_string");
    if (query != nullptr && name != nullptr) loaded->arch = name(query());
    return loaded;
  }();
  return *instance;
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  const Shape s = shape_of(problem);
  if (Refusal refusal = refuse_all_but_f32(s, "BLIS")) return refusal;
  if (Refusal refusal = refuse_by_size(s)) return refusal;
  if (!blis().library.loaded()) return "not installed: " + blis().library.error();
  if (blis().sgemm == nullptr) return blis().library.path() + " has no cblas_sgemm";
  return std::nullopt;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  if (blis().set_threads != nullptr) blis().set_threads(stream.threads);
  return run_cblas(blis().sgemm, problem, operands);
}

}  // namespace

Implementation cpu_blis() {
  Implementation peer;
  peer.name = "cpu_blis";
  peer.summary = "BLIS cblas_sgemm, loaded at run time with this processor's kernels";
  peer.rank = 30;
  peer.vendor = true;
  peer.supports = supports;
  peer.run = per_matrix(run);
  peer.version = [] {
    const Blis& library = blis();
    return library.library.loaded() ? fmt::format("{}, {} kernels", library.library.path(), library.arch) : "";
  };
  return peer;
}

}  // namespace ridge::ops::gemm
