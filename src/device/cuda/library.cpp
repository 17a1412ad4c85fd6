#include "device/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace ridge::device::cuda {
namespace {

namespace fs = std::filesystem;

// Folders a toolkit may be in, best first.
std::vector<std::string> roots() {
  std::vector<std::string> found;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') found.emplace_back(value);
  }
  found.emplace_back("/usr/local/cuda");
  return found;
}

// The site-packages that this code was installed into (.../ridgeline/torch/<library>, .../ridgeline/bin/<program>): a
// Python that was started by its path sets no VIRTUAL_ENV.
fs::path own_packages() {
  Dl_info about{};
  fs::path file;
  if (dladdr(reinterpret_cast<const void*>(&own_packages), &about) != 0 && about.dli_fname != nullptr)
    file = about.dli_fname;
  std::error_code failure;
  if (!file.is_absolute())
    file = fs::read_symlink("/proc/self/exe", failure);  // a program is known by how it was called
  return file.parent_path().parent_path().parent_path();
}

void add_components(const fs::path& packages, std::vector<std::string>& found) {
  std::error_code absent;
  for (const fs::directory_entry& part : fs::directory_iterator(packages / "nvidia", absent))
    found.push_back(part.path().string());
}

// site-packages/nvidia/<component>, which holds lib/ and include/: how pip and PyTorch install the toolkit.
std::vector<std::string> wheel_folders() {
  std::vector<std::string> found;
  add_components(own_packages(), found);
  std::vector<fs::path> prefixes = {"/usr", "/usr/local"};
  if (const char* value = std::getenv("VIRTUAL_ENV"); value != nullptr) prefixes.insert(prefixes.begin(), value);
  std::error_code failure;
  for (const fs::path& prefix : prefixes) {
    for (const fs::directory_entry& python : fs::directory_iterator(prefix / "lib", failure)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) add_components(python.path() / packages, found);
    }
  }
  return found;
}

bool exists(const std::string& path) {
  std::error_code failure;
  return fs::exists(path, failure);
}

}  // namespace

std::vector<std::string> toolkit_library(const std::string& stem, const std::vector<std::string>& versions) {
  std::vector<std::string> names, found;
  for (const std::string& version : versions) names.push_back("lib" + stem + ".so." + version);
  names.push_back("lib" + stem + ".so");
  found = names;
  for (const std::string& root : roots()) {
    for (const std::string& name : names) {
      if (exists(root + "/lib64/" + name)) found.push_back(root + "/lib64/" + name);
    }
  }
  for (const std::string& folder : wheel_folders()) {
    for (const std::string& name : names) {
      if (exists(folder + "/lib/" + name)) found.push_back(folder + "/lib/" + name);
    }
  }
  return found;
}

std::vector<std::string> toolkit_include_folders() {
  std::vector<std::string> found;
  for (const std::string& root : roots()) {
    if (exists(root + "/include/cuda_fp16.h")) found.push_back(root + "/include");
  }
  for (const std::string& folder : wheel_folders()) {
    if (exists(folder + "/include/cuda_fp16.h")) found.push_back(folder + "/include");
  }
  return found;
}

}  // namespace ridge::device::cuda
