#include "execute/python_front_end.h"

#include <fmt/format.h>

#include <cstdlib>
#include <iterator>

#include "base/process.h"
#include "base/text.h"
#include "execute/project_copy.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using record::Capability;

constexpr double kImportPatience = 120;  // seconds; PyTorch is read from a cold disk

// Prints name, whether it works and what there is to say about it, separated by tabs. sys.argv: the folder of the
// package, and that of the library, in a clone.
constexpr const char* kScript = R"(
import importlib.util, os, sys

def say(name, works, text):
    print(name, works, " ".join(str(text).split()), sep="\t", flush=True)

sys.path[:] = [one for one in sys.path if one]  # nothing of the current folder

say("Python", "ok", sys.version.split()[0] + ", " + sys.executable)
package, library = sys.argv[1:]
if importlib.util.find_spec("ridgeline") is None and package:
    sys.path.append(package)
    os.environ.setdefault("RIDGELINE_LIBRARY_DIR", library)
try:
    import torch
    devices = "CUDA " + torch.version.cuda if torch.version.cuda else "ROCm " + torch.version.hip if torch.version.hip else "CPU only"
    say("PyTorch", "ok", f"{torch.__version__} ({devices}) in {torch.__path__[0]}")
except Exception as error:
    say("PyTorch", "no", error)
if importlib.util.find_spec("ridgeline") is None:
    say("ridgeline.torch", "absent", f"{sys.executable} has no package ridgeline")
else:
    try:
        import ridgeline.torch
        say("ridgeline.torch", "ok", f"{ridgeline.torch.__version__} loads, from {ridgeline.torch._library._folder()}")
    except Exception as error:
        say("ridgeline.torch", "no", error)
)";

constexpr const char* kPackageRemedy =
    "pip install . in a clone, or the wheel of scripts/wheel (docs/pytorch.md, Installing)";

Capability capability(std::string name, bool available, std::string detail, std::string remedy) {
  Capability one;
  one.name = std::move(name);
  one.available = available;
  one.detail = std::move(detail);
  one.remedy = std::move(remedy);
  return one;
}

// The clone whose build folder holds `programs` (build/bin); empty where there is none.
fs::path clone_of(const fs::path& programs) {
  const fs::path clone = programs.parent_path().parent_path();
  return fs::exists(clone / "python/ridgeline/__init__.py") ? clone : fs::path();
}

std::string python_of(const fs::path& clone) {
  if (const char* const chosen = std::getenv("RIDGE_PYTHON"); chosen != nullptr && *chosen != '\0') return chosen;
  if (const char* const active = std::getenv("VIRTUAL_ENV"); active != nullptr && *active != '\0')
    return fs::path(active) / "bin/python3";
  if (const fs::path own = clone / ".venv/bin/python3"; !clone.empty() && fs::exists(own)) return own;
  return find_program("python3");
}

// What helps where it does not work. The messages of ridgeline.torch say it themselves.
std::string remedy_of(const std::string& name, const std::string& state, const std::string& python) {
  if (name == "PyTorch")
    return fmt::format("{} -m pip install torch; or set RIDGE_PYTHON to the Python that has it", python);
  return state == "absent" ? kPackageRemedy : std::string();
}

}  // namespace

std::vector<Capability> python_front_end(const fs::path& programs) {
  const fs::path clone = clone_of(programs);
  const std::string python = python_of(clone);
  if (python.empty())
    return {
        capability("Python", false, "there is no python3 in PATH", "apt-get install python3 (scripts/setup does it)")};
  const bool in_clone = !clone.empty();
  ProcessSpec spec;
  spec.argv = {python,
               "-W",
               "ignore",
               "-c",
               kScript,
               in_clone ? (clone / "python").string() : "",
               in_clone ? (programs.parent_path() / "lib").string() : ""};
  spec.timeout = kImportPatience;
  const Result<ProcessResult> result = run_process(spec);
  const std::string failed =
      !result               ? result.error().text()
      : result->succeeded() ? std::string()
                            : fmt::format("{} {}: {}", python, result->describe(), last_lines(result->error_output));
  std::vector<Capability> found;
  for (const std::string& line : split(result ? result->output : std::string(), '\n')) {
    const std::vector<std::string> words = split(line, '\t');
    if (words.size() != 3) continue;
    found.push_back(capability(words[0], words[1] == "ok", words[2],
                               words[1] == "ok" ? std::string() : remedy_of(words[0], words[1], python)));
  }
  // A PyTorch that ends the process that imports it.
  constexpr const char* kInOrder[] = {"Python", "PyTorch", "ridgeline.torch"};
  if (!failed.empty() && found.size() < std::size(kInOrder))
    found.push_back(capability(kInOrder[found.size()], false, failed, "set RIDGE_PYTHON to a Python that works"));
  return found;
}

}  // namespace ridge::execute
