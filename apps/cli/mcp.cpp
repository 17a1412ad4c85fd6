// ridge mcp: the engine's steps as tools of the Model Context Protocol, for coding agents.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "context.h"
#include "http/access.h"
#include "http/server.h"
#include "mcp/http.h"
#include "mcp/server.h"
#include "mcp_results.h"
#include "say.h"
#include "subcommands.h"
#include "terminal.h"
#include "token_file.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

struct McpOptions {
  std::string root = ".", bind = "127.0.0.1", token_file;
  std::optional<std::int64_t> port;  // over HTTP
  std::int64_t most_calls = 4;
};

// A tool is a command; its name, its schema and its place in the manual follow from the command. What is hidden is what
// starts a program that the client names, asks for secrets, or writes outside of the folder.
struct ToolRow {
  const char* command;
  record::McpTool tool = {};
};

const std::vector<ToolRow>& tool_rows() {
  static const std::vector<ToolRow> rows = {
      {"doctor", {.reads_only = true}},
      {"spec show", {.reads_only = true}},
      {"spec get", {.reads_only = true}},
      {"ceilings"},
      {"roofline", {.writes = {"plot", "write"}}},
      {"ops list", {.reads_only = true}},
      {"ops explain", {.reads_only = true}},
      {"optimize",
       {.hidden = {"sign_key", "timestamp_command", "yes", "seed"},
        .narrowed = {{"proposer", "search|manual"}},
        .note = "It drafts the campaign; campaign_confirm accepts the draft, campaign_resume works.",
        .answers = {kHeld}}},
      {"campaign confirm"},
      {"campaign resume",
       {.hidden = {"sign_key"},
        .narrowed = {{"proposer", "search|manual"}},
        .note = "Long: it reports progress, and may be cancelled and called again; nothing is measured twice.",
        .goes_on_alone = true}},
      {"campaign status", {.reads_only = true}},
      {"campaign context", {.reads_only = true}},
      {"campaign propose",
       {.hidden = {"sign_key"},
        .source = "kernel",
        .note = "One whole round; exit_code 0 says that it was accepted, 1 that it was not.",
        .goes_on_alone = true}},
      {"campaign stop"},
      {"campaign pause"},
      {"campaign extend"},
      {"campaign report"},
      {"campaign rules", {.reads_only = true}},
      {"campaign verify", {.reads_only = true}},
      {"campaign replay", {.reads_only = true}},
      {"campaign list", {.reads_only = true}},
      {"campaign export-kernel", {.writes = {"out"}}},
      {"promote",
       {.reads_only = true,
        .hidden = {"into", "commit", "revert", "no_build", "dry_run"},
        .note = "It shows the edits and measures what they bring; the person who answers for the result runs it on the "
                "command line to make them.",
        .forced = {"--dry-run"}}},
      {"check", {.reads_only = true, .source = "candidate"}},
      {"try", {.reads_only = true, .source = "candidate"}},
      {"bench", {.writes = {"out"}}},
      {"inspect", {.reads_only = true, .source = "file"}},
      {"profile",
       {.reads_only = true,
        .hidden = {"command", "keep", "tool"},
        .note = "It reads a profiler's report that is there."}},
      {"memory summary", {.reads_only = true}},
      {"memory read", {.reads_only = true}},
      {"tips search", {.reads_only = true}},
      {"handoff"},
      {"handoff init",
       {.hidden = {"build", "acceptance", "prefix", "call", "reference"},
        .note = "Commands of the project are entered by its owner."}},
  };
  return rows;
}

Result<std::vector<record::McpTool>> tools_of(const Manual& manual) {
  std::vector<record::McpTool> tools;
  for (const ToolRow& row : tool_rows()) {
    RIDGE_TRY(entry, manual.find(split(row.command, ' ')));
    record::McpTool& tool = tools.emplace_back(row.tool);
    tool.name = row.command;
    std::ranges::replace(tool.name, ' ', '_');
    std::ranges::replace(tool.name, '-', '_');
    tool.command = entry;
    tool.result = result_schema(row.command);
  }
  return tools;
}

int over_lines(mcp::Server& server) {
  std::mutex writing;
  const mcp::Exchange exchange{[&writing](const mcp::Message& message) {
    const std::lock_guard lock(writing);
    std::cout << message.text << '\n' << std::flush;
  }};
  mcp::Session session;
  std::string line;
  while (interruptions() == 0 && mcp::read_line(std::cin, line)) server.receive(line, session, exchange);
  if (interruptions() != 0) {
    server.cancel();
    return kInterrupted;
  }
  server.finish();
  return kSuccess;
}

int over_http(mcp::Server& server, const McpOptions& options) {
  const Result<std::string> token = options.token_file.empty() ? http::random_token() : token_in(options.token_file);
  if (!token) return fail(token.error());
  http::ServerOptions http_options{options.bind, *options.port, *token, {}, {}, {}};
  http_options.limits.body_bytes = mcp::kMostLineBytes;
  http::Server http(std::move(http_options));
  const mcp::HttpFront front(http, server);
  if (const Status started = http.start(); !started) return fail(started.error());
  say(stderr, "MCP at {}\n", http.url(mcp::kHttpPath));
  if (options.token_file.empty()) say(stderr, "Every request needs the header: Authorization: Bearer {}\n", *token);
  while (interruptions() == 0) ::usleep(100'000);
  http.stop();
  server.cancel();
  return kInterrupted;
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
  mcp::Server server(std::move(server_options), std::move(*tools));
  // A client that has gone takes no answer; the programs of tools keep the system's own way.
  ::signal(SIGPIPE, [](int) {});
  return options.port ? over_http(server, options) : over_lines(server);
}

}  // namespace

void define_mcp(Command root) {
  auto options = std::make_shared<McpOptions>();
  root.subcommand("mcp",
                  "Serve the engine's steps to a coding agent: Model Context Protocol on standard input and output, or "
                  "over HTTP")
      .option("--root DIR", options->root, "The folder that calls work in; paths of an agent stay inside it")
      .option("--most-calls N", options->most_calls, "How many calls run at the same time")
      .example("ridge mcp", "what an agent's configuration names as the command; it serves the folder it is started in")
      .option("--port N", options->port,
              "Serve over HTTP at this port instead, of this machine alone; 0: any that is free")
      .option("--bind ADDRESS", options->bind,
              "The address of --port; any but 127.0.0.1 and ::1 is reached from outside")
      .option("--token-file FILE", options->token_file,
              "The token that each request over HTTP needs; without it a new one is made and shown")
      .example("ridge mcp --root ~/kernels", "another folder")
      .example("ridge mcp --port 8422 --token-file ~/.ridge-token", "over HTTP, for several clients")
      .exits({{kSystem, "no permission for the port"}, {kHeld, "the port is taken"}, kInterrupted})
      .no_json("its output is the protocol")
      .action([options, manual = root.manual()](const Context& context) { return serve(context, *manual, *options); });
}

}  // namespace ridge::cli
