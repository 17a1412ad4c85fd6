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

Server::Server(ServerOptions options, std::vector<McpTool> tools, std::function<void(const std::string&)> write)
    : options_(std::move(options)),
      tools_(std::move(tools)),
      write_(std::move(write)),
      pages_(options_.root, options_.knowledge) {}

Server::~Server() { finish(); }

void Server::send(const std::string& line) {
  const std::lock_guard lock(writing_);
  write_(line);
}

void Server::fault(const McpRequest& request, int code, const std::string& message) {
  if (!request.id.empty()) send(record::mcp_error({request.id, code, message}, request.revision));
}

void Server::finish() {
  for (auto& [id, running] : running_) running->thread.join();
  running_.clear();
}

void Server::cancel() {
  for (auto& [id, running] : running_) running->cancelled = true;
  finish();
}

void Server::reap() {
  std::erase_if(running_, [](auto& one) {
    if (!one.second->ended) return false;
    one.second->thread.join();
    return true;
  });
}

void Server::receive(std::string_view line) {
  reap();
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (line.size() >= kMostLineBytes)
    return send(record::mcp_error(
        {"null", record::kMcpNotJson, fmt::format("a message has at most {} bytes", kMostLineBytes - 1)}));
  const std::variant<McpRequest, McpFault> read = record::read_mcp(line);
  if (const auto* wrong = std::get_if<McpFault>(&read)) return send(record::mcp_error(*wrong));
  const McpRequest& request = std::get<McpRequest>(read);
  if (request.method == "notifications/cancelled") {
    if (const auto found = running_.find(request.cancelled); found != running_.end()) found->second->cancelled = true;
    return;
  }
  if (request.id.empty()) return;  // other notifications ask for nothing
  answer(request);
}

void Server::answer(const McpRequest& request) {
  const record::McpServer self{"ridge", options_.version, kInstructions};
  if (request.method == "initialize") {
    const bool known = std::ranges::find(record::kMcpOlder, request.revision) != std::end(record::kMcpOlder);
    initialized_ = true;
    return send(record::mcp_initialized(request.id, self, known ? request.revision : record::kMcpOlder[0]));
  }
  const bool modern = request.revision == record::kMcpModern;
  if (!modern && !request.revision.empty() && !initialized_)
    return fault(request, record::kMcpWrongRevision, fmt::format("revision {} is not spoken here", request.revision));
  if (!modern && !initialized_)
    return fault(request, record::kMcpNoRequest,
                 "neither was initialize called, nor does params._meta name a revision of the protocol");
  if (request.method == "server/discover") return send(record::mcp_discovered(request.id, self));
  if (request.method == "ping") return send(record::mcp_empty(request.id, modern));
  if (request.method == "tools/list") return send(record::mcp_tools(request.id, tools_, modern));
  if (request.method == "tools/call") return call(request, modern);
  if (request.method == "resources/list") return send(record::mcp_resources(request.id, pages_.list(), modern));
  if (request.method == "resources/templates/list")
    return send(record::mcp_resource_templates(request.id, Pages::templates(), modern));
  if (request.method == "resources/read") return read_resource(request, modern);
  if (request.method == "prompts/list") return send(record::mcp_prompts(request.id, prompts(), modern));
  if (request.method == "prompts/get") return get_prompt(request, modern);
  fault(request, record::kMcpNoMethod, fmt::format("there is no method {}", request.method));
}

void Server::read_resource(const McpRequest& request, bool modern) {
  const Result<Pages::Page> page = pages_.read(request.uri);
  if (!page) return fault(request, record::kMcpBadParameters, page.error().text());
  send(record::mcp_resource(request.id, page->resource, page->text, modern));
}

void Server::get_prompt(const McpRequest& request, bool modern) {
  for (const record::McpPrompt& prompt : prompts()) {
    if (prompt.name != request.name) continue;
    const auto given = std::ranges::find(request.arguments, prompt.argument, &record::McpArgument::name);
    if (given == request.arguments.end() || given->kind != record::McpArgument::Kind::kText)
      return fault(request, record::kMcpBadParameters,
                   fmt::format("prompt {} needs the text {}: {}", prompt.name, prompt.argument, prompt.argument_help));
    return send(record::mcp_prompt(request.id, prompt, prompt_text(prompt, given->values.front()), modern));
  }
  fault(request, record::kMcpBadParameters, fmt::format("there is no prompt \"{}\"", request.name));
}

void Server::call(const McpRequest& request, bool modern) {
  const auto tool = std::ranges::find(tools_, request.name, &McpTool::name);
  if (tool == tools_.end())
    return fault(request, record::kMcpBadParameters,
                 fmt::format("there is no tool \"{}\"; tools/list names them", request.name));
  if (running_.contains(request.id))
    return fault(request, record::kMcpNoRequest, fmt::format("a call with the id {} is running", request.id));
  if (static_cast<int>(running_.size()) >= options_.most_calls) {
    return send(
        record::mcp_outcome(request.id,
                            {7, "too many calls", "",
                             fmt::format("{} calls are running; wait for one, or cancel it", running_.size()), true},
                            modern));
  }
  auto running = std::make_unique<Running>();
  Running& started = *running;
  running_[request.id] = std::move(running);
  started.thread = std::thread([this, request, &tool = *tool, modern, &started] {
    run(request, tool, modern, started);
    started.ended = true;
  });
}

void Server::run(const McpRequest& request, const McpTool& tool, bool modern, Running& running) {
  const Result<TempDir> folder = TempDir::create("ridge-mcp");
  if (!folder) return send(record::mcp_outcome(request.id, refused(folder.error()), modern));
  const Result<CommandLine> line = command_line(tool, request.arguments, options_.root, folder->path());
  if (!line) return send(record::mcp_outcome(request.id, refused(line.error()), modern));
  if (!line->source.empty()) {
    if (const Status written = write_file_durably(folder->path() / line->source_name, line->source); !written)
      return send(record::mcp_outcome(request.id, refused(written.error()), modern));
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
      send(record::mcp_progress(request.progress_token, ++count, said));
    };
  const Result<ProcessResult> result = run_process(spec);
  const McpOutcome outcome = result ? outcome_of(tool, *result) : refused(result.error());
  if (!running.cancelled) send(record::mcp_outcome(request.id, outcome, modern));  // a cancelled request has no answer
}

}  // namespace ridge::mcp
