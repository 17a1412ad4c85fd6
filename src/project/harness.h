// What `ridge handoff init` writes into a project, and `ridge workspace init --reference` into a workspace: a harness
// that checks and times its kernel, made from the templates in data/harness, and the ridge-project.toml that runs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "project/project.h"
#include "record/reference.h"

namespace ridge::project {

// The operation, which gives operands, float64 reference, work and table. kProduct: out = a b; kGrouped: the same with
// a b of its own for every group of rows; kRows: what a reference of the project's says of every row of x; kModule:
// what a module of PyTorch or a function of C++ gives in float64, whatever it computes.
enum class Form { kProduct, kGrouped, kRows, kModule };

struct HarnessShape {
  std::string label;
  std::vector<std::int64_t> sizes;   // M, N, K; N, K of a grouped product; rows and columns; any of a module
  std::vector<std::int64_t> tokens;  // rows of every group, of a grouped product
};

struct HarnessSpec {
  std::string op, language;         // c++ | cuda | hip | python | triton | cutedsl
  std::string backend;              // empty: that of the language
  std::vector<std::string> kernel;  // files that may change
  std::string call;                 // MODULE:FUNCTION for a Python harness, FUNCTION for a C++ one
  Form form = Form::kProduct;
  std::string dtype = "f32";  // f32 | bf16 | f16
  bool backward = true;
  std::vector<HarnessShape> shapes;
  std::string reference;         // MODULE:FUNCTION, of kRows; FILE:NAME, of kModule
  record::ReferenceBlock block;  // of a kModule reference in C++
  bool cast = false;             // of kModule: floating-point operands are made `dtype`
  double least_snr_db = 0;       // of kModule: what the reference's error bounds come to; 0: not known
  std::string artifact, device;  // may be empty
  std::string branch;            // of a campaign's commits; may be empty
  std::vector<std::string> constraints;
  Command prefix, build, acceptance;  // may be empty
  double peak = 0;                    // TFLOPS, or GB/s of kRows
  std::string standard;               // of a C++ harness: "c++17"
  std::vector<std::string> includes;  // folders of a C++ harness
};

// "small=64x64x64,large=512x512x256"; of a grouped product "even=256x512:16/16/16" (N x K : tokens of every group);
// of rows "tall=4096x64". The label of a grouped product gets its counts: "even:16x3", which rule 16 reads.
Result<std::vector<HarnessShape>> parse_shapes(std::string_view text, Form form);
// Shapes to begin with, in that syntax.
std::string default_shapes(Form form, bool gpu);

Result<Form> parse_form(std::string_view name);
// The backend that a language is for: cpu, cuda, hip, triton.
std::string backend_of_language(const std::string& language);
// Whether kernels of this language are called from Python.
bool is_python(std::string_view language);
// Whether the harness is quick_test_bench.py, or test_kernel.py of kModule; otherwise it is quick_test_bench.cpp.
bool python_harness(const HarnessSpec& spec);
// Whether the kernel is compiled, into a library that the harness calls; of kModule.
bool is_library(const HarnessSpec& spec);

inline constexpr const char* kModuleHarness = "test_kernel.py";
// Included before the first line of a library's source: a function of other parameters is another one, and is not
// found. The same for a reference in C++.
inline constexpr const char* kSignature = "signature.h";
inline constexpr const char* kReferenceSignature = "reference_signature.h";
// The text of the first; that of the second is one of harness_files.
std::string signature_text(const HarnessSpec& spec, const record::ReferenceFacts& facts);

// "model.py:Model", "ref.cpp": file and name; the name of a Python reference is Model where none is said.
std::pair<std::string, std::string> reference_words(const std::string& text);

// Path in the project -> text. `templates` is data/harness.
Result<std::map<std::string, std::string>> harness_files(const HarnessSpec& spec,
                                                         const std::filesystem::path& templates);

// The words of a command line as a shell would cut them, with quotes and backslashes. What only a shell does
// (variables, pipes, redirections, several commands) is refused: commands of a project run without one.
Result<Command> command_words(std::string_view text);

// What a project's own files tell, each empty where they do not.
struct Findings {
  std::string kernel;    // the one file that looks like a kernel
  std::string language;  // of the kernel file
  std::string call;      // its function
  std::string op;        // the name of a pyproject
  Command build, acceptance;
  std::string artifact, standard;
  std::vector<std::string> includes;
};
// `kernel`: the file that the user named; empty: it is looked for.
Findings look_around(const std::filesystem::path& root, const std::string& kernel);

}  // namespace ridge::project
