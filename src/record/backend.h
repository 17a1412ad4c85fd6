// What there is to know about a backend by its name, one row each: what commands, campaigns and reports ask, so that
// none of them compares names. What runs on it is the rig of src/evaluate/rig.h.
#pragma once

#include <span>
#include <string_view>

#include "ridge/result.h"
#include "ridge/stream.h"

namespace ridge::record {

struct BackendInfo {
  Backend backend;
  std::string_view name;        // "cuda"; "cuda_" begins the names of its implementations
  std::string_view suffix;      // of its candidates' sources: ".cu"
  std::string_view language;    // that they are written in unless told
  std::string_view facts;       // begins the names of its device's facts: "gpu."
  std::string_view device;      // the fact that names the device: "gpu.name"
  std::string_view capability;  // what `ridge doctor` calls the device; empty: it is always there
  bool measured = true;         // there is a rig: campaigns, benchmarks and tuning run on it
  bool host = false;            // the processor that runs us, too: threads count, and memory is that of the machine
};

std::span<const BackendInfo> backends();
const BackendInfo& info_of(Backend backend);
// The row of that name, for what must be measured: a name that is not known, or has no rig yet, is an error that says
// which have one. `what` begins its sentence: "campaigns on".
Result<const BackendInfo*> find_measured(std::string_view name, std::string_view what);
// The row of a name that was checked before; that of the processor for any other.
const BackendInfo& backend_of_name(std::string_view name);
// False for the names of projects that are not Ridgeline's ("triton"), too.
bool runs_on_host(std::string_view name);
// By the suffix of a source file, and by the language of a kernel: the processor's where no other has it.
const BackendInfo& backend_of_suffix(std::string_view suffix);
const BackendInfo& backend_of_language(std::string_view language);

}  // namespace ridge::record
