// What `ridge handoff init` makes of its flags. Whether the harnesses judge right is tests/cli/handoff_init_test.py.
#include "project/harness.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "places.h"

namespace ridge::project {
namespace {

namespace fs = std::filesystem;

TEST(CommandWords, AreCutAsAShellWould) {
  EXPECT_EQ(*command_words("ssh 'my box'  \"a \\\"b\\\"\" c\\ d ''"), (Command{"ssh", "my box", "a \"b\"", "c d", ""}));
  for (const char* const text : {"a; b", "a | b", "a > b", "$(a)", "`a`", "\"$A\"", "a && b", "'a"})
    EXPECT_FALSE(command_words(text)) << text;
  EXPECT_EQ(*command_words("echo '$A;|'"), (Command{"echo", "$A;|"}));
}

TEST(HarnessShapes, CarryTheirLoadsInTheLabel) {
  const auto shapes = parse_shapes("even=64x96:8/8/8, skewed=64x96:24/0/0/1", Form::kGrouped);
  ASSERT_TRUE(shapes) << shapes.error().text();
  EXPECT_EQ((*shapes)[0].label, "even:8x3");
  EXPECT_EQ((*shapes)[1].label, "skewed:24-0x2-1");
  EXPECT_EQ((*shapes)[1].tokens, (std::vector<std::int64_t>{24, 0, 0, 1}));
  for (const char* const text :
       {"even=64x96", "even=64x96:0/0", "even=64x96:8/-1", "even=64:8", "=64x96:8", "a b=64x96:8"})
    EXPECT_FALSE(parse_shapes(text, Form::kGrouped)) << text;
  for (const Form form : {Form::kProduct, Form::kGrouped, Form::kRows}) {
    for (const bool gpu : {false, true}) EXPECT_TRUE(parse_shapes(default_shapes(form, gpu), form));
  }
}

TEST(HarnessFiles, AreOfEveryFormAndLeaveNoPlaceOpen) {
  HarnessSpec spec;
  spec.op = "mine";
  spec.peak = 2;
  spec.reference = "reference:mine";
  const fs::path templates = source_dir() / "data/harness";
  for (const char* const language : {"python", "triton", "c++", "cuda", "hip"}) {
    for (const Form form : {Form::kProduct, Form::kGrouped, Form::kRows}) {
      spec.language = language;
      spec.form = form;
      spec.shapes = *parse_shapes(default_shapes(form, false), form);
      const bool python = std::string(language) == "python" || std::string(language) == "triton";
      spec.kernel = {python ? "kernel.py" : "kernel.cpp"};
      spec.call = python ? "kernel:mine" : "mine";
      const auto files = harness_files(spec, templates);
      if (!python && form != Form::kProduct) {
        EXPECT_FALSE(files);
        continue;
      }
      ASSERT_TRUE(files) << language << ": " << files.error().text();
      ASSERT_EQ(files->size(), 2u);
      for (const auto& [path, text] : *files) {
        for (const char* const mark :
             {"@FUNCTION@", "@SHAPES@", "@FORM@", "@MODULE@", "@BACKWARD", "@REFERENCE", "@DTYPE@"})
          EXPECT_EQ(text.find(mark), std::string::npos) << language << " " << path << ": " << mark;
      }
      const auto project = parse_project(files->at(kProjectFile), "/somewhere");
      ASSERT_TRUE(project) << project.error().text();
      EXPECT_EQ(project->backend, backend_of_language(language));
      EXPECT_EQ(project->shapes.size(), 3u);
    }
  }
}

TEST(LookAround, FindsTheKernelAndItsFunction) {
  const TempDir folder = TempDir::create("ridge-around").value();
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream(folder.path() / file) << text;
  };
  EXPECT_EQ(look_around(folder.path(), "").kernel, "");
  write(
      "kernel.py",
      "import triton\n@triton.jit\ndef tile(a):\n    pass\n\n\ndef attend(q):\n    pass\n\n\ndef _own():\n    pass\n");
  write("other.py", "");
  Findings found = look_around(folder.path(), "");
  EXPECT_EQ(found.kernel, "kernel.py");
  EXPECT_EQ(found.language, "triton");
  EXPECT_EQ(found.call, "kernel:attend");
  write("fast.cu", "__global__ void tile() {}\nstatic int x;\nvoid gemm_backward() {}\nvoid gemm(const float* a) {}\n");
  found = look_around(folder.path(), "fast.cu");
  EXPECT_EQ(found.language, "cuda");
  EXPECT_EQ(found.call, "gemm");
}

TEST(LookAround, TakesNoStandardThatTheHarnessIsNotWrittenIn) {
  const TempDir folder = TempDir::create("ridge-around").value();
  const struct {
    const char *written, *taken;
  } rows[] = {{"17", "c++17"}, {"20", "c++20"},     {"23", "c++23"}, {"11", ""},
              {"98", ""},      {"${STANDARD}", ""}, {"2a", ""}};
  for (const auto& row : rows) {
    std::ofstream(folder.path() / "CMakeLists.txt") << "set(CMAKE_CXX_STANDARD " << row.written << ")\n";
    EXPECT_EQ(look_around(folder.path(), "").standard, row.taken) << row.written;
  }
}

}  // namespace
}  // namespace ridge::project
