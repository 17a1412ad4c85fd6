// ridge: the one program to learn.
#include <fmt/format.h>

#include <exception>

#include "context.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

int main(int argc, char** argv) {
  using namespace ridge::cli;
  install_signal_handlers();
  try {
    return run_command_line(
        argc, argv, "ridge", "Takes kernels to the limit of the hardware in verified rounds, and measures operators",
        RIDGE_VERSION, [](Command root) {
          root.flag("--json", globals().json, "Print one JSON document on standard output");
          root.flag("-q,--quiet", globals().quiet, "Print no progress on standard error");
          root.option("--color auto|always|never", globals().color, "Colours: auto is on a terminal without NO_COLOR");
          root.environment("--color", "NO_COLOR");
          root.option("--cache-dir DIR", globals().cache_directory,
                      "Where built kernels are kept (default: RIDGE_CACHE_DIR or ~/.cache/ridge)");
          root.environment("--cache-dir", "RIDGE_CACHE_DIR");
          root.example("ridge optimize gemm --yes --budget 5m",
                       "take the shipped plain matrix multiplication to the limit of this CPU");
          root.example("ridge bench gemm m=512 n=512 k=512 --vs cpu_onednn",
                       "time every implementation, paired with one of them");
          root.example("ridge ops explain gemm m=512 n=512 k=512",
                       "which implementation would run, and why each other one would not");
          root.heading("Optimize kernels");
          define_optimize(root);
          define_demo(root);
          define_campaign(root);
          define_promote(root);
          define_handoff(root);
          define_workspace(root);
          define_baseline(root);
          define_memory(root);
          root.heading("Check and measure");
          define_check(root);
          define_bench(root);
          define_compare(root);
          define_try(root);
          define_calibrate(root);
          define_ceilings(root);
          define_tune(root);
          define_kernels(root);
          root.heading("Explain");
          define_ops(root);
          define_roofline(root);
          define_profile(root);
          define_inspect(root);
          define_tips(root);
          define_spec(root);
          root.heading("Watch");
          define_serve(root);
          root.heading("For agents");
          define_mcp(root);
          root.heading("This installation");
          define_unit(root);
          define_doctor(root);
          define_list(root);
          define_config(root);
          define_completion(root);
          define_help(root);
        });
  } catch (const std::exception& error) {
    say(stderr, "ridge: {}\n       a bug of ridge: please report the command with this message\n", error.what());
    return kFault;
  }
}
