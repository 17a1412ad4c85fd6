#include "subjects.h"

namespace ridge::cli {

Command& add_subject_options(Command& command, service::Subjects& subjects, const std::string& about_cases) {
  return command.positional("operator", subjects.op, "Operator, for instance gemm")
      .positional("case", subjects.words, about_cases, false)
      .option("--impl NAME", subjects.implementations,
              "Only this implementation, or this configuration of one (cuda_wgmma/pp_128x192); repeatable")
      .option("--candidate FILE", subjects.candidates, "This candidate source (repeatable); alone or beside --impl")
      .option("-D,--define NAME=VALUE", subjects.defines, "NAME=VALUE of a tunable of the candidates (repeatable)")
      .option("--threads", subjects.threads, "CPU threads of one call");
}

Command& add_seed_option(Command& command, service::Subjects& subjects) {
  return command.option(
      "--seed", subjects.seed,
      "Fixes the inputs of all calls on a processor, to repeat a run; a subject could then know them, "
      "and the result is marked so (default: secret inputs)");
}

}  // namespace ridge::cli
