// Messages of the Model Context Protocol (JSON-RPC 2.0), read and written: the revision of 2026-07-28, whose requests
// each name their revision and stand for themselves, and the older ones that begin with `initialize`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "record/command_table.h"

namespace ridge::record {

inline constexpr const char* kMcpModern = "2026-07-28";
// The older revisions, newest first.
inline constexpr const char* kMcpOlder[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};

// Codes of JSON-RPC and of the protocol.
enum McpCode : int {
  kMcpNotJson = -32700,
  kMcpNoRequest = -32600,
  kMcpNoMethod = -32601,
  kMcpBadParameters = -32602,
  kMcpInternal = -32603,
  kMcpHeaderMismatch = -32020,
  kMcpWrongRevision = -32022,
};

// One argument of a tool: a text, a number as it was written, true or false, or a list of texts and numbers.
struct McpArgument {
  enum class Kind { kText, kNumber, kBoolean, kList };
  std::string name;
  Kind kind = Kind::kText;
  std::vector<std::string> values;
};

struct McpRequest {
  std::string id;  // as JSON; empty: a notification
  std::string method;
  std::string revision;        // what the request names in _meta, or initialize asks for; empty: none
  std::string progress_token;  // as JSON; empty: no progress is wanted
  std::string name;            // the tool or the prompt
  std::string uri;             // the resource
  std::string cancelled;       // of notifications/cancelled: the request's id as JSON
  std::vector<McpArgument> arguments;
};

struct McpFault {
  std::string id = "null";  // as JSON
  int code = kMcpInternal;
  std::string message;
};

std::variant<McpRequest, McpFault> read_mcp(std::string_view message);

// A tool as tools/list names it. Its arguments are those of a command, without `hidden` options, and with `source`
// where the command takes a kernel source as a file: then its text may be given instead.
struct McpTool {
  std::string name;
  const CommandEntry* command = nullptr;
  bool reads_only = false;
  std::vector<std::string> hidden;              // names of options that the tool does not have
  std::map<std::string, std::string> narrowed;  // an option, and the values that it may have: "search|manual"
  std::string source;                           // the argument that a text may stand for; empty: none
  std::string note;                             // a sentence after the command's summary
  std::vector<std::int64_t> answers = {};       // exit codes beside 0, 1 and 8 that are no failure of the call
  std::vector<std::string> forced = {};         // words that each call has
  std::vector<std::string> writes = {};         // options that name files that are written
  Json (*result)() = nullptr;                   // schema of the command's document; null: any
  bool goes_on_alone = false;                   // its work is in a journal, for a client that left as well
};

struct McpResource {
  std::string uri, name, title, kind;  // kind: its MIME type
};

struct McpPrompt {
  std::string name, description;
  std::string argument, argument_help;  // the one argument that it takes
};

// What a program of a tool left.
struct McpOutcome {
  std::int64_t exit_code = 0;
  std::string meaning;   // of the exit code
  std::string document;  // what --json printed; empty: nothing
  std::string said;      // the end of what it said on standard error
  bool failed = false;   // the call could not do its work; a "no" is no failure
};

// The name of an option or an argument in a tool: "max_iterations" of --max-iterations, "directory" of DIRECTORY.
std::string mcp_name(const CommandOption& option);
std::string mcp_name(const CommandArgument& argument);
// "cold" and "warm" of "cold|warm"; empty: anything may be given.
std::vector<std::string> choices_of(std::string_view value);

// Answers, one line each. `modern`: as the revision of 2026-07-28 has them.
struct McpServer {
  std::string name = "ridge", version, instructions;
};
std::string mcp_initialized(const std::string& id, const McpServer& server, const std::string& revision);
std::string mcp_discovered(const std::string& id, const McpServer& server);
std::string mcp_tools(const std::string& id, std::span<const McpTool> tools, bool modern);
std::string mcp_outcome(const std::string& id, const McpOutcome& outcome, bool modern);
std::string mcp_resources(const std::string& id, std::span<const McpResource> resources, bool modern);
std::string mcp_resource_templates(const std::string& id, std::span<const McpResource> templates, bool modern);
std::string mcp_resource(const std::string& id, const McpResource& resource, const std::string& text, bool modern);
std::string mcp_prompts(const std::string& id, std::span<const McpPrompt> prompts, bool modern);
std::string mcp_prompt(const std::string& id, const McpPrompt& prompt, const std::string& text, bool modern);
std::string mcp_empty(const std::string& id, bool modern);
std::string mcp_error(const McpFault& fault, const std::string& requested_revision = {});
std::string mcp_progress(const std::string& token, std::int64_t count, std::string_view message);

}  // namespace ridge::record
