// What `ridge doctor` says of Python, by interpreters that are scripts.
#include "execute/python_front_end.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/files.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

class PythonFrontEnd : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"RIDGE_PYTHON", "VIRTUAL_ENV"}) {
      const char* const value = std::getenv(name);
      before_.emplace_back(name, value != nullptr ? value : "");
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      ::unsetenv(name.c_str());
      if (!value.empty()) ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  // A script that is started in place of Python.
  fs::path interpreter(const std::string& name, const std::string& text) {
    const fs::path path = directory_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << text;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  static std::string lines(const std::vector<record::Capability>& found) {
    std::string text;
    for (const record::Capability& one : found)
      text += one.name + (one.available ? " ok " : " no ") + one.detail + " [" + one.remedy + "]\n";
    return text;
  }
  TempDir directory_ = TempDir::create("ridge-python").value();
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(PythonFrontEnd, EachPartHasItsRemedy) {
  const fs::path python = interpreter("python",
                                      "printf 'Python\\tok\\t3.11\\nPyTorch\\tno\\tNo module named torch\\n'\n"
                                      "printf 'ridgeline.torch\\tabsent\\tno package\\n'\n");
  ::setenv("RIDGE_PYTHON", python.c_str(), 1);
  EXPECT_EQ(lines(python_front_end(directory_.path() / "bin")),
            "Python ok 3.11 []\nPyTorch no No module named torch [" + python.string() +
                " -m pip install torch; or set RIDGE_PYTHON to the Python that has it]\nridgeline.torch no no package "
                "[pip install . in a clone, or the wheel of scripts/wheel (docs/pytorch.md, Installing)]\n");
}

TEST_F(PythonFrontEnd, APyTorchThatEndsItsProcessIsNamed) {
  const fs::path python =
      interpreter("python", "printf 'Python\\tok\\t3.11\\n'\necho no such library >&2\nkill -11 $$\n");
  ::setenv("RIDGE_PYTHON", python.c_str(), 1);
  const auto found = python_front_end(directory_.path() / "bin");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].name, "PyTorch");
  EXPECT_FALSE(found[1].available);
  EXPECT_NE(found[1].detail.find("signal 11"), std::string::npos) << found[1].detail;
  EXPECT_NE(found[1].detail.find("no such library"), std::string::npos) << found[1].detail;
}

TEST_F(PythonFrontEnd, AnInterpreterThatIsNotThereIsNamed) {
  ::setenv("RIDGE_PYTHON", "/nowhere/python", 1);
  const auto found = python_front_end(directory_.path() / "bin");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].available);
  EXPECT_NE(found[0].detail.find("/nowhere/python"), std::string::npos) << found[0].detail;
}

// A clone: its .venv, its package, and the library beside the programs.
TEST_F(PythonFrontEnd, InACloneItIsThatOfTheClone) {
  interpreter(".venv/bin/python3", "printf 'Python\\tok\\t%s %s\\n' \"$5\" \"$6\"\n");
  fs::create_directories(directory_.path() / "python/ridgeline");
  std::ofstream(directory_.path() / "python/ridgeline/__init__.py") << "";
  const std::string root = directory_.path().string();
  EXPECT_EQ(lines(python_front_end(directory_.path() / "build/bin")),
            "Python ok " + root + "/python " + root + "/build/lib []\n");
  const fs::path active = interpreter("active/bin/python3", "printf 'Python\\tok\\tactive\\n'\n");
  ::setenv("VIRTUAL_ENV", (directory_.path() / "active").c_str(), 1);
  EXPECT_EQ(lines(python_front_end(directory_.path() / "build/bin")), "Python ok active []\n");
}

}  // namespace
}  // namespace ridge::execute
