// One line per subcommand; each is defined in the file of its name.
#pragma once

#include "command.h"

namespace ridge::cli {

void define_optimize(Command root);
void define_demo(Command root);
void define_handoff(Command root);
void define_promote(Command root);
void define_campaign(Command root);
void define_baseline(Command root);
void define_bench(Command root);
void define_compare(Command root);
void define_try(Command root);
void define_calibrate(Command root);
void define_check(Command root);
void define_ceilings(Command root);
void define_spec(Command root);
void define_roofline(Command root);
void define_inspect(Command root);
void define_profile(Command root);
void define_memory(Command root);
void define_tips(Command root);
void define_workspace(Command root);
void define_tune(Command root);
void define_tune_replay(Command& tune);
void define_tune_store(Command& tune);
void define_kernels(Command root);
void define_ops(Command root);
void define_mcp(Command root);
void define_serve(Command root);
void define_unit(Command root);
void define_doctor(Command root);
void define_list(Command root);
void define_config(Command root);
void define_completion(Command root);
void define_help(Command root);

}  // namespace ridge::cli
