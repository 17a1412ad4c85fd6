// ridge memory: what each round of an optimisation tried, saw and left to do.
#include <fmt/ranges.h>

#include "record/iteration_file.h"
#include "say.h"
#include "service/memory.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct MemoryOptions {
  std::string workspace = ".", version, from;
  std::vector<std::string> set, versions;
  std::int64_t seed = 0;
  bool masked = false;
};

constexpr const char* kAnswer = "a message";

// Prints a record as it is kept, or the error.
int print_text(const Result<std::string>& text) {
  if (!text) return fail(text.error());
  say("{}\n", *text);
  return kSuccess;
}

std::string shown(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : std::string("-");
}

int summary(const MemoryOptions& o) {
  const Result<service::MemorySummary> found = service::summarise_memory(o.workspace, o.masked);
  if (!found) return fail(found.error());
  if (globals().json) return print_json(found->records);
  std::vector<std::vector<std::string>> rows;
  for (const record::Iteration& it : found->records) {
    const record::IterationPerformance& p = it.performance;
    rows.push_back({it.version + (it.version == found->best ? " best" : "") + (it.masked ? " masked" : ""),
                    std::string(record::name_of(it.quality_gate.result)), shown(p.latency_us, "{:.2f}"),
                    shown(p.speedup_over_previous, "{:.3f}x"),
                    p.compute_utilisation ? fmt::format("{:.1f} %", 100 * *p.compute_utilisation) : "-",
                    p.memory_utilisation ? fmt::format("{:.1f} %", 100 * *p.memory_utilisation) : "-",
                    std::string(record::name_of(it.profile_evidence.bottleneck_type)), it.optimization.action_category,
                    it.optimization.action_description});
  }
  say("{}",
      table({"version", "gate", "latency us", "speed-up", "compute", "memory", "bottleneck", "category", "action"},
            rows));
  for (const std::string& reason : found->set_aside) say(stderr, "set aside: {}\n", reason);
  return kSuccess;
}

int restart(const MemoryOptions& o) {
  const Result<record::MemoryRestart> entry = service::restart_memory(o.workspace, o.seed);
  if (!entry) return fail(entry.error());
  if (globals().json) return print_json(*entry);
  say("masked {}; kept {}; the next version is {}\n", fmt::join(entry->masked, " "), fmt::join(entry->kept, " "),
      entry->next_version);
  return kSuccess;
}

int validate(const MemoryOptions& o) {
  const Result<std::vector<std::string>> problems = service::validate_memory(o.workspace);
  if (!problems) return fail(problems.error());
  const int code = problems->empty() ? kSuccess : kNo;
  if (globals().json) return print_json(*problems, code);
  for (const std::string& problem : *problems) say("{}\n", problem);
  if (problems->empty()) say("every record is valid\n");
  return code;
}

}  // namespace

void define_memory(Command root) {
  auto o = std::make_shared<MemoryOptions>();
  Command memory =
      root.subcommand("memory", "What each round tried, saw and left to do: memory/v<N>.json of a workspace");
  const auto with_workspace = [o](Command command) {
    return command.option("--workspace DIR", o->workspace, "Folder that holds memory/");
  };
  with_workspace(memory.subcommand("init", "Make the folder"))
      .example("ridge memory init --workspace fast_gemm", "ridge workspace init has done it for its folder")
      .exits({kSystem, kHeld})
      .json(kAnswer)
      .action([o] { return answer(service::init_memory(o->workspace)); });
  with_workspace(memory.subcommand("create", "Add a record; its version is the next one unless given"))
      .option("--version", o->version, "For instance v0")
      .option("--from FILE", o->from, "A JSON file to start from")
      .option("--set FIELD=VALUE", o->set, "FIELD=VALUE (repeatable)")
      .example(
          "ridge memory create --set optimization.action_category=swizzle --set performance.latency_us=12.5 --set "
          "quality_gate.result=PASS --set "
          "correctness.status=PASS",
          "a passing round")
      .exits({kSystem, kHeld})
      .json("the record (also without the flag)")
      .action([o] {
        return print_text(service::create_memory({o->workspace, o->version, o->from, o->set}));
      });
  with_workspace(memory.subcommand("read", "Print a record"))
      .positional("version", o->version, "For instance v3")
      .flag("--masked", o->masked, "Also when it is masked")
      .example("ridge memory read v3 --workspace fast_gemm", "what the round tried, saw and left to do")
      .exits({kSystem})
      .json("the record (also without the flag)")
      .action([o] { return print_text(service::read_memory(o->workspace, o->version, o->masked)); });
  with_workspace(memory.subcommand("update", "Change fields of a record"))
      .positional("version", o->version, "For instance v3")
      .option("--set FIELD=VALUE", o->set, "FIELD=VALUE (repeatable)")
      .example("ridge memory update v3 --set performance.tflops=612.4", "types are checked, nothing invalid is written")
      .exits({kSystem, kHeld})
      .json("the record (also without the flag)")
      .action([o] { return print_text(service::update_memory(o->workspace, o->version, o->set)); });
  with_workspace(memory.subcommand("mask", "Hide records from every reader; never v0, never the best"))
      .positional("versions", o->versions, "For instance v2 v5")
      .example("ridge memory mask v2 v5", "proposers no longer see them")
      .exits({kSystem, {kHeld, "v0 or the best one was named"}})
      .json(kAnswer)
      .action([o] { return answer(service::mask_memory(o->workspace, o->versions, true)); });
  with_workspace(memory.subcommand("unmask", "Show them again"))
      .positional("versions", o->versions, "For instance v2 v5")
      .example("ridge memory unmask v2", "it counts again")
      .exits({kSystem, kHeld})
      .json(kAnswer)
      .action([o] { return answer(service::mask_memory(o->workspace, o->versions, false)); });
  with_workspace(memory.subcommand("summary", "One line per record"))
      .flag("--masked", o->masked, "Masked ones too")
      .example("ridge memory summary --workspace fast_gemm", "gate, latency, speed-up and action of every round")
      .exits({kSystem})
      .json("the list of records")
      .action([o] { return summary(*o); });
  with_workspace(memory.subcommand("restart", "Hide about half of what was learned, reproducibly"))
      .option("--seed", o->seed, "The same seed and memory hide the same records")
      .example("ridge memory restart --seed 7", "for a search that is stuck: the best one and v0 stay")
      .exits({kSystem, kHeld})
      .json("what was masked and kept, and the next version")
      .action([o] { return restart(*o); });
  with_workspace(memory.subcommand("validate", "Check every record"))
      .example("ridge memory validate --workspace fast_gemm", "fields, types, and what must hold between records")
      .exits({{kNo, "a record is not valid"}, kSystem})
      .json("a list of problems; empty when every record is valid")
      .action([o] { return validate(*o); });
  memory.subcommand("schema", "The JSON Schema of a record")
      .example("ridge memory schema > iteration.schema.json", "for programs that write records")
      .exits({})
      .json("the schema (also without the flag)")
      .action([] {
        say("{}\n", record::iteration_schema());
        return static_cast<int>(kSuccess);
      });
}

}  // namespace ridge::cli
