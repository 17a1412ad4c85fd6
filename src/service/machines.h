// The workers of other machines, for a use case that is asked to build or measure there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "campaign/machines.h"
#include "service/context.h"

namespace ridge::service {

// What tells one asking of a campaign from another (execute/unit_queue.h).
struct AskedBy {
  std::string owner;                   // names the folder of the units; empty: a command, whose units go with it
  std::function<std::string()> scope;  // of a campaign: how far its journal is
  double wait_for_quiet = 0;           // seconds, there
  bool one_device = true;              // all that measures does so on one device; else each request on any
};

// A worker beside the engine for what needs no device, and those of the machines for the rest.
Result<std::unique_ptr<execute::Executor>> worker_on(const Context& context, const campaign::Machines& machines,
                                                     Clock& clock, AskedBy asked);

// The devices that share the looks at a sweep of a campaign. `queue` names their units among those of the campaign.
Result<std::unique_ptr<execute::Executor>> screens_on(const Context& context, const std::string& place, Clock& clock,
                                                      AskedBy asked, std::string_view queue);

// What makes the final comparison of a campaign once more. A place that cannot be used is no error: it is said now, and
// is the answer to every request, so that the campaign ends with a note.
std::unique_ptr<execute::Executor> replica_on(const Context& context, const std::string& place, Clock& clock,
                                              AskedBy asked);

// In its stead where the user does not wait for that place any more: every answer is that it was left out on request.
std::unique_ptr<execute::Executor> no_replica();

// The same context with that worker, for one command.
Result<Context> context_on(const Context& context, const campaign::Machines& machines, bool one_device = true);

}  // namespace ridge::service
