#include "service/devices.h"

#include <fmt/format.h>

#include "base/error.h"
#include "execute/make_executor.h"
#include "record/backend.h"
#include "record/device_limits.h"

namespace ridge::service {
namespace {

constexpr std::string_view kDriverFact = "gpu.driver_version";

}  // namespace

std::string source_of(const record::WorkerResponse& response, std::size_t number, const std::string& place) {
  const std::string numbered = fmt::format("device {} of {}", number + 1, place);
  return response.environment ? response.environment->fact("node.host", numbered) : numbered;
}

std::string device_of(const record::Environment& environment, const std::string& backend) {
  const record::BackendInfo& info = record::backend_of_name(backend);
  std::string device = environment.fact(info.device);
  if (device.empty() || info.host) return device;
  if (const std::string driver = environment.fact(kDriverFact); !driver.empty())
    device += ", driver for CUDA " + driver;
  if (const std::string limits = record::device_limits(environment); !limits.empty()) device += ", " + limits;
  return device;
}

Result<std::vector<AskedDevice>> ask_devices(const Context& context, execute::Executor& worker,
                                             const DeviceQuestion& question) {
  record::WorkerRequest describe;
  describe.backend = question.backend;
  describe.cache_directory = context.cache_directory.string();
  const std::vector<record::WorkerRequest> questions(question.devices, describe);
  const auto answers = worker.run_all(questions, {}, [&] { return context.stopped(); });
  std::vector<AskedDevice> devices;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) return answers[i].error();
    AskedDevice one{source_of(*answers[i], i, question.place), {}};
    if (answers[i]->environment) one.device = device_of(*answers[i]->environment, question.backend);
    if (one.device.empty()) {
      return with_hint(make_error(ErrorCode::kUnsupported, "{}: there is no {} device", one.source,
                                  record::backend_of_name(question.backend).name),
                       "`ridge doctor` there says why; `nvidia-smi -L` lists GPUs");
    }
    devices.push_back(std::move(one));
  }
  return devices;
}

Status check_screens(const Context& context, execute::Executor& screens, const std::string& place,
                     const std::string& backend, const record::Environment& measures) {
  const std::string own = device_of(measures, backend);
  const std::size_t devices = execute::has_fixed_devices(place) ? screens.width() : 1;
  RIDGE_TRY(asked, ask_devices(context, screens, {place, backend, devices}));
  for (const AskedDevice& one : asked) {
    if (one.device == own) continue;
    return with_hint(invalid("screen_on {}: {} is {}, and the campaign measures on {}", place, one.source, one.device,
                             own.empty() ? "a device without a name" : own),
                     "looks guide what is measured: begin a new campaign with devices of that kind, or without "
                     "--screen-on");
  }
  return ok_status();
}

}  // namespace ridge::service
