// Sends each request to where it belongs: what measures to one machine, looks at many candidates to several, builds to
// others, questions about the library to none.
#pragma once

#include <memory>

#include "execute/executor.h"

namespace ridge::execute {

struct Routes {
  std::unique_ptr<Executor> here;     // beside the engine: what needs no device
  std::unique_ptr<Executor> measure;  // also describes itself, and builds where `build` is null
  // Builds ahead of what measures, into the cache that both share, and again before an accept. A machine without that
  // cache, or with another processor, has to build by itself, and does.
  std::unique_ptr<Executor> build = nullptr;
  // Devices that share the looks at the candidates of one request (execute/spread.h); null: `measure` looks alone.
  // They build by themselves.
  std::unique_ptr<Executor> screen = nullptr;
};

std::unique_ptr<Executor> make_routed_executor(Routes routes);

}  // namespace ridge::execute
