#include "mcp/call.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/inside.h"

namespace ridge::mcp {
namespace {

namespace fs = std::filesystem;
using record::McpArgument;

Status bounded(const McpArgument& argument, std::size_t most) {
  if (argument.values.size() > kMostValues)
    return with_hint(invalid("{} has {} values", argument.name, argument.values.size()),
                     fmt::format("give at most {}", kMostValues));
  for (const std::string& value : argument.values) {
    if (value.size() > most)
      return with_hint(invalid("{} has {} bytes", argument.name, value.size()), fmt::format("give at most {}", most));
    if (value.find('\0') != std::string::npos) return invalid("{} has a zero byte", argument.name);
  }
  return ok_status();
}

std::string names_of(const record::McpTool& tool) {
  std::vector<std::string> names;
  for (const record::CommandArgument& one : tool.command->arguments) names.push_back(record::mcp_name(one));
  for (const record::CommandOption& one : tool.command->options) names.push_back(record::mcp_name(one));
  std::erase_if(names, [&](const std::string& name) { return std::ranges::count(tool.hidden, name) != 0; });
  if (!tool.source.empty()) names.insert(names.end(), {"source", "source_name"});
  return fmt::format("{}", fmt::join(names, ", "));
}

// What a client gave, by name, each taken once.
class Given {
 public:
  explicit Given(const std::vector<McpArgument>& arguments) : arguments_(arguments) {}

  const McpArgument* take(const std::string& name) {
    for (const McpArgument& argument : arguments_) {
      if (argument.name != name) continue;
      taken_.insert(name);
      return &argument;
    }
    return nullptr;
  }
  [[nodiscard]] const McpArgument* left() const {
    const auto found =
        std::ranges::find_if(arguments_, [&](const McpArgument& one) { return !taken_.contains(one.name); });
    return found == arguments_.end() ? nullptr : &*found;
  }

