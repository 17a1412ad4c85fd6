// ridge: the one program to learn.
#include <fmt/format.h>

#include <exception>

#include "subcommands.h"
#include "terminal.h"
#include "worker_call.h"

namespace {

constexpr const char* kFooter = R"(
Exit codes:
  0  done                         4  no source states the fact that was asked for
  1  it ran, and the answer is no 5  the operating system refused (disk full, permission)
  2  unusable flag, name or file  6  a tool or this program failed
  3  this machine cannot do it    7  held by another process, or in a state that does not allow it
  8  paused; its last line says how to go on
                                130  stopped by Ctrl-C

Examples:
  ridge optimize gemm --yes --budget 5m
      take the shipped plain matrix multiplication to the limit of this CPU
  ridge bench gemm m=512 n=512 k=512 --vs cpu_onednn
      time every implementation, paired with one of them
  ridge ops explain gemm m=512 n=512 k=512
      which implementation would run, and why each other one would not)";

}  // namespace

int main(int argc, char** argv) {
  using namespace ridge::cli;
  install_signal_handlers();
  try {
    return run_command_line(argc, argv, "ridge",
                            "Takes kernels to the limit of the hardware in verified rounds, and measures operators.",
                            kFooter, "ridge " RIDGE_VERSION, [](Command root) {
                              root.flag("--json", globals().json, "One JSON document on standard output");
                              root.flag("-q,--quiet", globals().quiet, "No progress on standard error");
                              root.option("--cache-dir", globals().cache_directory,
                                          "Where built kernels are kept (default: RIDGE_CACHE_DIR or ~/.cache/ridge)");
                              define_optimize(root);
                              define_handoff(root);
                              define_campaign(root);
                              define_baseline(root);
                              define_bench(root);
                              define_compare(root);
                              define_calibrate(root);
                              define_check(root);
                              define_ceilings(root);
                              define_spec(root);
                              define_roofline(root);
                              define_inspect(root);
                              define_profile(root);
                              define_memory(root);
                              define_workspace(root);
                              define_tune(root);
                              define_kernels(root);
                              define_ops(root);
                              define_doctor(root);
                              define_list(root);
                            });
  } catch (const std::exception& error) {
    fmt::print(stderr, "ridge: {}\n", error.what());
    return kFault;
  }
}
