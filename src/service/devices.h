// What the devices of a place are, by their own answers, so that unlike ones are not taken for one kind.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "record/execution.h"
#include "record/worker.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// Where an answer came from: the host as it names itself, or the device by its number at the place.
std::string source_of(const record::WorkerResponse& response, std::size_t number, const std::string& place);

// The device of a backend, of a GPU with its driver and limits: what one table, and one sweep, holds for. Empty: there
// is none.
std::string device_of(const record::Environment& environment, const std::string& backend);

struct DeviceQuestion {
  std::string place;  // of the worker, for messages
  std::string backend;
  std::size_t devices = 1;  // that are asked, each once
};
struct AskedDevice {
  std::string source, device;
};
// Asks the devices of a worker what they are. kUnsupported, with its place, where one has none of the backend.
Result<std::vector<AskedDevice>> ask_devices(const Context& context, execute::Executor& worker,
                                             const DeviceQuestion& question);

// Refuses devices that are of another kind than the one that measures: kInvalidArgument with both names. Of a
// scheduler, which may choose others each time, one device is asked.
Status check_screens(const Context& context, execute::Executor& screens, const std::string& place,
                     const std::string& backend, const record::Environment& measures);

}  // namespace ridge::service
