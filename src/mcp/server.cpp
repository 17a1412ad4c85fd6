#include "mcp/server.h"

#include <algorithm>
#include <istream>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"
#include "mcp/call.h"

namespace ridge::mcp {
namespace {

using record::McpFault;
using record::McpOutcome;
using record::McpRequest;
using record::McpTool;

constexpr double kLongest =
    7 * 24 * 3600.0;  // a campaign without a budget; a client cancels what it does not want any more
constexpr std::size_t kMostOutput = 8u << 20, kMostSaid = 4000;

constexpr const char* kInstructions =
    "Kernels are made faster in campaigns: one change a round, built, checked against a float64 reference and measured "
    "beside the best so far; the "
    "engine alone decides. Begin with doctor; the prompts optimise_kernel and round say the order. Paths are relative "
    "to the server's folder.";

std::string end_of(const std::string& text) {
  return text.size() <= kMostSaid ? text : "..." + text.substr(text.size() - kMostSaid);
}

std::string meaning_of(const McpTool& tool, std::int64_t code) {
  for (const record::CommandExit& one : tool.command->exits) {
    if (one.code == code) return one.meaning;
  }
  if (code == 0) return "done";
  if (code == 2) return "a flag, name, shape or file that cannot be used";
  return code == 6 ? "a tool or this program failed" : fmt::format("exit code {}", code);
}

McpOutcome refused(const Error& error) { return {2, "an argument that cannot be used", "", error.text(), true}; }

McpOutcome outcome_of(const McpTool& tool, const ProcessResult& result) {
  if (result.end == ProcessResult::End::kStopped) return {130, "cancelled", "", "", true};
  if (result.end != ProcessResult::End::kExited) return {6, result.describe(), "", end_of(result.error_output), true};
  const bool is_answer = result.exit_code == 0 || result.exit_code == 1 || result.exit_code == 8 ||
                         std::ranges::count(tool.answers, result.exit_code) != 0;
  McpOutcome outcome{result.exit_code, meaning_of(tool, result.exit_code), result.output, "", !is_answer};
  if (result.output.size() >= kMostOutput)
    return {6, fmt::format("the document has more than {} bytes", kMostOutput), "", "ask for less", true};
  if (outcome.failed || result.output.empty()) outcome.said = end_of(result.error_output);
  return outcome;
}

Message get_prompt(const McpRequest& request, bool modern) {
  const auto fault = [&](const std::string& words) {
    return Message(McpFault{request.id, record::kMcpBadParameters, words});
  };
  for (const record::McpPrompt& prompt : prompts()) {
    if (prompt.name != request.name) continue;
    const auto given = std::ranges::find(request.arguments, prompt.argument, &record::McpArgument::name);
    if (given == request.arguments.end() || given->kind != record::McpArgument::Kind::kText)
      return fault(fmt::format("prompt {} needs the text {}: {}", prompt.name, prompt.argument, prompt.argument_help));
    return record::mcp_prompt(request.id, prompt, prompt_text(prompt, given->values.front()), modern);
  }
  return fault(fmt::format("there is no prompt \"{}\"", request.name));
}

}  // namespace

bool read_line(std::istream& in, std::string& line) {
  line.clear();
  std::streambuf& from = *in.rdbuf();
  int c = from.sbumpc();
  if (c == std::char_traits<char>::eof()) return false;
  for (; c != std::char_traits<char>::eof() && c != '\n'; c = from.sbumpc()) {
    if (line.size() < kMostLineBytes) line.push_back(static_cast<char>(c));
  }
  return true;
}

Server::Server(ServerOptions options, std::vector<McpTool> tools)
    : options_(std::move(options)), tools_(std::move(tools)), pages_(options_.root, options_.knowledge) {}

Server::~Server() { finish(); }

void Server::finish() {
  std::map<Key, std::unique_ptr<Running>> running;
  {
    const std::lock_guard lock(calls_);
    running = std::move(running_);
    running_.clear();
  }
  for (auto& [key, one] : running) one->thread.join();
}

void Server::cancel() {
  {
    const std::lock_guard lock(calls_);
    for (auto& [key, running] : running_) running->cancelled = true;
  }
  finish();
}

void Server::cancel(const Session& session, const std::string& id) {
  const std::lock_guard lock(calls_);
  if (const auto found = running_.find({session.name, id}); found != running_.end()) found->second->cancelled = true;
}

bool Server::goes_on_alone(const std::string& tool) const {
  return std::ranges::any_of(tools_, [&](const McpTool& one) { return one.name == tool && one.goes_on_alone; });
}

// Under the lock.
void Server::reap() {
  std::erase_if(running_, [](auto& one) {
    if (!one.second->ended) return false;
    one.second->thread.join();
    return true;
  });
}

void Server::receive(std::string_view message, Session& session, const Exchange& exchange) {
  std::optional<Message> answered;
  if (message.size() >= kMostLineBytes) {
    answered = Message(
        McpFault{"null", record::kMcpNotJson, fmt::format("a message has at most {} bytes", kMostLineBytes - 1)});
  } else if (message.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    const std::variant<McpRequest, McpFault> read = record::read_mcp(message);
    if (const auto* wrong = std::get_if<McpFault>(&read)) {
      answered = Message(*wrong);
    } else if (const auto& request = std::get<McpRequest>(read); request.method == "notifications/cancelled") {
      cancel(session, request.cancelled);
    } else if (!request.id.empty()) {  // other notifications ask for nothing
      answered = answer(request, session);
      if (answered->text.empty()) answered = call(request, session, exchange);
      if (!answered) return;
    }
  }
  if (answered) exchange.write(*answered);
  exchange.done();
}

// Empty for a call of a tool.
Message Server::answer(const McpRequest& request, Session& session) const {
  const auto fault = [&](int code, const std::string& words) {
    return Message(McpFault{request.id, code, words}, request.revision);
  };
  const record::McpServer self{"ridge", options_.version, kInstructions};
  if (request.method == "initialize") {
    const bool known = std::ranges::find(record::kMcpOlder, request.revision) != std::end(record::kMcpOlder);
    session.initialized = true;
    return record::mcp_initialized(request.id, self, known ? request.revision : record::kMcpOlder[0]);
  }
  const bool modern = request.revision == record::kMcpModern;
  if (!modern && !request.revision.empty() && !session.initialized)
    return fault(record::kMcpWrongRevision, fmt::format("revision {} is not spoken here", request.revision));
  if (!modern && !session.initialized)
    return fault(record::kMcpNoRequest,
                 "neither was initialize called, nor does params._meta name a revision of the protocol");
  if (request.method == "tools/call") return {};
  if (request.method == "server/discover") return record::mcp_discovered(request.id, self);
  if (request.method == "ping") return record::mcp_empty(request.id, modern);
  if (request.method == "tools/list") return record::mcp_tools(request.id, tools_, modern);
  if (request.method == "resources/list") return record::mcp_resources(request.id, pages_.list(), modern);
  if (request.method == "resources/templates/list")
    return record::mcp_resource_templates(request.id, Pages::templates(), modern);
  if (request.method == "resources/read") return read_resource(request, modern);
  if (request.method == "prompts/list") return record::mcp_prompts(request.id, prompts(), modern);
  if (request.method == "prompts/get") return get_prompt(request, modern);
  return fault(record::kMcpNoMethod, fmt::format("there is no method {}", request.method));
}

Message Server::read_resource(const McpRequest& request, bool modern) const {
  const Result<Pages::Page> page = pages_.read(request.uri);
  if (!page) return Message(McpFault{request.id, record::kMcpBadParameters, page.error().text()});
  return record::mcp_resource(request.id, page->resource, page->text, modern);
}

std::optional<Message> Server::call(const McpRequest& request, const Session& session, const Exchange& exchange) {
  const bool modern = request.revision == record::kMcpModern;
  const auto tool = std::ranges::find(tools_, request.name, &McpTool::name);
  if (tool == tools_.end())
    return Message(McpFault{request.id, record::kMcpBadParameters,
                            fmt::format("there is no tool \"{}\"; tools/list names them", request.name)});
  const Key key{session.name, request.id};
  const std::lock_guard lock(calls_);
  reap();
  if (running_.contains(key))
    return Message(
        McpFault{request.id, record::kMcpNoRequest, fmt::format("a call with the id {} is running", request.id)});
  if (static_cast<int>(running_.size()) >= options_.most_calls) {
    return record::mcp_outcome(request.id,
                               {7, "too many calls", "",
                                fmt::format("{} calls are running; wait for one, or cancel it", running_.size()), true},
                               modern);
  }
  auto running = std::make_unique<Running>();
  Running& started = *running;
  running_[key] = std::move(running);
  started.thread = std::thread([this, request, &tool = *tool, modern, exchange, &started] {
    const std::string outcome = run(request, tool, modern, exchange, started);
    if (!started.cancelled) exchange.write(outcome);  // a cancelled request has no answer
    exchange.done();
    started.ended = true;
  });
  return std::nullopt;
}

std::string Server::run(const McpRequest& request, const McpTool& tool, bool modern, const Exchange& exchange,
                        const Running& running) const {
  const auto refuse = [&](const Error& error) { return record::mcp_outcome(request.id, refused(error), modern); };
  const Result<TempDir> folder = TempDir::create("ridge-mcp");
  if (!folder) return refuse(folder.error());
  const Result<CommandLine> line = command_line(tool, request.arguments, options_.root, folder->path());
  if (!line) return refuse(line.error());
  if (!line->source.empty()) {
    if (const Status written = write_file_durably(folder->path() / line->source_name, line->source); !written)
      return refuse(written.error());
  }
  ProcessSpec spec;
  spec.argv = {options_.program.string()};
  spec.argv.insert(spec.argv.end(), line->words.begin(), line->words.end());
  spec.directory = options_.root;
  spec.timeout = kLongest;
  spec.output_limit_bytes = kMostOutput;
  spec.should_stop = [&running] { return running.cancelled.load(); };
  std::int64_t count = 0;
  if (!request.progress_token.empty())
    spec.on_error_line = [&](std::string_view said) {
      exchange.write(record::mcp_progress(request.progress_token, ++count, said));
    };
  const Result<ProcessResult> result = run_process(spec);
  return record::mcp_outcome(request.id, result ? outcome_of(tool, *result) : refused(result.error()), modern);
}

}  // namespace ridge::mcp
