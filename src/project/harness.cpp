#include "project/harness.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace ridge::project {
namespace {

namespace fs = std::filesystem;

struct FormRow {
  Form form;
  std::string_view name, file, sizes;
  std::size_t count;  // of sizes
};
constexpr FormRow kForms[] = {{Form::kProduct, "product", "product.py", "MxNxK", 3},
                              {Form::kGrouped, "grouped", "grouped.py", "NxK:tokens/tokens/...", 2},
                              {Form::kRows, "rows", "rows.py", "ROWSxCOLUMNS", 2},
                              {Form::kModule, "module", "module.py", "SIZExSIZE...", 0}};

struct LanguageRow {
  std::string_view language, backend;
};
constexpr LanguageRow kLanguages[] = {{"c++", "cpu"},    {"cuda", "cuda"},     {"hip", "hip"},
                                      {"python", "cpu"}, {"triton", "triton"}, {"cutedsl", "cuda"}};

struct TypeRow {
  std::string_view name, torch;
  int least_snr_db;  // that a right kernel reaches with room
};
constexpr TypeRow kTypes[] = {{"f32", "float32", 90}, {"bf16", "bfloat16", 40}, {"f16", "float16", 55}};

const FormRow& row_of(Form form) {
  return *std::find_if(std::begin(kForms), std::end(kForms), [&](const FormRow& row) { return row.form == form; });
}

const TypeRow* find_type(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return r.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

bool is_identifier(std::string_view text) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::ranges::all_of(text, part);
}

// "package.module"
bool is_module(const std::string& text) { return std::ranges::all_of(split(text, '.'), is_identifier); }

std::pair<std::string, std::string> module_and_function(const std::string& call) {
  const std::size_t colon = call.rfind(':');
  return colon == std::string::npos ? std::pair(std::string(), call)
                                    : std::pair(call.substr(0, colon), call.substr(colon + 1));
}

// A basic string of TOML, which is one of Python as well for what can be in it.
std::string toml_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string list_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + toml_text(word);
  return "[" + list + "]";
}

Result<std::vector<std::int64_t>> numbers_of(const std::string& text, char separator, std::int64_t least) {
  std::vector<std::int64_t> numbers;
  for (const std::string& part : split(text, separator)) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < least || value > 1 << 30)
      return invalid("\"{}\" is no list of whole numbers from {} on, separated by {}", text, least, separator);
    numbers.push_back(value);
  }
  return numbers;
}

// "16x3-0" for 16, 16, 16, 0.
std::string counts_text(const std::vector<std::int64_t>& counts) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < counts.size(); i = end) {
    while (end < counts.size() && counts[end] == counts[i]) ++end;
    text += fmt::format("{}{}{}", text.empty() ? "" : "-", counts[i], end - i > 1 ? fmt::format("x{}", end - i) : "");
  }
  return text;
}

Result<HarnessShape> shape_of(const std::string& text, Form form) {
  const FormRow& row = row_of(form);
  const std::size_t equals = text.find('=');
  const auto refused = [&](const std::string& why) {
    return with_hint(invalid("the shape \"{}\" {}", text, why), fmt::format("write LABEL={}", row.sizes));
  };
  if (equals == 0 || equals == std::string::npos) return refused("has no label");
  HarnessShape shape;
  shape.label = text.substr(0, equals);
  if (!is_identifier(shape.label)) return refused("has a label that is no word of letters, digits and _");
  std::string sizes = text.substr(equals + 1);
  if (form == Form::kGrouped) {
    const std::size_t colon = sizes.find(':');
    if (colon == std::string::npos) return refused("does not say how many tokens each group gets");
    RIDGE_TRY(tokens, numbers_of(sizes.substr(colon + 1), '/', 0));
    if (std::ranges::all_of(tokens, [](std::int64_t one) { return one == 0; })) return refused("has no token");
    shape.tokens = std::move(tokens);
    shape.label += ":" + counts_text(shape.tokens);
    sizes.resize(colon);
  }
  RIDGE_TRY(numbers, numbers_of(sizes, 'x', 1));
  if (form != Form::kModule && numbers.size() != row.count)
    return refused(fmt::format("has {} sizes, not {}", numbers.size(), row.count));
  shape.sizes = std::move(numbers);
  return shape;
}

