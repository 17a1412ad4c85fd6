#include "record/mcp.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace ridge::record {
namespace {

constexpr const char* kMeta = "_meta";
constexpr const char* kRevisionKey = "io.modelcontextprotocol/protocolVersion";
constexpr const char* kServerKey = "io.modelcontextprotocol/serverInfo";

// Lists of this server change only when the program does, resources with every round.
constexpr std::int64_t kListLifetime = 3'600'000, kResourceLifetime = 0;  // milliseconds

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_id(const Json& value) { return value.is_string() || value.is_number_integer(); }

std::string scalar_text(const Json& value) { return value.is_string() ? value.get<std::string>() : dump_json(value); }

std::optional<McpArgument> argument_of(const std::string& name, const Json& value) {
  McpArgument argument{name, McpArgument::Kind::kText, {}};
  if (value.is_array()) {
    argument.kind = McpArgument::Kind::kList;
    for (const Json& one : value) {
      if (!one.is_string() && !one.is_number()) return std::nullopt;
      argument.values.push_back(scalar_text(one));
    }
    return argument;
  }
  if (value.is_boolean())
    argument.kind = McpArgument::Kind::kBoolean;
  else if (value.is_number())
    argument.kind = McpArgument::Kind::kNumber;
  else if (!value.is_string())
    return std::nullopt;
  argument.values.push_back(scalar_text(value));
  return argument;
}

// What the methods of this server take from `params`; the error says what is wrong.
std::optional<std::string> read_parameters(const Json& parameters, McpRequest& request) {
  request.name = text_at(parameters, "name");
  request.uri = text_at(parameters, "uri");
  if (request.method == "initialize") request.revision = text_at(parameters, "protocolVersion");
  if (const auto meta = parameters.find(kMeta); meta != parameters.end()) {
    if (!meta->is_object()) return "params._meta is no object";
    if (request.method != "initialize") request.revision = text_at(*meta, kRevisionKey);
    if (const auto token = meta->find("progressToken"); token != meta->end()) {
      if (!is_id(*token)) return "params._meta.progressToken is neither a text nor a whole number";
      request.progress_token = dump_json(*token);
    }
  }
  if (const auto id = parameters.find("requestId"); id != parameters.end() && is_id(*id))
    request.cancelled = dump_json(*id);
  const auto arguments = parameters.find("arguments");
  if (arguments == parameters.end() || arguments->is_null()) return std::nullopt;
  if (!arguments->is_object()) return "params.arguments is no object";
  for (const auto& [name, value] : arguments->items()) {
    if (value.is_null()) continue;  // as if it were not there
    std::optional<McpArgument> argument = argument_of(name, value);
    if (!argument)
      return fmt::format("params.arguments.{} is neither a text, a number, true, false nor a list of texts and numbers",
                         name);
    request.arguments.push_back(std::move(*argument));
  }
  return std::nullopt;
}

Json id_of(const std::string& id) { return parse_json(id.empty() ? "null" : id).value(); }

std::string line_of(const std::string& id, Json result, bool modern,
                    std::optional<std::int64_t> lifetime = std::nullopt) {
  if (modern) {
    result["resultType"] = "complete";
    if (lifetime) {
      result["ttlMs"] = *lifetime;
      result["cacheScope"] = "private";
    }
  }
  return dump_json(Json{{"jsonrpc", "2.0"}, {"id", id_of(id)}, {"result", std::move(result)}});
}

Json capabilities() {
  return {{"tools", {{"listChanged", false}}},
          {"resources", {{"listChanged", false}, {"subscribe", false}}},
          {"prompts", {{"listChanged", false}}}};
}

Json server_of(const McpServer& server) {
  return {{"name", server.name}, {"title", "Ridgeline"}, {"version", server.version}};
}

bool is_count(const std::string& value) { return value == "N" || value == "X"; }

Json property_of(const CommandOption& option) {
  Json property;
  const std::vector<std::string> choices = choices_of(option.value);
  if (option.value.empty()) {
    property["type"] = "boolean";
  } else if (option.repeatable) {
    property["type"] = "array";
    property["items"] = {{"type", "string"}};
  } else if (!choices.empty()) {
    property["type"] = "string";
    property["enum"] = choices;
  } else {
    property["type"] = is_count(option.value) ? "number" : "string";
  }
  std::string description = option.help;
  if (!option.value.empty() && !is_count(option.value) && choices.empty())
    description = option.value + ": " + description;
  if (!option.default_value.empty()) description += fmt::format(" (default: {})", option.default_value);
  property["description"] = std::move(description);
  return property;
}

Json schema_of(const McpTool& tool) {
  Json properties = Json::object(), required = Json::array();
  for (const CommandArgument& argument : tool.command->arguments) {
    const std::string name = mcp_name(argument);
    if (std::ranges::count(tool.hidden, name) != 0) continue;
    if (argument.repeatable)
      properties[name] = {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", argument.help}};
    else
      properties[name] = {{"type", "string"}, {"description", argument.help}};
    if (argument.required && name != tool.source) required.push_back(name);
  }
  for (const CommandOption& option : tool.command->options) {
    const std::string name = mcp_name(option);
    if (std::ranges::count(tool.hidden, name) != 0) continue;
    CommandOption shown = option;
    if (const auto narrowed = tool.narrowed.find(name); narrowed != tool.narrowed.end()) shown.value = narrowed->second;
    properties[name] = property_of(shown);
  }
  if (!tool.source.empty()) {
    properties["source"] = {
        {"type", "string"},
        {"description", fmt::format("The text of the kernel, instead of the file that {} names", tool.source)}};
    properties["source_name"] = {{"type", "string"},
                                 {"description", "How the file of that text is called (default: kernel.cpp)"}};
  }
  Json schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

// JSON has no NaN and no infinity; a number that may be one is a text then.
void allow_no_numbers(Json& schema) {
  if (schema.is_object() && schema.value("type", Json()) == "number") {
    schema["type"] = {"number", "string"};
    schema["pattern"] = "^(nan|-?inf)$";
  }
  for (Json& part : schema) {
    if (part.is_structured()) allow_no_numbers(part);
  }
}

Json outcome_schema(const McpTool& tool) {
  Json result = tool.result != nullptr ? tool.result() : Json::object();
  allow_no_numbers(result);
  result["description"] = tool.command->json;
  return {{"type", "object"},
          {"properties",
           {{"exit_code", {{"type", "integer"}, {"description", "0: done; 1: it ran, and the answer is no"}}},
            {"meaning", {{"type", "string"}}},
            {"result", std::move(result)},
            {"said", {{"type", "string"}, {"description", "The end of what the command said, where it failed"}}}}},
          {"required", {"exit_code", "meaning"}}};
}

Json tool_of(const McpTool& tool) {
  std::string description = tool.command->summary + ".";
  if (!tool.command->json.empty()) description += fmt::format(" Returns {}.", tool.command->json);
  if (!tool.note.empty()) description += " " + tool.note;
  return {{"name", tool.name},
          {"title", tool.command->summary},
          {"description", std::move(description)},
          {"inputSchema", schema_of(tool)},
          {"outputSchema", outcome_schema(tool)},
          {"annotations", {{"readOnlyHint", tool.reads_only}, {"destructiveHint", false}, {"openWorldHint", false}}}};
}

Json resource_of(const McpResource& resource, const char* uri_key) {
  return {{uri_key, resource.uri}, {"name", resource.name}, {"title", resource.title}, {"mimeType", resource.kind}};
}

Json prompt_of(const McpPrompt& prompt) {
  Json arguments = Json::array();
  if (!prompt.argument.empty())
    arguments.push_back({{"name", prompt.argument}, {"description", prompt.argument_help}, {"required", true}});
  return {{"name", prompt.name}, {"description", prompt.description}, {"arguments", std::move(arguments)}};
}

}  // namespace

std::variant<McpRequest, McpFault> read_mcp(std::string_view message) {
  const Result<Json> parsed = parse_json(message);
  if (!parsed) return McpFault{"null", kMcpNotJson, parsed.error().text()};
  const Json& object = *parsed;
  if (!object.is_object())
    return McpFault{"null", kMcpNoRequest,
                    "a message is one JSON object; batches are not part of the protocol any more"};
  McpRequest request;
  if (const auto id = object.find("id"); id != object.end()) {
    if (!is_id(*id)) return McpFault{"null", kMcpNoRequest, "id is neither a text nor a whole number"};
    request.id = dump_json(*id);
  }
  const std::string answered = request.id.empty() ? "null" : request.id;
  if (text_at(object, "jsonrpc") != "2.0") return McpFault{answered, kMcpNoRequest, "jsonrpc is not \"2.0\""};
  request.method = text_at(object, "method");
  if (request.method.empty()) return McpFault{answered, kMcpNoRequest, "method is missing or no text"};
  const auto parameters = object.find("params");
  if (parameters == object.end()) return request;
  if (!parameters->is_object()) return McpFault{answered, kMcpBadParameters, "params is no object"};
  if (const std::optional<std::string> wrong = read_parameters(*parameters, request))
    return McpFault{answered, kMcpBadParameters, *wrong};
  return request;
}

std::string mcp_name(const CommandOption& option) {
  std::string name = option.flags.back();
  for (const std::string& flag : option.flags) {
    if (flag.starts_with("--")) {
      name = flag.substr(2);
      break;
    }
  }
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string mcp_name(const CommandArgument& argument) {
  std::string name = argument.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<std::string> choices_of(std::string_view value) {
  if (value.find('|') == std::string_view::npos) return {};
  return split(value, '|');
}

std::string mcp_initialized(const std::string& id, const McpServer& server, const std::string& revision) {
  return line_of(id,
                 {{"protocolVersion", revision},
                  {"capabilities", capabilities()},
                  {"serverInfo", server_of(server)},
                  {"instructions", server.instructions}},
                 false);
}

std::string mcp_discovered(const std::string& id, const McpServer& server) {
  Json revisions = Json::array({kMcpModern});
  for (const char* older : kMcpOlder) revisions.push_back(older);
  return line_of(id,
                 {{"supportedVersions", std::move(revisions)},
                  {"capabilities", capabilities()},
                  {"instructions", server.instructions},
                  {kMeta, {{kServerKey, server_of(server)}}}},
                 true, kListLifetime);
}

std::string mcp_tools(const std::string& id, std::span<const McpTool> tools, bool modern) {
  Json list = Json::array();
  for (const McpTool& tool : tools) list.push_back(tool_of(tool));
  return line_of(id, {{"tools", std::move(list)}}, modern, kListLifetime);
}

std::string mcp_outcome(const std::string& id, const McpOutcome& outcome, bool modern) {
  Json structured{{"exit_code", outcome.exit_code}, {"meaning", outcome.meaning}};
  if (Result<Json> document = parse_json(outcome.document); !outcome.document.empty() && document)
    structured["result"] = std::move(*document);
  if (!outcome.said.empty()) structured["said"] = outcome.said;
  Json text{{"type", "text"}, {"text", dump_json(structured)}};
  return line_of(id,
                 {{"content", Json::array({std::move(text)})},
                  {"structuredContent", std::move(structured)},
                  {"isError", outcome.failed}},
                 modern);
}

std::string mcp_resources(const std::string& id, std::span<const McpResource> resources, bool modern) {
  Json list = Json::array();
  for (const McpResource& resource : resources) list.push_back(resource_of(resource, "uri"));
  return line_of(id, {{"resources", std::move(list)}}, modern, kResourceLifetime);
}

std::string mcp_resource_templates(const std::string& id, std::span<const McpResource> templates, bool modern) {
  Json list = Json::array();
  for (const McpResource& one : templates) list.push_back(resource_of(one, "uriTemplate"));
  return line_of(id, {{"resourceTemplates", std::move(list)}}, modern, kListLifetime);
}

std::string mcp_resource(const std::string& id, const McpResource& resource, const std::string& text, bool modern) {
  return line_of(
      id, {{"contents", Json::array({Json{{"uri", resource.uri}, {"mimeType", resource.kind}, {"text", text}}})}},
      modern, kResourceLifetime);
}

std::string mcp_prompts(const std::string& id, std::span<const McpPrompt> prompts, bool modern) {
  Json list = Json::array();
  for (const McpPrompt& prompt : prompts) list.push_back(prompt_of(prompt));
  return line_of(id, {{"prompts", std::move(list)}}, modern, kListLifetime);
}

std::string mcp_prompt(const std::string& id, const McpPrompt& prompt, const std::string& text, bool modern) {
  Json message{{"role", "user"}, {"content", {{"type", "text"}, {"text", text}}}};
  return line_of(id, {{"description", prompt.description}, {"messages", Json::array({std::move(message)})}}, modern);
}

std::string mcp_empty(const std::string& id, bool modern) { return line_of(id, Json::object(), modern); }

std::string mcp_error(const McpFault& fault, const std::string& requested_revision) {
  Json error{{"code", fault.code}, {"message", fault.message}};
  if (fault.code == kMcpWrongRevision) {
    Json supported = Json::array({kMcpModern});
    error["data"] = {{"supported", std::move(supported)}, {"requested", requested_revision}};
  }
  return dump_json(Json{{"jsonrpc", "2.0"}, {"id", id_of(fault.id)}, {"error", std::move(error)}});
}

std::string mcp_progress(const std::string& token, std::int64_t count, std::string_view message) {
  return dump_json(
      Json{{"jsonrpc", "2.0"},
           {"method", "notifications/progress"},
           {"params", {{"progressToken", id_of(token)}, {"progress", count}, {"message", std::string(message)}}}});
}

}  // namespace ridge::record
