// One measurement at a time on a device. Processes that want to measure take a ticket and are served in the order in
// which they came, so several campaigns share a device fairly, one request each. A process that died loses its ticket.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "execute/executor.h"

namespace ridge::execute {

class DeviceLease {
 public:
  // Waits until it is this process's turn. `folder` stands for the device; `who` is shown to those who wait.
  // kTimeout when `should_stop` says so. `on_wait` hears whom it waits for, a few times per second.
  static Result<DeviceLease> acquire(const std::filesystem::path& folder, const std::string& who,
                                     const ShouldStop& should_stop = {},
                                     const std::function<void(const std::string& holder)>& on_wait = {});
  DeviceLease(DeviceLease&& other) noexcept;
  DeviceLease& operator=(DeviceLease&&) = delete;
  ~DeviceLease();

 private:
  DeviceLease(std::filesystem::path ticket, int fd) : ticket_(std::move(ticket)), fd_(fd) {}
  std::filesystem::path ticket_;
  int fd_ = -1;
};

// The folder that stands for the devices of a backend on this machine. The cache may be shared by machines.
std::filesystem::path device_folder(const std::filesystem::path& cache_directory, const std::string& backend);

// Takes the lease for every request that measures. Time spent waiting is no active time, see Executor::waited().
std::unique_ptr<Executor> make_leased_executor(std::unique_ptr<Executor> inner, std::filesystem::path folder,
                                               std::string who);

}  // namespace ridge::execute