std::string python_shape(const HarnessShape& shape) {
  std::string text = fmt::format("    {}: ({}", toml_text(shape.label), fmt::join(shape.sizes, ", "));
  if (!shape.tokens.empty()) text += fmt::format(", ({},)", fmt::join(shape.tokens, ", "));
  return text + (shape.sizes.size() == 1 ? ",)," : "),");
}

std::string cpp_shape(const HarnessShape& shape) {
  return fmt::format("    {{{}, {{{}}}}},", toml_text(shape.label), fmt::join(shape.sizes, ", "));
}

std::string shape_lines(const std::vector<HarnessShape>& shapes, std::string (*line)(const HarnessShape&)) {
  std::string text;
  for (const HarnessShape& shape : shapes) text += (text.empty() ? "" : "\n") + line(shape);
  return text;
}

// Every "@NAME@" of a template replaced; one that stays is a bug of the template.
std::string filled_template(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    const std::string mark = "@" + name + "@";
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size())
      text.replace(at, mark.size(), value);
  }
  return text;
}

constexpr const char* kPython = "quick_test_bench.py";
constexpr const char* kCpp = "quick_test_bench.cpp";
constexpr const char* kTool = "quick_test_bench";
constexpr const char* kLibrary = "kernel.so";

// Sizes, inputs, outputs, sums and flop of a reference in C++, as a tuple of Python.
std::string python_block(const record::ReferenceBlock& block) {
  std::string inputs, outputs;
  for (const record::ReferenceOperand& one : block.inputs)
    inputs += fmt::format("({}, {}, {}, {}), ", toml_text(one.name), list_of(one.sizes), one.low, one.high);
  for (const record::ReferenceOperand& one : block.outputs)
    outputs += fmt::format("({}, {}), ", toml_text(one.name), list_of(one.sizes));
  return fmt::format("{}, [{}], [{}], {}, {}", list_of(block.sizes), inputs, outputs, list_of(block.sums),
                     list_of(block.flop));
}

Result<std::string> python_text(const HarnessSpec& spec, const fs::path& templates) {
  RIDGE_TRY(frame, read_file(templates / "quick_test_bench.py"));
  RIDGE_TRY(form, read_file(templates / std::string(row_of(spec.form).file)));
  constexpr std::string_view kPlace = "# @FORM@\n";
  const std::size_t place = frame.find(kPlace);
  if (place == std::string::npos) return make_error(ErrorCode::kInternal, "the template has no place for the form");
  frame.replace(place, kPlace.size(), form);
  const auto [module, function] = module_and_function(spec.call);
  const auto [reference_module, reference] =
      spec.form == Form::kModule ? reference_words(spec.reference) : module_and_function(spec.reference);
  std::string labels;
  for (const HarnessShape& shape : spec.shapes) labels += (labels.empty() ? "" : ",") + shape.label;
  const bool own = spec.form == Form::kModule;
  return filled_template(std::move(frame), {{"KERNEL", module.empty() ? function : module + "." + function},
                                            {"WRITER", own ? "ridge workspace init" : "ridge handoff init"},
                                            {"FILE", own ? kModuleHarness : kPython},
                                            {"LABELS", labels},
                                            {"MODULE", toml_text(module)},
                                            {"FUNCTION", toml_text(function)},
                                            {"DTYPE", std::string(find_type(spec.dtype)->torch)},
                                            {"BACKWARD", spec.backward ? "True" : "False"},
                                            {"SHAPES", shape_lines(spec.shapes, python_shape)},
                                            {"CAST", spec.cast ? "True" : "False"},
                                            {"LIBRARY", toml_text(is_library(spec) ? kLibrary : "")},
                                            {"SIGNATURE", python_block(spec.block)},
                                            {"REFERENCE", own ? toml_text(reference) : reference},
                                            {"REFERENCE_NAME", reference},
                                            {"REFERENCE_FILE", toml_text(reference_module)},
                                            {"REFERENCE_FILE_NAME", reference_module},
                                            {"REFERENCE_MODULE", toml_text(reference_module)},
                                            {"REFERENCE_FUNCTION", toml_text(reference)}});
}

