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

// Folders that hold programs below .venv/lib/python*/site-packages/nvidia/, of the current directory or one above it.
std::vector<fs::path> wheel_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  fs::path place = fs::current_path(ignored);
  while (!fs::exists(place / ".venv", ignored) && place.has_relative_path()) place = place.parent_path();
  for (const auto& python : fs::directory_iterator(place / ".venv" / "lib", ignored)) {
    for (const auto& package : fs::directory_iterator(python.path() / "site-packages" / "nvidia", ignored)) {
      if (fs::is_directory(package.path() / "bin", ignored)) folders.push_back(package.path() / "bin");
    }
  }
  return folders;
}

std::string find_cuda_tool(const char* name) {
  if (const std::string found = find_program(name); !found.empty()) return found;
  std::vector<fs::path> folders;
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr) folders.push_back(fs::path(home) / "bin");
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

Result<std::string> run(std::vector<std::string> argv, const fs::path& file) {
  argv.push_back(file.string());
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.timeout = 120;
  spec.output_limit_bytes = kLongestListing;
  RIDGE_TRY(result, run_process(spec));
  if (!result.succeeded() && result.error_output.find("is not a recognized processor") != std::string::npos) {
    return make_error(ErrorCode::kUnsupported, "{} does not know the target of this file; a newer one may",
                      spec.argv.front());
  }
  if (!result.succeeded()) {
    return make_error(ErrorCode::kToolFailed, "{} {}: {}", quote_command(spec.argv), result.describe(),
                      result.error_output.substr(0, 500));
  }
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
