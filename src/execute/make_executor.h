// Executors by name, as a person writes them:
//
//   local[:GPU,...]                GPUs of this host, each with a worker of its own; without any, the first
//   slurm[:OPTION=VALUE,...]       partition, account, qos, constraint, gres, time, mem, cpus, nodelist, container,
//                                  exclusive, jobs, pack, folder, ridge
//   ssh:HOST[,HOST...][,OPTION=VALUE,...]     folder, ridge, config, slots
//   scripted:FILE                  answers from a file, for tests (record::ScriptedAnswer, a line each)
//
// A comma within a value is written "\,".
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "execute/executor.h"

namespace ridge::execute {

// What an executor needs beside its name.
struct ExecutorSetting {
  std::filesystem::path worker_program;   // on this machine
  std::filesystem::path ridge_program;    // on this machine; elsewhere, where nothing else is said
  std::filesystem::path cache_directory;  // units lie in it
  std::string version;                    // of this program
  std::string owner;                      // what asks: a campaign's id; names the folder of its units
  std::function<std::string()> scope;     // see ClusterExecutorOptions
  double wait_for_quiet = 0;              // seconds, on the machine that measures
  bool one_device = false;                // see QueueOptions
  std::function<void(std::string_view)> on_note;
  std::function<void(double)> pause;
};

// An Error names the word that cannot be used and what can be.
Result<std::unique_ptr<Executor>> make_executor(std::string_view spec, Clock& clock, const ExecutorSetting& setting);

// Whether a name can be used; nothing is started and no machine is asked.
Status check_executor(std::string_view spec);
// Requests that it would work on at once, likewise.
Result<std::size_t> width_of(std::string_view spec);
// Whether it runs beside the engine, and so on this machine's devices.
bool is_local(std::string_view spec);
// Whether its devices are the same at every asking, so that they can be asked what they are; a scheduler may choose
// others each time.
bool has_fixed_devices(std::string_view spec);
// Whether it is the worker beside the engine that sees all of this machine's devices.
bool is_default(std::string_view spec);

}  // namespace ridge::execute