Result<std::string> cpp_text(const HarnessSpec& spec, const fs::path& templates) {
  RIDGE_TRY(frame, read_file(templates / "quick_test_bench.cpp"));
  return filled_template(std::move(frame), {{"FUNCTION", spec.call},
                                            {"BACKWARD_FLAG", spec.backward ? "1" : "0"},
                                            {"SHAPES", shape_lines(spec.shapes, cpp_shape)}});
}

Command build_of_tool(const HarnessSpec& spec) {
  Command words;
  const std::string standard = "-std=" + (spec.standard.empty() ? std::string("c++17") : spec.standard);
  if (spec.language == "cuda") {
    words = {"nvcc", standard, "-O3", "-arch=native", "-x", "cu"};
  } else if (spec.language == "hip") {
    words = {"hipcc", standard, "-O3", "-x", "hip"};
  } else {
    words = {"c++", standard, "-O3"};
  }
  for (const std::string& folder : spec.includes) words.push_back("-I" + folder);
  if (is_library(spec)) {
    const std::vector<std::string> shared =
        spec.language == "cuda" ? std::vector<std::string>{"-Xcompiler", "-fPIC"} : std::vector<std::string>{"-fPIC"};
    words.insert(words.end(), shared.begin(), shared.end());
    words.insert(words.end(), {"-shared", "-include", kSignature, "-I.", "-o", kLibrary});
  } else {
    words.insert(words.end(), {"-o", kTool, kCpp});
  }
  words.insert(words.end(), spec.kernel.begin(), spec.kernel.end());
  return words;
}

struct Commands {
  Command build, test, benchmark, reference;
  std::string artifact;
};

Commands commands_of(const HarnessSpec& spec) {
  Commands made;
  if (!python_harness(spec)) {
    made.build = spec.build.empty() ? build_of_tool(spec) : spec.build;
    const std::string tool = std::string("./") + kTool;
    made.test = {tool, "test"};
    made.benchmark = {tool, "bench", "{csv}", "{shapes}", "--seed", "{seed}"};
    made.artifact = spec.artifact.empty() ? kTool : spec.artifact;
    return made;
  }
  const Command run = {"python3", "-B", spec.form == Form::kModule ? kModuleHarness : kPython};
  const auto with = [&](std::initializer_list<std::string> words) {
    Command command = run;
    command.insert(command.end(), words.begin(), words.end());
    return command;
  };
  made.build = spec.build.empty() && is_library(spec) ? build_of_tool(spec) : spec.build;
  made.artifact = spec.artifact.empty() && is_library(spec) ? kLibrary : spec.artifact;
  made.test = with({"--test"});
  made.benchmark = with({"--summary-csv", "{csv}", "--shapes", "{shapes}", "--seed", "{seed}", "--outputs", "{out}"});
  made.reference = with({"--verify", "{out}", "--shapes", "{shapes}", "--seed", "{seed}"});
  return made;
}

bool counts_bytes(Form form) { return form == Form::kRows || form == Form::kModule; }

// The table of a form, as keys of [benchmark].
std::string schema_text(const HarnessSpec& spec) {
  if (!counts_bytes(spec.form)) return "schema = \"gemm\"\n";
  if (!spec.backward) return "schema = \"memory\"\n";
  return "schema = \"custom\"\n"
         "header = \"label,Check,Forward GB/s,Forward GB/s_stddev,Backward GB/s,Backward GB/s_stddev,Forward Time (ms),"
         "Backward Time (ms),out_snr,dx_snr\"\n"
         "metric_column = \"Forward GB/s\"\ntime_column = \"Forward Time (ms)\"\n"
         "backward_metric_column = \"Backward GB/s\"\nbackward_time_column = \"Backward Time (ms)\"\n"
         "metric_unit = 1e9\n";
}

