// ridge ops: the operators of this build, and why an implementation is chosen.
#include <fmt/format.h>

#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

struct ExplainOptions {
  std::string op, backend = "cpu";
  std::vector<std::string> words;
};

int list_operators() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kOperators;
  const Result<record::WorkerResponse> response = ask_worker(request);
  if (!response) return fail(response.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(response->operators));
    return kSuccess;
  }
  for (const record::OperatorInfo& op : response->operators) {
    say("{}\n  {}\n  implementations, best first:", op.name, op.summary);
    for (const std::string& name : op.implementations) say(" {}", name);
    say("\n  parameters:\n");
    for (const record::ParamInfo& param : op.params) {
      std::string values;
      for (const std::string& value : param.values) values += (values.empty() ? " one of " : ", ") + value;
      if (param.kind == record::ParamKind::kReal) values = fmt::format(" from {} to {}", param.least, param.most);
      say("    {}={}  {}{}\n", param.name, param.default_value, param.help, values);
    }
    if (!op.scalars.empty()) say("  scalars, anew in every call:\n");
    for (const record::ScalarRow& one : op.scalars) {
      say("    {}={}  {}, {}\n", one.name, one.usual, one.help, record::name_of(one.type));
    }
  }
  return kSuccess;
}

int explain(const ExplainOptions& options) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kExplain;
  Result<std::vector<record::Case>> cases = cases_of(options.op, options.words);
  if (!cases) return fail(cases.error());
  request.cases = std::move(*cases);
  request.backend = options.backend;
  const Result<record::WorkerResponse> response = ask_worker(request);
  if (!response) return fail(response.error());
  if (globals().json) {
    say("{}\n", record::to_pretty(response->explanations));
    return kSuccess;
  }
  for (const record::Explanation& explanation : response->explanations) {
    say("{} {}: {:.4g} FLOP, {:.4g} bytes\n", options.op, explanation.label, explanation.cost.flop,
        explanation.cost.bytes);
    if (!explanation.forced_by.empty()) say("  forced by {}\n", explanation.forced_by);
    for (const record::ExplainRow& row : explanation.rows) {
      say("  {} {:<14} {}\n", row.chosen ? "->" : row.supported ? "  " : " x", row.implementation, row.reason);
    }
  }
  return kSuccess;
}

}  // namespace

void define_ops(Command root) {
  Command ops = root.subcommand("ops", "List operators; explain which implementation runs");
  ops.subcommand("list", "Every operator with its parameters and implementations")
      .example("ridge ops list", "names, implementations from the best on, and parameters with their defaults")
      .exits({kInterrupted})
      .json("a list of operators with parameters, implementations and target cases")
      .action(list_operators);
  auto options = std::make_shared<ExplainOptions>();
  ops.subcommand("explain", "Walk through the choice of implementation for one case")
      .positional("operator", options->op, "Operator, for instance gemm")
      .positional("case", options->words, "Parameters, for instance m=512 n=512 k=512 dtype=bf16", false)
      .option("--on cpu|cuda", options->backend, "Where the call would run: cpu (the default) or cuda")
      .example("ridge ops explain gemm m=512 n=512 k=512 dtype=bf16", "every refusal with its values, and the choice")
      .example("ridge ops explain gemm m=8192 n=8192 k=8192 dtype=bf16 --on cuda",
               "the same for the GPU of this machine")
      .example("RIDGE_GEMM_BACKEND=reference ridge ops explain gemm m=8 n=8 k=8", "what forcing does")
      .exits({kUnavailable, kInterrupted})
      .json("for each case its cost, and a row per implementation with the reason for or against it")
      .action([options] { return explain(*options); });
}

}  // namespace ridge::cli
