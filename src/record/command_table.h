// The commands of `ridge` as data: help, man pages, shell completion and the check of the configuration file are
// generated from these records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::record {

struct CommandOption {
  std::vector<std::string> flags;  // "-D", "--define"
  std::string value;               // what it takes: "FILE", "N", "cold|warm"; empty: a switch
  std::string help, default_value;
  bool repeatable = false;
  static void fields(auto& v, auto& self) {
    v("flags", self.flags);
    v("value", self.value);
    v("help", self.help);
    v("default", self.default_value);
    v("repeatable", self.repeatable);
  }
};

struct CommandArgument {
  std::string name, help;
  bool required = true, repeatable = false;
  static void fields(auto& v, auto& self) {
    v("name", self.name);
    v("help", self.help);
    v("required", self.required);
    v("repeatable", self.repeatable);
  }
};

struct CommandExample {
  std::string line, effect;
  static void fields(auto& v, auto& self) {
    v("line", self.line);
    v("effect", self.effect);
  }
};

struct CommandExit {
  std::int64_t code = 0;
  std::string meaning;
  static void fields(auto& v, auto& self) {
    v("code", self.code);
    v("meaning", self.meaning);
  }
};

struct CommandEntry {
  std::vector<std::string> path;  // {"campaign", "verify"}; empty: ridge itself
  std::string heading;            // under which the help of its parent lists it
  std::string summary;
  std::vector<CommandArgument> arguments;
  std::vector<CommandOption> options;
  std::vector<CommandExample> examples;
  std::vector<CommandExit> exits;
  bool group = false;           // it has subcommands and needs one
  bool exits_declared = false;  // the command states its exit codes
  bool has_json = false;        // --json prints one document
  std::string json;             // what the document holds, or why there is none; empty: the command does not say
  static void fields(auto& v, auto& self) {
    v("path", self.path);
    v("heading", self.heading);
    v("summary", self.summary);
    v("arguments", self.arguments);
    v("options", self.options);
    v("examples", self.examples);
    v("exits", self.exits);
    v("group", self.group);
    v("exits_declared", self.exits_declared);
    v("has_json", self.has_json);
    v("json", self.json);
  }
};

// What a command that changes something answers.
struct CommandAnswer {
  std::string message;
  std::string next;  // the command to run now; empty: nothing is left to do
  static void fields(auto& v, auto& self) {
    v("message", self.message);
    v("next", self.next);
  }
};

// One default of the user's configuration file.
struct ConfiguredDefault {
  std::string command, option;      // "ridge bench", "time-limit"
  std::vector<std::string> values;  // one, or several of a repeatable option
  static void fields(auto& v, auto& self) {
    v("command", self.command);
    v("option", self.option);
    v("values", self.values);
  }
};

struct Configuration {
  std::string path;
  bool exists = false;
  std::vector<ConfiguredDefault> defaults;
  static void fields(auto& v, auto& self) {
    v("path", self.path);
    v("exists", self.exists);
    v("defaults", self.defaults);
  }
};

}  // namespace ridge::record