std::string project_text(const HarnessSpec& spec) {
  const Commands commands = commands_of(spec);
  std::string text = fmt::format(
      "# Hands this project to Ridgeline. Written by `ridge {} init`; docs/projects.md explains every key.\n\n"
      "[project]\nop = {}\nlanguage = {}\nbackend = {}\nkernel = {}  # the only files that a campaign may change\n",
      spec.form == Form::kModule ? "workspace" : "handoff", toml_text(spec.op), toml_text(spec.language),
      toml_text(spec.backend.empty() ? backend_of_language(spec.language) : spec.backend), list_of(spec.kernel));
  if (spec.form == Form::kModule)
    text += "leave_out = [\"campaigns\", \"memory\", \"plans\", \"profiles\", \"versions\"]\n";
  if (!commands.artifact.empty()) text += fmt::format("artifact = {}\n", toml_text(commands.artifact));
  if (!spec.device.empty()) text += fmt::format("device = {}\n", toml_text(spec.device));
  if (!spec.branch.empty()) text += fmt::format("branch = {}\n", toml_text(spec.branch));
  if (!spec.constraints.empty()) text += fmt::format("constraints = {}\n", list_of(spec.constraints));
  text += "\n[commands]  # argument lists, run in a private copy of this folder; no shell\n";
  if (!spec.prefix.empty()) text += fmt::format("prefix = {}\n", list_of(spec.prefix));
  if (!commands.build.empty()) text += fmt::format("build = {}\n", list_of(commands.build));
  text +=
      fmt::format("test = {}\ntest_summary = 'passed=(\\d+) failed=(\\d+)'\nbenchmark = {}\nfresh = [\"--fresh\"]\n",
                  list_of(commands.test), list_of(commands.benchmark));
  if (!commands.reference.empty()) text += fmt::format("reference = {}\n", list_of(commands.reference));
  if (!spec.acceptance.empty()) text += fmt::format("acceptance = {}\n", list_of(spec.acceptance));
  std::vector<std::string> labels;
  for (const HarnessShape& shape : spec.shapes) labels.push_back(shape.label);
  text += fmt::format("timeout = 600\n\n[benchmark]\n{}peak = {}  # {}: no time may be shorter than this allows\n",
                      schema_text(spec), spec.peak, counts_bytes(spec.form) ? "GB/s" : "TFLOPS");
  const double least = spec.form == Form::kModule ? std::floor(spec.least_snr_db) : find_type(spec.dtype)->least_snr_db;
  if (least > 0) text += fmt::format("min_snr_db = {}\n", least);
  return text + fmt::format("launches = 9\nshapes = {}\n", list_of(labels));
}

std::string_view c_type(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::string_view> kTypesOfC[] = {
      {"float32", "float"},      {"float64", "double"},     {"float16", "std::uint16_t"}, {"bfloat16", "std::uint16_t"},
      {"int64", "std::int64_t"}, {"int32", "std::int32_t"}, {"int16", "std::int16_t"},    {"int8", "std::int8_t"},
      {"uint8", "std::uint8_t"}, {"bool", "bool"},          {"float", "double"},          {"int", "std::int64_t"}};
  for (const auto& [name, type] : kTypesOfC) {
    if (name == dtype) return type;
  }
  return "void";
}

