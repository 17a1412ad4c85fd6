// What lets a campaign profile its incumbent: the tool of its backend, or the project's own command.
#pragma once

#include <memory>
#include <string>

#include "execute/executor.h"
#include "service/context.h"

namespace ridge::service {

// Carries out "profile" itself, hands every other request on to `inner`, and adds the profiler to what that says of the
// environment. Operators: perf on a processor, ncu on a GPU of NVIDIA's, both around a ridge-worker. `project`: the
// report comes from its commands.profile, through `inner`; `stated`: it has one.
struct ProfilingSubject {
  std::string backend;
  bool project = false, stated = false;
  std::string elsewhere =
      {};  // where it measures, which no profiler here watches; empty: this machine, its first device
};
std::unique_ptr<execute::Executor> make_profiling_executor(const Context& context,
                                                           std::unique_ptr<execute::Executor> inner,
                                                           ProfilingSubject subject);

}  // namespace ridge::service
