#include "ridge/stream.h"

#include "base/error.h"

namespace ridge {

std::string_view to_string(Backend backend) {
  switch (backend) {
    case Backend::kCpu: return "cpu";
    case Backend::kCuda: return "cuda";
    case Backend::kHip: return "hip";
  }
  return "unknown";
}

Result<Backend> parse_backend(std::string_view name) {
  for (const Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kHip}) {
    if (to_string(backend) == name) return backend;
  }
  return with_hint(invalid("unknown backend '{}'", name), "known: cpu, cuda, hip");
}

}  // namespace ridge