// "linear.weight" is linear_weight.
std::string c_name(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

std::string reference_signature(const record::ReferenceBlock& block) {
  std::string parameters;
  for (const record::ReferenceOperand& one : block.inputs) parameters += fmt::format("const double* {}, ", one.name);
  for (const record::ReferenceOperand& one : block.outputs) parameters += fmt::format("double* {}, ", one.name);
  for (std::size_t i = 0; i < block.sizes.size(); ++i)
    parameters += fmt::format("{}std::int64_t {}", i == 0 ? "" : ", ", block.sizes[i]);
  return fmt::format("#pragma once\n#include <cstdint>\n\nextern \"C\" void {}({});\n", block.function, parameters);
}

// What the harness calls, and what it compares with.
std::optional<Error> problem_of_call(const HarnessSpec& spec) {
  const auto [module, function] = module_and_function(spec.call);
  if (is_library(spec)) {
    if (is_identifier(function) && module.empty()) return std::nullopt;
    return with_hint(invalid("\"{}\" is no function of C++", spec.call), "for instance --call softmax");
  }
  if (!python_harness(spec)) {
    if (!is_identifier(function) || !module.empty())
      return with_hint(invalid("\"{}\" is no function of C++", spec.call), "for instance --call matmul");
    if (spec.form == Form::kProduct && spec.dtype == "f32") return std::nullopt;
    return with_hint(invalid("the C++ harness is for --form product of f32"),
                     "name a Python function that calls the kernel: --call MODULE:FUNCTION");
  }
  if (!is_module(module) || !is_identifier(function))
    return with_hint(invalid("\"{}\" is no MODULE:FUNCTION of Python", spec.call), "for instance --call kernel:matmul");
  const auto [reference_module, reference] = module_and_function(spec.reference);
  if (spec.form != Form::kRows || (is_module(reference_module) && is_identifier(reference))) return std::nullopt;
  return with_hint(invalid("form rows needs a reference of float64 tensors, in a file that is no kernel"),
                   "for instance --reference reference:softmax");
}

std::optional<Error> problem_of(const HarnessSpec& spec) {
  const auto known = [&](const LanguageRow& row) { return row.language == spec.language; };
  if (std::ranges::none_of(kLanguages, known))
    return invalid("the language \"{}\" is not c++, cuda, hip, python, triton or cutedsl", spec.language);
  if (find_type(spec.dtype) == nullptr) return invalid("the dtype \"{}\" is not f32, bf16 or f16", spec.dtype);
  if (spec.kernel.empty()) return with_hint(invalid("no kernel file"), "name it: --kernel FILE");
  if (spec.shapes.empty()) return with_hint(invalid("no shape"), "name some: --shapes");
  if (!(spec.peak > 0)) return with_hint(invalid("no peak"), "say what the device could do at most: --peak");
  if (const std::optional<Error> problem = problem_of_call(spec)) return problem;
  if (!is_identifier(spec.op)) return invalid("the operator \"{}\" is no word of letters, digits and _", spec.op);
  return std::nullopt;
}

// --- what the project's files tell -----------------------------------------------------------------------------------

std::string language_of(const fs::path& file, const std::string& text) {
  const std::string suffix = file.extension().string();
  if (suffix == ".cu") return "cuda";
  if (suffix == ".hip") return "hip";
  if (suffix == ".py") return text.find("triton") != std::string::npos ? "triton" : "python";
  const bool cpp = suffix == ".cpp" || suffix == ".cc" || suffix == ".cxx" || suffix == ".c++";
  return cpp ? "c++" : "";
}

// The name that begins at `at`.
std::string word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
  return std::string(text.substr(at, end - at));
}

// The last public function at the top level of a Python file that is no kernel of Triton.
std::string python_function(const std::string& text) {
  std::string found;
  bool jit = false;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("@")) jit = jit || line.find("jit") != std::string::npos;
    if (!line.starts_with("def ")) continue;
    const std::string name = word_at(line, 4);
    if (!jit && !name.starts_with("_")) found = name;
    jit = false;
  }
  return found;
}

// The first function without a result that is none of the device's alone, nor a backward pass.
std::string cpp_function(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const bool begins = line.starts_with("void ") || line.starts_with("extern \"C\" void ");
    if (!begins) continue;
    const std::string name = word_at(line, line.find("void ") + 5);
    if (!name.empty() && !name.ends_with("_backward")) return name;
  }
  return {};
}

std::string module_of(const std::string& file) {
  std::string module = fs::path(file).replace_extension().string();
  std::ranges::replace(module, '/', '.');
  return module;
}

// The only source file, or the only one that is called kernel.
std::string only_kernel(const fs::path& root) {
  std::vector<std::string> sources, kernels;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(ignored) || name == kPython || name == kCpp || name == "setup.py") continue;
    if (language_of(entry.path(), "").empty()) continue;
    sources.push_back(name);
    if (entry.path().stem() == "kernel") kernels.push_back(name);
  }
  if (kernels.size() == 1) return kernels.front();
  return sources.size() == 1 ? sources.front() : std::string();
}

// Quoted text after `key =` in a file of TOML, where it stands on one line.
std::string toml_value(const std::string& text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    const std::string_view words = trimmed(line);
    if (!words.starts_with(key) || trimmed(words.substr(key.size())).substr(0, 1) != "=") continue;
    const std::size_t open = words.find('"'), close = words.rfind('"');
    if (open < close) return std::string(words.substr(open + 1, close - open - 1));
  }
  return {};
}