 private:
  const std::vector<McpArgument>& arguments_;
  std::set<std::string> taken_;
};

Status one_value(const McpArgument& argument) {
  if (argument.kind == McpArgument::Kind::kBoolean)
    return invalid("{} is {}, where a text or a number belongs", argument.name, argument.values.front());
  if (argument.values.size() != 1) return invalid("{} is a list, where one value belongs", argument.name);
  return ok_status();
}

Status one_of(const McpArgument& argument, const std::string& values) {
  const std::vector<std::string> choices = record::choices_of(values);
  if (argument.values.size() == 1 && std::ranges::count(choices, argument.values.front()) != 0) return ok_status();
  return with_hint(invalid("{} is \"{}\"", argument.name, fmt::join(argument.values, ", ")),
                   fmt::format("give {}", fmt::join(choices, " or ")));
}

Status add_option(const record::CommandOption& option, const McpArgument& argument, const fs::path& root,
                  std::vector<std::string>& words) {
  std::string flag = option.flags.back();
  for (const std::string& one : option.flags) {
    if (one.starts_with("--")) flag = one;
  }
  if (option.value.empty()) {
    if (argument.kind != McpArgument::Kind::kBoolean)
      return invalid("{} is \"{}\", where true or false belongs", argument.name, fmt::join(argument.values, ", "));
    if (argument.values.front() == "true") words.push_back(flag);
    return ok_status();
  }
  if (!option.repeatable) RIDGE_CHECK_OK(one_value(argument));
  if (argument.kind == McpArgument::Kind::kBoolean) return one_value(argument);
  for (const std::string& value : argument.values) {
    RIDGE_CHECK_OK(stays_inside(root, value));
    words.push_back(fmt::format("{}={}", flag, value));
  }
  return ok_status();
}

Status add_positional(const record::CommandArgument& declared, const McpArgument* argument, const fs::path& root,
                      std::vector<std::string>& words) {
  if (argument == nullptr) {
    if (declared.required) return with_hint(invalid("{} is missing", record::mcp_name(declared)), declared.help);
    return ok_status();
  }
  if (!declared.repeatable) RIDGE_CHECK_OK(one_value(*argument));
  if (argument->kind == McpArgument::Kind::kBoolean) return one_value(*argument);
  for (const std::string& value : argument->values) {
    RIDGE_CHECK_OK(stays_inside(root, value));
    words.push_back(value);
  }
  return ok_status();
}

// The text of a kernel and its file's name.
Status take_source(const record::McpTool& tool, Given& given, CommandLine& line) {
  const McpArgument* text = given.take("source");
  const McpArgument* name = given.take("source_name");
  if (text == nullptr) return name == nullptr ? ok_status() : Status(invalid("source_name is given without source"));
  RIDGE_CHECK_OK(one_value(*text));
  RIDGE_CHECK_OK(bounded(*text, kMostSourceBytes));
  line.source = text->values.front();
  line.source_name = "kernel.cpp";
  if (name != nullptr) {
    RIDGE_CHECK_OK(one_value(*name));
    line.source_name = name->values.front();
  }
  const fs::path file = line.source_name;
  if (file.filename() != file || file == "." || file == ".." || line.source_name.empty() ||
      line.source_name.size() > 200)
    return with_hint(invalid("source_name \"{}\" is no name of a file", line.source_name),
                     "for instance kernel.cpp or kernel.cu, without a folder");
  if (line.source.empty())
    return with_hint(invalid("source is empty"),
                     fmt::format("give the kernel's text, or name a file as {}", tool.source));
  return ok_status();
}

}  // namespace

Status stays_inside(const fs::path& root, const std::string& text) {
  const std::size_t behind = text.find('=');
  for (const std::string& part : {text, behind == std::string::npos ? std::string() : text.substr(behind + 1)}) {
    const bool is_path = part.find('/') != std::string::npos || part.starts_with("..") || part.starts_with("~");
    if (!is_path) continue;
    if (part.starts_with("~") || !lies_in(root / part, root))
      return with_hint(invalid("\"{}\" is outside of {}", part, root.string()),
                       "paths are relative to that folder and stay inside it");
  }
  // A link in the folder may lead out of it.
  std::error_code failure;
  if (fs::exists(root / text, failure) && !lies_in(root / text, root))
    return with_hint(invalid("\"{}\" leads outside of {}", text, root.string()),
                     "paths are relative to that folder and stay inside it");
  return ok_status();
}

Status stays_out_of_campaigns(const fs::path& root, const std::string& file) {
  std::error_code failure;
  fs::path folder = fs::weakly_canonical(root / file, failure);
  for (; !failure && folder != root && folder.has_relative_path(); folder = folder.parent_path()) {
    std::error_code ignored;
    if (folder.filename() == kJournal || fs::exists(folder / kJournal, ignored))
      return with_hint(invalid("\"{}\" lies in a campaign, whose files are the engine's", file),
                       "name a file in another folder");
  }
  return ok_status();
}

Result<CommandLine> command_line(const record::McpTool& tool, const std::vector<McpArgument>& arguments,
                                 const fs::path& root, const fs::path& source_folder) {
  CommandLine line;
  line.words = tool.command->path;
  line.words.emplace_back("--json");
  line.words.insert(line.words.end(), tool.forced.begin(), tool.forced.end());
  Given given(arguments);
  if (!tool.source.empty()) RIDGE_CHECK_OK(take_source(tool, given, line));
  const std::string source_file = (source_folder / line.source_name).string();
  for (const McpArgument& argument : arguments) {
    if (argument.name != "source" || tool.source.empty()) RIDGE_CHECK_OK(bounded(argument, kMostTextBytes));
    if (argument.name == tool.source && !line.source.empty())
      return invalid("{} and source are two kernels", argument.name);
  }
  for (const record::CommandOption& option : tool.command->options) {
    const std::string name = record::mcp_name(option);
    if (std::ranges::count(tool.hidden, name) != 0) continue;
    if (name == tool.source && !line.source.empty()) line.words.push_back(fmt::format("--{}={}", name, source_file));
    const McpArgument* argument = given.take(name);
    if (argument == nullptr) continue;
    if (const auto narrowed = tool.narrowed.find(name); narrowed != tool.narrowed.end())
      RIDGE_CHECK_OK(one_of(*argument, narrowed->second));
    if (std::ranges::count(tool.writes, name) != 0) {
      for (const std::string& file : argument->values) RIDGE_CHECK_OK(stays_out_of_campaigns(root, file));
    }
    RIDGE_CHECK_OK(add_option(option, *argument, root, line.words));
  }
  line.words.emplace_back("--");
  for (const record::CommandArgument& declared : tool.command->arguments) {
    const std::string name = record::mcp_name(declared);
    if (std::ranges::count(tool.hidden, name) != 0) continue;
    if (name == tool.source && !line.source.empty())
      line.words.push_back(source_file);
    else
      RIDGE_CHECK_OK(add_positional(declared, given.take(name), root, line.words));
  }
  if (const McpArgument* unknown = given.left())
    return with_hint(invalid("{} has no argument {}", tool.name, unknown->name),
                     fmt::format("it has {}", names_of(tool)));
  return line;
}

}  // namespace ridge::mcp
