// ridge completion: completion scripts for shells, and the lists that they ask for.
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "completion_scripts.h"
#include "say.h"
#include "service/library.h"
#include "service/spec.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct CompletionOptions {
  std::string shell, words, out;
};

int print_operators(const Context& context) {
  const Result<std::vector<record::OperatorInfo>> operators = service::list_operators(context);
  if (!operators) return fail(operators.error());
  for (const record::OperatorInfo& info : *operators) say("{}\n", info.name);
  return kSuccess;
}

int print_products(const Context& context) {
  const Result<std::vector<record::SpecSummary>> products = service::list_products(context);
  if (!products) return fail(products.error());
  for (const record::SpecSummary& product : *products) say("{}\n", product.name);
  return kSuccess;
}

Result<std::string> script_of(const Manual& manual, const std::string& shell) {
  if (shell == "bash") return bash_completion(manual);
  if (shell == "zsh") return zsh_completion(manual);
  if (shell == "fish") return fish_completion(manual);
  return with_hint(shell.empty() ? invalid("no shell is named") : invalid("there is no completion for \"{}\"", shell),
                   "name bash, zsh or fish");
}

int completion(const Context& context, const Manual& manual, const CompletionOptions& options) {
  if (options.words == "operators") return print_operators(context);
  if (options.words == "products") return print_products(context);
  if (!options.words.empty())
    return fail(with_hint(invalid("there is no list of \"{}\"", options.words), "use operators or products"));
  const Result<std::string> script = script_of(manual, options.shell);
  if (!script) return fail(script.error());
  if (options.out.empty()) {
    say("{}", *script);
    return kSuccess;
  }
  Status written = make_directories(std::filesystem::absolute(options.out).parent_path());
  if (written) written = write_file_durably(options.out, *script);
  return written ? answer("Wrote " + options.out) : fail(written.error());
}

}  // namespace

void define_completion(Command root) {
  auto options = std::make_shared<CompletionOptions>();
  root.subcommand("completion", "Print the completion script of a shell")
      .positional("shell", options->shell, "bash, zsh or fish", false)
      .option("-o,--out FILE", options->out, "Write it to this file instead")
      .option("--words operators|products", options->words, "Print the names that the scripts offer, one a line")
      .example("source <(ridge completion bash)", "in ~/.bashrc; an installed ridge needs nothing")
      .example("ridge completion zsh --out ~/.zfunc/_ridge", "a folder of fpath")
      .example("ridge completion fish --out ~/.config/fish/completions/ridge.fish", "fish finds it there")
      .exits({kSystem})
      .no_json("it prints a script")
      .action(
          [options, manual = root.manual()](const Context& context) { return completion(context, *manual, *options); });
}

}  // namespace ridge::cli
