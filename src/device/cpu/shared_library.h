// A third-party library, loaded when it is first needed and never unloaded: its threads may outlive any scope.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace ridge::device::cpu {

class SharedLibrary {
 public:
  // Loads the first of the names that the system finds. Its symbols stay private to it.
  explicit SharedLibrary(std::initializer_list<const char*> names);
  explicit SharedLibrary(const std::vector<std::string>& names);

  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }
  // Why it is not there, in the loader's words.
  [[nodiscard]] const std::string& error() const { return error_; }
  // The file it came from.
  [[nodiscard]] const std::string& path() const { return path_; }

  // The function of that name as F (a function type); null when there is none.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  [[nodiscard]] void* symbol(const char* name) const;
  bool load(const char* name);
  void look_up_path();

  void* handle_ = nullptr;
  std::string error_, path_;
};

// Sets an environment variable that a library reads while it is loaded, unless the user already chose.
void suggest_environment(const char* name, const char* value);

}  // namespace ridge::device::cpu
