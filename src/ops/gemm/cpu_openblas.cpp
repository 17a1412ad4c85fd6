// OpenBLAS, a peer to measure against. Its detection takes recent Xeons for a Prescott and is then five times too slow,
// so the kernels are forced by the processor's features before the library is loaded.
#include "base/error.h"
#include "device/cpu/cpu_info.h"
#include "device/cpu/shared_library.h"
#include "ops/gemm/vendor.h"

namespace ridge::ops::gemm {
namespace {

using device::cpu::SharedLibrary;

struct OpenBlas {
  SharedLibrary library;
  CblasSgemm* sgemm = library.function<CblasSgemm>("cblas_sgemm");
  void (*set_threads)(int) = library.function<void(int)>("openblas_set_num_threads");
  std::string core;
};

const char* core_for_this_processor() {
  const device::cpu::CpuInfo& cpu = device::cpu::cpu_info();
  if (cpu.has_avx512()) return "SkylakeX";
  if (cpu.has_avx2()) return "Haswell";
  return nullptr;
}

const OpenBlas& openblas() {
  static const OpenBlas* const instance = [] {
    if (const char* core = core_for_this_processor()) device::cpu::suggest_environment("OPENBLAS_CORETYPE", core);
    auto* loaded = new OpenBlas{SharedLibrary({"libopenblas.so.0", "libopenblas.so"})};
    if (auto* corename = loaded->library.function<char*()>("openblas_get_corename")) loaded->core = corename();
    return loaded;
  }();
  return *instance;
}

Refusal supports(const Problem& problem, const DeviceInfo&) {
  const Shape s = shape_of(problem);
  if (Refusal refusal = refuse_all_but_f32(s, "OpenBLAS")) return refusal;
  if (Refusal refusal = refuse_by_size(s)) return refusal;
  if (!openblas().library.loaded()) return "not installed: " + openblas().library.error();
  if (openblas().sgemm == nullptr) return openblas().library.path() + " has no cblas_sgemm";
  return std::nullopt;
}

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  if (openblas().set_threads != nullptr) openblas().set_threads(stream.threads);
  return run_cblas(openblas().sgemm, problem, operands);
}

}  // namespace

Implementation cpu_openblas() {
  Implementation peer;
  peer.name = "cpu_openblas";
  peer.summary = "OpenBLAS cblas_sgemm, loaded at run time with this processor's kernels";
  peer.rank = 20;
  peer.vendor = true;
  peer.supports = supports;
  peer.run = per_matrix(run);
  peer.version = [] {
    const OpenBlas& library = openblas();
    return library.library.loaded() ? fmt::format("{}, {} kernels", library.library.path(), library.core) : "";
  };
  return peer;
}

}  // namespace ridge::ops::gemm
