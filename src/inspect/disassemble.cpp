#include "inspect/disassemble.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"

namespace fs = std::filesystem;

namespace ridge::inspect {
namespace {

constexpr std::size_t kLongestListing = 256u << 20;

// The folder that this program lies in and all folders above it, nearest first; and those of the current folder.
std::vector<fs::path> places_above() {
  std::error_code ignored;
  std::vector<fs::path> places;
  for (fs::path place : {fs::current_path(ignored), fs::read_symlink("/proc/self/exe", ignored).parent_path()}) {
    for (; place.has_relative_path(); place = place.parent_path()) places.push_back(place);
  }
  return places;
}

// Folders of installed Python packages: of the active virtual environment, of .venv beside or above this program or the
// current folder, of the environment this program is installed in, of the python3 in PATH, and of the user.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> prefixes, folders;
  const auto add_variable = [&](const char* name, const char* below) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      prefixes.push_back(fs::path(value) / below);
  };
  add_variable("VIRTUAL_ENV", "");
  for (const fs::path& place : places_above()) {
    prefixes.push_back(place / ".venv");
    if (place.filename() == "site-packages" || place.filename() == "dist-packages") folders.push_back(place);
  }
  if (const std::string python = find_program("python3"); !python.empty())
    prefixes.push_back(fs::path(python).parent_path().parent_path());
  prefixes.emplace_back("/usr/local");
  add_variable("HOME", ".local");
  std::error_code ignored;
  for (const fs::path& prefix : prefixes) {
    for (const auto& python : fs::directory_iterator(prefix / "lib", ignored)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* kind : {"site-packages", "dist-packages"}) folders.push_back(python.path() / kind);
    }
  }
  return folders;
}

// Folders that hold programs of NVIDIA's Python packages.
std::vector<fs::path> wheel_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const fs::path& packages : package_folders()) {
    for (const auto& package : fs::directory_iterator(packages / "nvidia", ignored)) {
      if (fs::is_directory(package.path() / "bin", ignored)) folders.push_back(package.path() / "bin");
    }
  }
  return folders;
}

std::string find_cuda_tool(const char* name) {
  if (const std::string found = find_program(name); !found.empty()) return found;
  std::vector<fs::path> folders;
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0')
    folders.push_back(fs::path(home) / "bin");
  folders.push_back("/usr/local/cuda/bin");
  for (fs::path& folder : wheel_folders()) folders.push_back(std::move(folder));
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / name, ignored)) return (folder / name).string();
  }
  return {};
}

// Newest first: an old one does not know a new target.
std::vector<std::string> find_llvm_objdumps() {
  std::vector<std::string> tools;
  for (int version = 23; version >= 15; --version)
    tools.push_back(find_program("llvm-objdump-" + std::to_string(version)));
  tools.push_back(find_program("llvm-objdump"));
  std::error_code ignored;
  const fs::path rocm = "/opt/rocm/llvm/bin/llvm-objdump";
  if (fs::exists(rocm, ignored)) tools.push_back(rocm.string());
  std::erase(tools, std::string());
  return tools;
}

// One line about a tool that failed. A version that does not know the target of a file says so in its own words or
// crashes with a stack dump of many lines.
Error refusal(const std::vector<std::string>& argv, const ProcessResult& result) {
  const std::string& said = result.error_output;
  const auto says = [&](const char* words) { return said.find(words) != std::string::npos; };
  if (says("is not a recognized processor") || says("unable to get target") || says("PLEASE submit a bug report") ||
      result.end == ProcessResult::End::kSignalled) {
    return make_error(ErrorCode::kUnsupported, "{} does not know the target of this file; a newer one may",
                      argv.front());
  }
  const std::size_t start = std::min(said.find_first_not_of(" \n"), said.size());
  const std::string line = said.substr(start, std::min(said.find('\n', start), start + 200) - start);
  return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(argv), result.describe(), line);
}

Result<std::string> run(std::vector<std::string> argv, const fs::path& file) {
  argv.push_back(file.string());
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.timeout = 120;
  spec.output_limit_bytes = kLongestListing;
  RIDGE_TRY(result, run_process(spec));
  if (!result.succeeded()) return refusal(spec.argv, result);
  return std::move(result.output);
}

Error none_of(Isa isa) {
  const char* tools = isa == Isa::kSass     ? "nvdisasm, cuobjdump"
                      : isa == Isa::kAmdgcn ? "llvm-objdump, llvm-objdump-15 to -23"
                                            : "objdump";
  const char* remedy =
      isa == Isa::kSass
          ? "both come with the CUDA toolkit, and as nvidia-cuda-nvdisasm and nvidia-cuda-cuobjdump from PyPI"
      : isa == Isa::kAmdgcn ? "install llvm-19 or ROCm"
                            : "install binutils";
  return with_hint(make_error(ErrorCode::kUnsupported, "no disassembler: looked for {}", tools), remedy);
}

}  // namespace

Result<Disassembly> disassemble(Isa isa, std::string_view bytes) {
  if (isa == Isa::kPtx) return make_error(ErrorCode::kUnsupported, "PTX is text already");
  RIDGE_TRY(directory, TempDir::create("ridge-inspect"));
  const fs::path file = directory.path() / "code.o";
  RIDGE_CHECK_OK(write_file_durably(file, bytes));
  std::vector<std::vector<std::string>> commands;
  if (isa == Isa::kSass) {
    if (const std::string tool = find_cuda_tool("nvdisasm"); !tool.empty()) commands.push_back({tool, "-c"});
    if (const std::string tool = find_cuda_tool("cuobjdump"); !tool.empty()) commands.push_back({tool, "-sass"});
  } else if (isa == Isa::kAmdgcn) {
    for (const std::string& tool : find_llvm_objdumps()) commands.push_back({tool, "-d"});
  } else if (const std::string tool = find_program("objdump"); !tool.empty()) {
    commands.push_back({tool, "-d", "--no-show-raw-insn"});
  }
  if (commands.empty()) return none_of(isa);
  // A tool may be too old for this file where the next one is not.
  std::optional<Error> first;
  for (const std::vector<std::string>& command : commands) {
    Result<std::string> text = run(command, file);
    if (text) return Disassembly{std::move(*text), command.front()};
    if (!first) first = text.error();
  }
  return *first;
}

}  // namespace ridge::inspect
