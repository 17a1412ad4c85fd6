// ridge mcp: the engine's steps as tools of the Model Context Protocol, for coding agents.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "context.h"
#include "mcp/server.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct McpOptions {
  std::string root = ".";
  std::int64_t most_calls = 4;
};

// A tool is a command. What is hidden is what starts a program that the client names, asks for secrets, or writes
// outside of the folder.
struct ToolRow {
  const char* command;
  bool reads_only;
  std::vector<std::string> hidden = {};
  std::map<std::string, std::string> narrowed = {};
  const char* source = "";
  const char* note = "";
  std::vector<std::int64_t> answers = {};
};

const std::vector<ToolRow>& tool_rows() {
  static const std::vector<ToolRow> rows = {
      {"doctor", true},
      {"spec show", true},
      {"spec get", true},
      {"ceilings", false},
      {"roofline", true},
      {"ops list", true},
      {"ops explain", true},
      {"optimize",
       false,
       {"sign_key", "timestamp_command", "yes", "seed"},
       {{"proposer", "search|manual"}},
       "",
       "It drafts the campaign; campaign_confirm accepts the draft, campaign_resume works.",
       {kHeld}},
      {"campaign confirm", false},
      {"campaign resume",
       false,
       {"sign_key"},
       {{"proposer", "search|manual"}},
       "",
       "Long: it reports progress, and may be cancelled and called again; nothing is measured twice."},
      {"campaign status", true},
      {"campaign propose",
       false,
       {"sign_key"},
       {},
       "kernel",
       "One whole round; exit_code 0 says that it was accepted, 1 that it was not."},
      {"campaign stop", false},
      {"campaign pause", false},
      {"campaign extend", false},
      {"campaign report", false},
      {"campaign rules", true},
      {"campaign verify", true},
      {"campaign replay", true},
      {"campaign list", true},
      {"campaign export-kernel", false},
      {"check", true, {}, {}, "candidate"},
      {"try", true, {}, {}, "candidate"},
      {"bench", true},
      {"inspect", true, {}, {}, "file"},
      {"profile", true, {"command", "keep", "tool"}, {}, "", "It reads a profiler's report that is there."},
      {"memory summary", true},
      {"memory read", true},
      {"tips search", true},
      {"handoff", false},
      {"handoff init",
       false,
       {"build", "acceptance", "prefix", "call", "reference"},
       {},
       "",
       "Commands of the project are entered by its owner."},
  };
  return rows;
}

Result<std::vector<record::McpTool>> tools_of(const Manual& manual) {
  std::vector<record::McpTool> tools;
  for (const ToolRow& row : tool_rows()) {
    RIDGE_TRY(entry, manual.find(split(row.command, ' ')));
    std::string name = row.command;
    std::ranges::replace(name, ' ', '_');
    std::ranges::replace(name, '-', '_');
    tools.push_back(
        {std::move(name), entry, row.reads_only, row.hidden, row.narrowed, row.source, row.note, row.answers});
  }
  return tools;
}

int serve(const Context& context, const Manual& manual, const McpOptions& options) {
  std::error_code failure;
  const fs::path root = fs::canonical(options.root, failure);
  if (failure || !fs::is_directory(root))
    return fail(with_hint(invalid("{} is no folder", options.root), "--root names the folder that agents work in"));
  Result<std::vector<record::McpTool>> tools = tools_of(manual);
  if (!tools) return fail(tools.error());
  std::vector<fs::path> knowledge = context.knowledge;
  knowledge.insert(knowledge.begin(), context.data_directory / "knowledge");
  mcp::ServerOptions server_options{fs::read_symlink("/proc/self/exe", failure), root, std::move(knowledge),
                                    manual.version(), static_cast<int>(options.most_calls)};
  mcp::Server server(std::move(server_options), std::move(*tools), [](const std::string& line) {
    std::cout << line << '\n' << std::flush;
  });
  // A client that has gone takes no answer; the programs of tools keep the system's own way.
  ::signal(SIGPIPE, [](int) {});
  std::string line;
  while (interruptions() == 0 && mcp::read_line(std::cin, line)) server.receive(line);
  if (interruptions() != 0) {
    server.cancel();
    return kInterrupted;
  }
  server.finish();
  return kSuccess;
}

}  // namespace

void define_mcp(Command root) {
  auto options = std::make_shared<McpOptions>();
  root.subcommand("mcp",
                  "Serve the engine's steps to a coding agent: Model Context Protocol on standard input and output")
      .option("--root DIR", options->root, "The folder that calls work in; paths of an agent stay inside it")
      .option("--most-calls N", options->most_calls, "How many calls run at the same time")
      .example("ridge mcp", "what an agent's configuration names as the command; it serves the folder it is started in")
      .example("ridge mcp --root ~/kernels", "another folder")
      .exits({kInterrupted})
      .no_json("its output is the protocol")
      .action([options, manual = root.manual()](const Context& context) { return serve(context, *manual, *options); });
}

}  // namespace ridge::cli
