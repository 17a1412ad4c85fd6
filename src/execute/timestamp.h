// One question to an external time-stamping program: the head of a journal on its standard input, its answer kept.
#pragma once

#include <string>

#include "ridge/result.h"

namespace ridge::execute {

// What `/bin/sh -c command` writes when it reads "HASH\n". An error says why it has no answer: it did not start, failed
// or took more than a minute, or answered nothing or more than 1 MiB.
Result<std::string> ask_timestamp(const std::string& command, const std::string& hash);

}  // namespace ridge::execute