// Words in the brackets of a call in a CMakeLists.txt.
std::vector<std::string> cmake_words(const std::string& text, std::string_view call) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find(call, at)) != std::string::npos;) {
    const std::size_t open = text.find('(', at), close = text.find(')', at);
    if (open == std::string::npos || close == std::string::npos) break;
    std::string inside = text.substr(open + 1, close - open - 1);
    std::ranges::replace(inside, '\n', ' ');
    for (std::string& word : split(inside, ' ')) {
      if (!word.empty()) words.push_back(std::move(word));
    }
    at = close;
  }
  return words;
}

// C++17 or later as CMake writes it; 98 is the oldest.
bool harness_compiles_as(const std::string& standard) {
  return standard.size() == 2 && std::ranges::all_of(standard, [](char c) { return c >= '0' && c <= '9'; }) &&
         standard >= "17" && standard != "98";
}

void read_cmake(const fs::path& root, Findings& found) {
  const Result<std::string> text = read_file(root / "CMakeLists.txt");
  if (!text) return;
  const std::vector<std::string> settings = cmake_words(*text, "set");
  const auto standard = std::ranges::find(settings, "CMAKE_CXX_STANDARD");
  if (standard != settings.end() && standard + 1 != settings.end() && harness_compiles_as(*(standard + 1)))
    found.standard = "c++" + *(standard + 1);
  std::error_code ignored;
  for (const std::string& word : cmake_words(*text, "include_directories")) {
    if (fs::is_directory(root / word, ignored)) found.includes.push_back(word);
  }
}

void read_pyproject(const fs::path& root, Findings& found) {
  std::error_code ignored;
  if (const Result<std::string> text = read_file(root / "pyproject.toml")) {
    found.op = toml_value(*text, "name");
    std::ranges::replace(found.op, '-', '_');
    if (text->find("[tool.pytest") != std::string::npos) found.acceptance = {"python3", "-B", "-m", "pytest", "-q"};
  }
  if (fs::exists(root / "setup.py", ignored)) found.build = {"python3", "setup.py", "build_ext", "--inplace"};
}

}  // namespace

Result<Form> parse_form(std::string_view name) {
  for (const FormRow& row : kForms) {
    if (row.name == name && row.form != Form::kModule) return row.form;
  }
  return invalid("the form \"{}\" is not product, grouped or rows; ridge workspace init takes any module", name);
}

