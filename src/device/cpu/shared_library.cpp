#include "device/cpu/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

namespace ridge::device::cpu {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (load(name)) break;
  }
  look_up_path();
}

SharedLibrary::SharedLibrary(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (load(name.c_str())) break;
  }
  look_up_path();
}

bool SharedLibrary::load(const char* name) {
  handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return true;
  const char* reason = dlerror();
  if (error_.empty()) error_ = reason == nullptr ? "not found" : reason;
  return false;
}

void SharedLibrary::look_up_path() {
  if (handle_ == nullptr) return;
  error_.clear();
  link_map* map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) path_ = map->l_name;
}

void* SharedLibrary::symbol(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

void suggest_environment(const char* name, const char* value) { setenv(name, value, 0); }

}  // namespace ridge::device::cpu
