// ridge workspace: an isolated folder around one kernel, ready for rounds of optimisation.
#include "service/workspace.h"
#include "record/listing.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

int init(const Context& context, const service::WorkspaceRequest& request) {
  if (const Status made = service::make_workspace(context, request); !made) return fail(made.error());
  if (globals().json) return print_json(record::ListedItem{request.name, "kernel, README.md, memory, plans, profiles"});
  say("{}: kernel, README.md, memory/, plans/, profiles/\n", request.name);
  return kSuccess;
}

}  // namespace

void define_workspace(Command root) {
  auto o = std::make_shared<service::WorkspaceRequest>();
  Command workspace =
      root.subcommand("workspace", "An isolated folder around one kernel, ready for rounds of optimisation");
  workspace
      .subcommand("init", "Make the folder: kernel, README with targets, memory, plans, profiles, and a first commit")
      .positional("name", o->name, "Folder to make; it must not exist")
      .positional("case", o->words, "Cases of the operator, for instance m=4096 n=4096 k=4096", false)
      .option("--kernel FILE", o->kernel,
              "The kernel's source; it is copied. Without one a reference in Python is the first kernel itself")
      .option("--reference FILE[:NAME]", o->reference,
              "What is right, run in float64, instead of an operator: a module or function of PyTorch with get_inputs "
              "(model.py:Model), or a function of C++ in double (ref.cpp)")
      .option("--call NAME", o->call,
              "What is called in the kernel: MODULE:CLASS or MODULE:FUNCTION of Python, or a function of C++")
      .option("--shapes LIST", o->shapes,
              "Of a reference: LABEL=SIZExSIZE,... handed to get_inputs and get_init_inputs, or the sizes of ref.cpp")
      .option("--dtype f32|bf16|f16", o->dtype,
              "Of floating-point operands; without it they are what get_inputs gives, f32 of ref.cpp")
      .flag("--backward", o->backward, "Gradients are checked and timed, too, as PyTorch takes them of the reference")
      .option("--platform PRODUCT", o->platform,
              "A product of ridge spec list, or this: the processor of this machine, or its GPU for cuda")
      .option("--language cuda|hip|c++|python|triton|cutedsl", o->language,
              "Of the kernel; those of Python with a --reference, and python is any other language embedded in it")
      .option("--op OPERATOR", o->op, "Operator that the kernel implements; with cases it gives the targets")
      .option("--threads", o->threads, "CPU threads, for this processor")
      .option("--measured RATE", o->given.arithmetic, "What no source states or you measured: arithmetic, 148TFLOPS")
      .option("--bandwidth RATE", o->given.bandwidth, "The same of the memory, 4TB/s")
      .example(
          "ridge workspace init fast_gemm m=512 n=512 k=512 --op gemm --kernel my_gemm.cpp --platform this --language "
          "c++",
          "targets from measured ceilings")
      .example(
          "ridge workspace init fast_gemm m=4096 n=4096 k=4096 dtype=bf16 --op gemm --kernel my_gemm.cu --platform "
          "this "
          "--language cuda",
          "the same for a kernel of the GPU here")
      .example("ridge workspace init norm --kernel norm.cu --platform H200 --language cuda",
               "targets to be filled in by ridge roofline --write")
      .example("ridge workspace init fast_norm --reference model.py:Model --platform this --language python",
               "any module with get_inputs and get_init_inputs; the first kernel is a copy of it")
      .example(
          "ridge workspace init fast_norm --reference model.py:Model --kernel norm.cu --call norm --platform H200 "
          "--language cuda",
          "a CUDA function, whose signature is written to fast_norm/signature.h")
      .example(
          "ridge workspace init fast_softmax --reference ref.cpp --kernel softmax.cpp --shapes wide=8x4096 --platform "
          "this --language c++",
          "a reference in double; docs/workspace.md shows the comment that says its operands")
      .example("ridge optimize --workspace fast_gemm --yes --budget 5m", "then: a campaign on it")
      .exits({{kUnavailable, "python3 has no PyTorch, or this machine's ceilings cannot be measured"},
              kSystem,
              {kHeld, "the folder exists already, or the reference cannot judge: it says why"},
              kInterrupted})
      .json("the name of the folder and what it holds")
      .action([o](const Context& context) { return init(context, *o); });
}

}  // namespace ridge::cli
