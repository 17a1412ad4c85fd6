// ridge help: the manual of a command, on the terminal, as man pages or as data.
#include <fmt/format.h>

#include <filesystem>

#include "base/files.h"
#include "man_page.h"
#include "record/json.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  std::string folder;
  bool man = false;
};

// The command and everything below it.
std::vector<const record::CommandEntry*> with_descendants(const Manual& manual, const record::CommandEntry& top) {
  std::vector<const record::CommandEntry*> all;
  for (const record::CommandEntry& entry : manual.entries()) {
    const bool below =
        entry.path.size() >= top.path.size() && std::equal(top.path.begin(), top.path.end(), entry.path.begin());
    if (below) all.push_back(&entry);
  }
  return all;
}

Status write_man_pages(const Manual& manual, const record::CommandEntry& top, const std::filesystem::path& folder) {
  RIDGE_CHECK_OK(make_directories(folder));
  for (const record::CommandEntry* entry : with_descendants(manual, top))
    RIDGE_CHECK_OK(write_file_durably(folder / man_page_file(manual, *entry), man_page(manual, *entry)));
  return ok_status();
}

int help(const Manual& manual, const HelpOptions& options) {
  const Result<const record::CommandEntry*> entry = manual.find(options.words);
  if (!entry) return fail(entry.error());
  if (!options.folder.empty()) {
    const Status written = write_man_pages(manual, **entry, options.folder);
    return written ? answer(fmt::format("Wrote the man pages of {} into {}", manual.name_of(**entry), options.folder))
                   : fail(written.error());
  }
  if (globals().json) {
    std::vector<record::CommandEntry> rows;
    for (const record::CommandEntry* one : with_descendants(manual, **entry)) rows.push_back(*one);
    say("{}\n", record::to_pretty(rows));
    return kSuccess;
  }
  say("{}", options.man ? man_page(manual, **entry) : help_text(manual, **entry, help_width(), colored(stdout)));
  return kSuccess;
}

}  // namespace

void define_help(Command root) {
  auto options = std::make_shared<HelpOptions>();
  root.subcommand("help", "Print the manual of a command")
      .positional("command", options->words, "The command's words, for instance campaign verify", false)
      .flag("--man", options->man, "Print it as a man page: ridge help --man bench | man -l -")
      .option("--man-pages DIR", options->folder,
              "Write the man pages of the command and all below it into this folder")
      .example("ridge help", "every command in one line")
      .example("ridge help campaign verify", "the same as ridge campaign verify --help")
      .example("ridge help --man-pages ~/.local/share/man/man1", "then: man ridge-bench")
      .exits({kSystem})
      .json("the commands with their arguments, options, examples and exit codes")
      .action([options, manual = root.manual()] { return help(*manual, *options); });
}

}  // namespace ridge::cli
