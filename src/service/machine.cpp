#include "service/machine.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "execute/python_front_end.h"
#include "service/calibrate.h"
#include "service/worker_call.h"

namespace ridge::service {
namespace {

constexpr std::string_view kEssentials[] = {"C++ compiler", "candidate process", "git"};

}  // namespace

Result<record::WorkerResponse> examine_machine(const Context& context) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  response.capabilities.push_back(probe_noise(context, response.environment.value_or(record::Environment())));
  for (record::Capability& one : execute::python_front_end(context.worker_program.parent_path()))
    response.capabilities.push_back(std::move(one));
  return response;
}

bool is_essential(const record::Capability& capability) {
  return std::ranges::find(kEssentials, capability.name) != std::end(kEssentials);
}

std::string missing_essentials(const std::vector<record::Capability>& capabilities) {
  std::string missing;
  for (const record::Capability& one : capabilities) {
    if (is_essential(one) && !one.available) missing += (missing.empty() ? "" : ", ") + one.name;
  }
  return missing;
}

Status require_compiler(const Context& context) {
  record::WorkerRequest request;
  request.task = record::WorkerTask::kDescribe;
  RIDGE_TRY(response, ask_worker(context, std::move(request)));
  const auto& all = response.capabilities;
  const auto compiler =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return one.name == "C++ compiler"; });
  if (compiler == all.end() || compiler->available) return ok_status();
  return with_hint(
      make_error(ErrorCode::kUnsupported, "the demo compiles kernels on this machine: {}", compiler->detail),
      "install one, for instance: apt-get install g++");
}

}  // namespace ridge::service
