// memory/v<N>.json as this tool and others write it. Written strictly; read leniently in what decides nothing: numbers
// that are null, keys that are not ours, utilisations in percent, "compute_bound". What an unknown key held stays in
// the file.
#pragma once

#include <string>
#include <string_view>

#include "record/iteration.h"
#include "ridge/result.h"

namespace ridge::record {

// An error names the key and its place: no object, a text where a number is due, no version, no verdict.
Result<Iteration> read_iteration(std::string_view text, const std::string& place);

// The record, and behind it what only `original` holds (the text that it was read from; empty: nothing).
std::string iteration_text(const Iteration& iteration, std::string_view original);

// JSON Schema (draft 7) of what read_iteration takes.
std::string iteration_schema();

}  // namespace ridge::record
