// ridge doctor: what this machine can do, what is missing, and how to get it.
#include <fmt/format.h>

#include "base/process.h"
#include "noise_probe.h"
#include "record/json.h"
#include "subcommands.h"
#include "worker_call.h"

namespace ridge::cli {
namespace {

int doctor() {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  Result<record::WorkerResponse> response = ask_worker(request);
  if (!response) return fail(response.error());
  response->capabilities.push_back(probe_noise(response->environment.value_or(record::Environment())));
  if (globals().json) {
    fmt::print("{}\n", record::to_pretty(*response));
    return kSuccess;
  }
  if (response->environment) {
    fmt::print("This machine\n");
    for (const auto& [name, value] : response->environment->facts) fmt::print("  {:<28} {}\n", name, value);
  }
  fmt::print("\nWhat it can do\n");
  for (const record::Capability& capability : response->capabilities) {
    fmt::print("  {} {:<26} {}\n", capability.available ? "yes" : "no ", capability.name, capability.detail);
    if (!capability.available && !capability.remedy.empty()) fmt::print("      {}\n", capability.remedy);
  }
  return kSuccess;
}

}  // namespace

void define_doctor(Command root) {
  root.subcommand("doctor", "Say what this machine can do and what is missing")
      .example("ridge doctor", "a screenful for people")
      .example("ridge doctor --json", "the same for programs")
      .exits({{kNo, "something that checks or campaigns need is missing"}, kSystem, kInterrupted})
      .json("the facts of this machine, and a list of what it can do with details and remedies")
      .action(doctor);
}

}  // namespace ridge::cli
