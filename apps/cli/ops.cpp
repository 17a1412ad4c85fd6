// ridge ops: the operators of this build, and why an implementation is chosen.
#include <fmt/format.h>

#include "say.h"
#include "service/library.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int list_operators(const Context& context) {
  const Result<std::vector<record::OperatorInfo>> operators = service::list_operators(context);
  if (!operators) return fail(operators.error());
  if (globals().json) return print_json(*operators);
  for (const record::OperatorInfo& op : *operators) {
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

int explain(const Context& context, const service::ExplainRequest& request) {
  const Result<std::vector<record::Explanation>> explanations = service::explain_choice(context, request);
  if (!explanations) return fail(explanations.error());
  if (globals().json) return print_json(*explanations);
  for (const record::Explanation& explanation : *explanations) {
    say("{} {}: {:.4g} FLOP, {:.4g} bytes\n", request.op, explanation.label, explanation.cost.flop,
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
  auto options = std::make_shared<service::ExplainRequest>();
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
      .action([options](const Context& context) { return explain(context, *options); });
}

}  // namespace ridge::cli
