// One call of a tool: what the client gave becomes the command line of a process of this program, within one folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "record/mcp.h"
#include "ridge/result.h"

namespace ridge::mcp {

struct CommandLine {
  std::vector<std::string> words;   // without the program
  std::string source, source_name;  // the text of a kernel, to be written into a file of this name; empty: none
};

// The words of `tool`'s command. The error says which argument cannot be used and why. Every path stays inside `root`;
// `source_file` is the file that the text of a kernel will be in.
Result<CommandLine> command_line(const record::McpTool& tool, const std::vector<record::McpArgument>& arguments,
                                 const std::filesystem::path& root, const std::filesystem::path& source_folder);

inline constexpr const char* kJournal = "journal.jsonl";  // what makes a folder a campaign

// A text that is a path, or has one behind a '=', must lie inside the folder.
Status stays_inside(const std::filesystem::path& root, const std::string& text);

// A file that a command writes must not lie in the folder of a campaign, whose record it would replace.
Status stays_out_of_campaigns(const std::filesystem::path& root, const std::string& file);

inline constexpr std::size_t kMostSourceBytes = 1u << 20, kMostTextBytes = 64u << 10, kMostValues = 256;

}  // namespace ridge::mcp