Result<std::vector<HarnessShape>> parse_shapes(std::string_view text, Form form) {
  std::vector<HarnessShape> shapes;
  for (const std::string& part : split(text, ',')) {
    RIDGE_TRY(shape, shape_of(std::string(trimmed(part)), form));
    const auto same = [&](const HarnessShape& one) { return one.label == shape.label; };
    if (std::ranges::any_of(shapes, same)) return invalid("the shape \"{}\" is there twice", shape.label);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::string default_shapes(Form form, bool gpu) {
  switch (form) {
    case Form::kProduct:
      return gpu ? "small=512x512x512,medium=2048x1024x2048,large=4096x4096x4096"
                 : "small=64x64x64,medium=128x96x160,large=256x192x256";
    case Form::kGrouped:
      return gpu ? "even=2048x1024:512/512/512/512,skewed=2048x1024:1536/0/384/128,one=2048x1024:0/2048/0/0"
                 : "even=64x96:32/32/32/32,skewed=64x96:96/0/24/8,one=64x96:0/128/0/0";
    case Form::kRows:
      return gpu ? "tall=65536x256,square=8192x8192,wide=256x131072" : "tall=4096x64,square=512x512,wide=32x8192";
    case Form::kModule: break;
  }
  return {};
}

bool is_python(std::string_view language) {
  return language == "python" || language == "triton" || language == "cutedsl";
}

std::string backend_of_language(const std::string& language) {
  for (const LanguageRow& row : kLanguages) {
    if (row.language == language) return std::string(row.backend);
  }
  return "cpu";
}

bool python_harness(const HarnessSpec& spec) {
  return spec.form == Form::kModule || is_python(spec.language) || spec.call.find(':') != std::string::npos;
}

bool is_library(const HarnessSpec& spec) { return spec.form == Form::kModule && !is_python(spec.language); }

std::pair<std::string, std::string> reference_words(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon != std::string::npos) return {text.substr(0, colon), text.substr(colon + 1)};
  return {text, text.ends_with(".py") ? "Model" : ""};
}

std::string signature_text(const HarnessSpec& spec, const record::ReferenceFacts& facts) {
  const std::string call = spec.call;
  std::string parameters;
  const auto add = [&](const std::string& text) { parameters += (parameters.empty() ? "" : ", ") + text; };
  if (!facts.shapes.empty()) {
    const record::ReferenceShape& shape = facts.shapes.begin()->second;
    for (const auto* operands : {&shape.inputs, &shape.parameters}) {
      for (const record::OperandFacts& one : *operands) {
        const std::string type(c_type(one.dtype));
        add(one.scalar ? fmt::format("{} {}", type, c_name(one.name))
                       : fmt::format("const {}* {}", type, c_name(one.name)));
      }
    }
    for (const record::OperandFacts& one : shape.outputs)
      add(fmt::format("{}* {}", c_type(one.dtype), c_name(one.name)));
  }
  for (const std::string& size : facts.sizes) add("std::int64_t " + size);
  const bool gpu = spec.language == "cuda" || spec.language == "hip";
  if (gpu) add(spec.language == "cuda" ? "cudaStream_t stream" : "hipStream_t stream");
  const std::string runtime =
      gpu ? fmt::format("#include <{}>\n", spec.language == "cuda" ? "cuda_runtime.h" : "hip/hip_runtime.h") : "";
  return fmt::format(
      "// What the harness calls. Written by `ridge workspace init`; the build includes it first: a function of other\n"
      "// parameters is another one, and is not found. Tensors are contiguous; f16 and bf16 are given as their bits.\n"
      "#pragma once\n#include <cstdint>\n{}\nextern \"C\" void {}({});\n",
      runtime, call, parameters);
}

Result<std::map<std::string, std::string>> harness_files(const HarnessSpec& spec, const fs::path& templates) {
  if (const std::optional<Error> problem = problem_of(spec)) return *problem;
  const bool python = python_harness(spec);
  RIDGE_TRY(harness, python ? python_text(spec, templates) : cpp_text(spec, templates));
  const std::string project = project_text(spec);
  RIDGE_TRY(parsed, parse_project(project, "."));
  const char* const name = spec.form == Form::kModule ? kModuleHarness : python ? kPython : kCpp;
  std::map<std::string, std::string> files = {{name, std::move(harness)}, {kProjectFile, project}};
  if (!spec.block.function.empty()) files[kReferenceSignature] = reference_signature(spec.block);
  return files;
}

Result<Command> command_words(std::string_view text) {
  Command words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\'' && (c == '$' || c == '`'))
      return invalid("\"{}\": {} is for a shell, and there is none", text, c);
    if (quote != '\'' && c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      begun = true;
    } else if (quote != 0) {
      if (c != quote) word += c;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
      begun = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (begun) words.push_back(std::move(word));
      word.clear();
      begun = false;
    } else if (std::string_view(";|&<>()").find(c) != std::string_view::npos) {
      return with_hint(invalid("\"{}\": {} is for a shell, and there is none", text, c), "put it into a script");
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote != 0) return invalid("\"{}\": a quote is not closed", text);
  if (begun) words.push_back(std::move(word));
  return words;
}

Findings look_around(const fs::path& root, const std::string& kernel) {
  Findings found;
  read_pyproject(root, found);
  read_cmake(root, found);
  found.kernel = kernel.empty() ? only_kernel(root) : kernel;
  const Result<std::string> text = read_file(root / found.kernel);
  if (found.kernel.empty() || !text) return found;
  found.language = language_of(found.kernel, *text);
  const bool python = found.language == "python" || found.language == "triton";
  const std::string function = python ? python_function(*text) : cpp_function(*text);
  if (!function.empty()) found.call = python ? module_of(found.kernel) + ":" + function : function;
  if (!python) found.build.clear();
  return found;
}

}  // namespace ridge::project
