#include "service/memory.h"

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "knowledge/memory.h"
#include "record/iteration_file.h"

namespace ridge::service {
namespace {

Result<record::Iteration> new_iteration(const NewMemory& o, const std::string& from) {
  record::Iteration iteration;
  if (!from.empty()) {
    RIDGE_TRY(parsed, record::read_iteration(from, o.from));
    iteration = std::move(parsed);
  }
  if (!o.version.empty()) iteration.version = o.version;
  return knowledge::with_fields(std::move(iteration), o.set);
}

Result<std::string> text_of(const knowledge::Memory& memory, const Result<record::Iteration>& iteration) {
  if (!iteration) return iteration.error();
  return memory.text(iteration->version, true);
}

}  // namespace

Result<record::CommandAnswer> init_memory(const std::string& workspace) {
  const Result<knowledge::Memory> made = knowledge::Memory::init(workspace);
  if (!made) return made.error();
  return record::CommandAnswer{fmt::format("Made {}/memory", workspace), "ridge memory create"};
}

Result<std::string> create_memory(const NewMemory& request) {
  RIDGE_TRY(memory, knowledge::Memory::open(request.workspace));
  std::string from;
  if (!request.from.empty()) {
    RIDGE_TRY(text, read_file(request.from));
    from = std::move(text);
  }
  RIDGE_TRY(iteration, new_iteration(request, from));
  SystemClock clock;
  return text_of(memory, memory.create(std::move(iteration), clock, from));
}

Result<std::string> read_memory(const std::string& workspace, const std::string& version, bool masked) {
  RIDGE_TRY(memory, knowledge::Memory::open(workspace));
  return text_of(memory, memory.read(version, masked));
}

Result<std::string> update_memory(const std::string& workspace, const std::string& version,
                                  const std::vector<std::string>& set) {
  RIDGE_TRY(memory, knowledge::Memory::open(workspace));
  return text_of(memory, memory.update(version, set));
}

Result<MemorySummary> summarise_memory(const std::string& workspace, bool masked) {
  RIDGE_TRY(memory, knowledge::Memory::open(workspace));
  RIDGE_TRY(records, memory.list(masked));
  RIDGE_TRY(best, memory.best());
  RIDGE_TRY(aside, memory.set_aside());
  return MemorySummary{std::move(records), std::move(best), std::move(aside)};
}

Result<record::CommandAnswer> mask_memory(const std::string& workspace, const std::vector<std::string>& versions,
                                          bool masked) {
  RIDGE_TRY(memory, knowledge::Memory::open(workspace));
  for (const std::string& version : versions) RIDGE_CHECK_OK(memory.set_masked(version, masked));
  return record::CommandAnswer{fmt::format("{}: {}", masked ? "masked" : "shown again", fmt::join(versions, " ")), {}};
}

Result<record::MemoryRestart> restart_memory(const std::string& workspace, std::int64_t seed) {
  RIDGE_TRY(memory, knowledge::Memory::open(workspace));
  SystemClock clock;
  return memory.restart(seed, clock);
}

Result<std::vector<std::string>> validate_memory(const std::string& workspace) {
  RIDGE_TRY(memory, knowledge::Memory::open(workspace));
  return memory.validate();
}

}  // namespace ridge::service
