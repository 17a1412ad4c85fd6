// The first screen: how fast, is it good, what changed, what now. The same text for every format.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace ridge::report {

// Something to paste into a shell, and what it does.
struct Command {
  std::string text, words;
};

struct Answer {
  std::string id, question;  // id: an XML name
  std::string key;           // the answer in a few words
  std::vector<std::string> lines;
  std::vector<Command> commands;
};

// In the order in which a reader asks.
std::vector<Answer> answers(const Model& model);

// What makes sense next, the most useful first: go on when the campaign has not ended, take and check the kernel when
// it has. Commands are for a shell in the campaign's folder, which the journal does not know.
std::vector<Command> next_commands(const Model& model);
std::vector<Command> check_commands();

}  // namespace ridge::report
