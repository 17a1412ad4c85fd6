#include "execute/project_device.h"

#include <cstdlib>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace ridge::execute {
namespace {

constexpr double kPatience = 60;  // seconds for one question; a container may have to start

// The text after the first `name:` of lines "name   : value"; empty where there is none.
std::string value_after(const std::string& output, std::string_view name) {
  for (const std::string& line : split(output, '\n')) {
    const std::string_view words = trimmed(line);
    const std::size_t colon = words.find(':');
    if (colon != std::string_view::npos && trimmed(words.substr(0, colon)) == name)
      return std::string(trimmed(words.substr(colon + 1)));
  }
  return {};
}

std::string first_line(const std::string& output) { return std::string(trimmed(output.substr(0, output.find('\n')))); }

// rocminfo lists processors as well: the name of the first agent whose device type is GPU.
std::string first_gpu(const std::string& output) {
  std::string name;
  for (const std::string& line : split(output, '\n')) {
    if (const std::string found = value_after(line, "Marketing Name"); !found.empty()) name = found;
    if (value_after(line, "Device Type") == "GPU") return name;
  }
  return {};
}

struct Question {
  project::Command command;
  std::string (*answer)(const std::string& output);
};

std::vector<Question> questions_for(const project::Project& project) {
  const char* const interpreted = std::getenv("TRITON_INTERPRET");
  const bool host = project.backend == "cpu" ||
                    (project.backend == "triton" && interpreted != nullptr && std::string_view(interpreted) == "1");
  const Question cpu{{"cat", "/proc/cpuinfo"}, [](const std::string& text) { return value_after(text, "model name"); }};
  const Question nvidia{{"nvidia-smi", "--query-gpu=name", "--format=csv,noheader"}, first_line};
  const Question amd{{"rocminfo"}, first_gpu};
  if (host) return {cpu};
  if (project.backend == "cuda") return {nvidia};
  if (project.backend == "hip") return {amd};
  return {nvidia, amd};
}

}  // namespace

Result<std::string> device_of(const project::Project& project) {
  if (!project.device.empty()) return project.device;
  std::string asked;
  for (Question& question : questions_for(project)) {
    ProcessSpec spec;
    spec.argv = project.prefix;
    spec.argv.insert(spec.argv.end(), question.command.begin(), question.command.end());
    spec.directory = project.root;
    spec.timeout = kPatience;
    const Result<ProcessResult> result = run_process(spec);
    const std::string name = result && result->succeeded() ? question.answer(result->output) : std::string();
    if (!name.empty()) return name;
    asked += (asked.empty() ? "" : "; ") + quote_command(spec.argv) + " " +
             (!result               ? result.error().message
              : result->succeeded() ? "names none"
                                    : result->describe());
  }
  return with_hint(make_error(ErrorCode::kUnsupported, "the device of the project is not known: {}", asked),
                   "say it in ridge-project.toml, for instance device = \"MI300X\" in [project]");
}

}  // namespace ridge::execute
