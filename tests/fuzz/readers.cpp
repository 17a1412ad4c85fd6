#include "fuzz/readers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/large_file.h"
#include "base/visible.h"
#include "campaign/manifest.h"
#include "campaign/plausible.h"
#include "campaign/verify.h"
#include "fuzz/structure.h"
#include "hardware/quantity.h"
#include "hardware/spec.h"
#include "inspect/amdgpu.h"
#include "inspect/cubin.h"
#include "inspect/elf.h"
#include "inspect/fatbin.h"
#include "journal/fold.h"
#include "profile/capture.h"
#include "project/bench_csv.h"
#include "project/project.h"
#include "record/agent.h"
#include "record/campaign_block.h"
#include "record/case_list.h"
#include "record/expression.h"
#include "record/journal.h"
#include "record/json.h"
#include "record/kernel_description.h"
#include "record/kernel_pack.h"
#include "record/launch_plan.h"
#include "record/mcp.h"
#include "record/progress.h"
#include "record/promotion.h"
#include "record/reference.h"
#include "record/scope.h"
#include "record/signature.h"
#include "record/tunables.h"
#include "record/tuning_cache.h"
#include "record/tuning_replay.h"
#include "record/tuning_store.h"
#include "record/web.h"
#include "record/worker.h"
#include "report/report.h"

namespace ridge::fuzz {
namespace {

namespace fs = std::filesystem;

void demand(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "fuzz: {}\n", what);
  std::abort();
}

bool read_json(std::string_view text) {
  const Result<Json> value = parse_json(text);
  if (!value)
    return demand(visible(value.error().message) == value.error().message, "an error steers the terminal"), false;
  const Result<Json> again = parse_json(dump_json(*value));
  demand(again && dump_json(*again) == dump_json(*value), "JSON is not the same when it is written and read again");
  return true;
}

bool read_msgpack(std::string_view text) {
  const Result<Json> value = parse_msgpack(text);
  if (value) (void)dump_json(*value);
  return value.ok();
}

// A record, and that it is the same when it is written and read again.
template <class T>
bool read_record(std::string_view text) {
  const Result<T> value = record::parse_record<T>(text, "record");
  if (!value) return false;
  const std::string line = record::to_line(*value);
  const Result<T> again = record::parse_record<T>(line, "record");
  demand(again && record::to_line(*again) == line, "a record is not the same when it is written and read again");
  return true;
}

bool read_progress(std::string_view text) {
  return record::parse_progress(text, "progress.json").ok() && read_record<record::CampaignProgress>(text);
}

// Events as `ridge campaign verify`, `replay`, `report` and `status` read them.
bool read_journal(std::string_view text) {
  (void)record::parse_journal(text);
  const std::string chained = chained_anew(text);
  const Result<record::JournalText> journal = record::parse_journal(chained);
  demand(journal.ok() && journal->torn_bytes == 0, "a journal that was chained anew is refused");
  if (journal->events.empty()) return false;
  std::int64_t sessions = 0, unstamped = 0;
  (void)campaign::implausible_lines(journal->events, sessions, unstamped);
  (void)campaign::replay_events(journal->events);
  if (const Result<report::Model> model = report::fold(journal->events)) {
    (void)report::status_text(*model);
    (void)report::markdown(*model);
    (void)report::html(*model);
  }
  return journal::fold(journal->events).ok();
}

bool read_spec(std::string_view text) { return hardware::parse_spec("fuzz.toml", text).ok(); }
bool read_quantity(std::string_view text) { return hardware::parse_quantity(text).ok(); }
bool read_project(std::string_view text) { return project::parse_project(text, "/nonexistent").ok(); }

bool read_manifest(std::string_view text) {
  const Result<record::CampaignSpec> spec = campaign::parse_manifest(text);
  if (!spec) return false;
  (void)campaign::validate_spec(*spec);
  const std::string written = campaign::render_manifest(*spec);
  const Result<record::CampaignSpec> again = campaign::parse_manifest(written);
  demand(again.ok(), "a manifest cannot be read again");
  return true;
}

// Everything that a kernel's source says of itself.
bool read_candidate(std::string_view text) {
  const bool scope = record::parse_scope(text).ok();
  const bool space = record::parse_tunables(text).ok();
  const bool plan = record::parse_launch_plan(text).ok();
  const bool block = record::parse_campaign_block(text).ok();
  return scope && space && plan && block;
}

// A message of an agent. What is said of a damaged one goes out as JSON again.
bool read_message(std::string_view text) {
  const std::variant<record::McpRequest, record::McpFault> message = record::read_mcp(text);
  const auto* fault = std::get_if<record::McpFault>(&message);
  if (fault == nullptr) return true;
  demand(parse_json(record::mcp_error(*fault)).ok(), "an answer to a damaged message is no JSON");
  return false;
}

bool read_tuning(std::string_view text) {
  const bool cache = record::parse_tuning_cache(text).ok();
  const bool lines = record::parse_tuning_runs(text).ok() || record::parse_tuning_store(text).ok();
  return record::parse_tuning_problem(text).ok() || cache || lines;
}

// What a reference of a workspace says of itself: its operands have no other sizes than those it names.
bool read_reference(std::string_view text) {
  const Result<record::ReferenceBlock> block = record::parse_reference_block(text);
  if (!block)
    return demand(visible(block.error().message) == block.error().message, "an error steers the terminal"), false;
  for (const auto* operands : {&block->inputs, &block->outputs}) {
    for (const record::ReferenceOperand& one : *operands) {
      for (const std::string& size : one.sizes)
        demand(std::ranges::count(block->sizes, size) == 1, "an operand has a size that is not named");
      demand(one.low <= one.high, "an operand is drawn from nothing");
    }
  }
  return true;
}

// A kernel's description, and that a configuration that is added to it is there.
bool read_description(std::string_view text) {
  const auto kernel = record::parse_kernel(text);
  if (!kernel || !*kernel) return false;
  demand(record::text_without_configs(text).ok(), "a description loses no lines");
  record::KernelConfig config{.name = "added_by_fuzz", .values = (*kernel)->configs.front().values, .promoted = "x"};
  const auto refused = record::text_with_config(text, config);
  demand(!refused, "a configuration stands twice");
  return true;
}

bool read_expression(std::string_view text) {
  const std::string expression(text.substr(0, 4096));
  const Result<std::vector<std::string>> names = record::expression_variables(expression);
  if (!names) return false;
  record::Variables variables;
  for (const std::string& name : *names) variables[name] = static_cast<std::int64_t>(variables.size()) - 1;
  (void)record::evaluate(expression, variables);
  return true;
}

bool read_cases(std::string_view text) {
  const Result<record::Case> one = record::parse_case(text);
  std::vector<std::string> words;
  std::string rest(text.substr(0, 4096));
  for (std::size_t at = 0; at < rest.size() && words.size() < 12;) {
    const std::size_t end = std::min(rest.find(' ', at), rest.size());
    words.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
  (void)record::expand_cases("gemm", words);
  return one.ok();
}

bool read_code(std::string_view text) {
  const auto images = inspect::read_fatbin(text);
  const bool fatbin = images && !images->empty();  // a file without any is no error
  const Result<inspect::Elf> elf = inspect::parse_elf(text);
  if (!elf) return fatbin;
  (void)inspect::read_cubin(*elf);
  (void)inspect::read_amdgpu(*elf);
  return true;
}

// Both were read for ever: a header of no bytes, and an image whose bytes count round to its beginning.
std::string fat_binary(std::uint16_t header, std::uint64_t size, std::uint64_t image) {
  std::string bytes(16 + 80, '\0');
  const auto put = [&bytes](std::size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, std::uint32_t{0xba55ed50});
  put(6, header);
  put(8, size);
  put(16, std::uint16_t{2});
  put(20, std::uint32_t{64});
  put(24, image);
  return bytes;
}

bool read_profile(std::string_view text) {
  bool any = profile::parse_capture(text, "").ok();
  for (auto* reader : {profile::parse_ncu, profile::parse_cupti, profile::parse_rocprofv3,
                       profile::parse_rocprof_compute, profile::parse_perf}) {
    any = reader(text).ok() || any;
  }
  return any;
}

constexpr const char* kTableHeader = "label,Check,tflops,latency_ms,out_snr";

bool read_table(std::string_view text) {
  project::Project project;
  project.header = kTableHeader;
  project.metric_column = "tflops";
  project.time_column = "latency_ms";
  return project::read_bench_table(text, project).ok();
}

// A file in memory, because the code of a kernel is read from the file; digests are made good first.
bool read_pack(std::string_view text) {
  static const int file = ::memfd_create("pack", 0);
  const fs::path path = fmt::format("/proc/self/fd/{}", file);
  demand(::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) == std::ssize(text),
         "no file in memory");
  const Result<std::string> head = record::read_pack_head(path);
  if (!head) return false;
  const Result<record::KernelPack> pack = record::parse_pack(*head, path.string());
  if (!pack) return false;
  for (record::PackedKernel kernel : pack->kernels) {
    (void)record::find_packed(*head, kernel.key);
    const auto rest = static_cast<std::int64_t>(text.size() - head->size());
    const bool inside =
        kernel.offset >= 0 && kernel.bytes >= 0 && kernel.bytes <= rest && kernel.offset <= rest - kernel.bytes;
    if (inside) {
      kernel.sha256 = sha256(
          text.substr(head->size() + static_cast<std::size_t>(kernel.offset), static_cast<std::size_t>(kernel.bytes)));
    }
    demand(record::read_packed(path, head->size(), kernel).ok() == inside,
           "code that lies in the file is not read, or other is");
  }
  return true;
}

std::vector<Reader> make_readers() {
  const std::string request = record::to_line(record::WorkerRequest{}), answer = record::to_line(record::AgentAnswer{});
  const std::string packed = {'\x82', '\xa1', 'a', '\x01', '\xa1', 'b', '\x92', '\xff', '\xcd', '\x01', '\x00'};
  record::KernelPack one;
  one.kernels.resize(1);
  one.kernels[0].key = "aa11";
  const std::string pack = record::pack_text(one, {"code"});
  std::string far = pack;  // its place and its size add up to more than 64 bits hold
  constexpr std::string_view kPlace = "\"offset\":0";
  far.replace(far.find(kPlace), kPlace.size(), "\"offset\":9223372036854775807");
  return {
      {"json",
       "any JSON text",
       read_json,
       {{"docs/schema", ".json"}},
       {"{\"a\":[1,2.5e3,null,true,\"\\u001b\"]}", "[]"},
       true},
      {"msgpack", "metadata of a code object", read_msgpack, {}, {packed}},
      {"journal",
       "events of a campaign, and the story they tell",
       read_journal,
       {{"campaigns", "journal.jsonl"}},
       {},
       true,
       thinned_journal},
      {"hardware", "a hardware spec", read_spec, {{"data/hardware", ".toml"}}, {}},
      {"quantity", "a number with its unit", read_quantity, {}, {"989.4 TFLOPS", "3.35 TB/s", "50 MiB", "1.83 GHz"}},
      {"project", "ridge-project.toml", read_project, {{"examples", "ridge-project.toml"}}, {}},
      {"manifest", "manifest.yaml", read_manifest, {{"campaigns", "manifest.yaml"}}, {}},
      {"candidate",
       "what a kernel says of itself",
       read_candidate,
       {{"data/candidates", ".cpp"}, {"data/candidates", ".cu"}},
       {}},
      {"kernel",
       "the description of a kernel of the library",
       read_description,
       {{"src/ops", ".cpp"}, {"src/ops", ".cu"}},
       {"/* ridge-kernel\nop = \"gemm\"\n[configs]\ndefault = { }\nb = { MR = 2, promoted = \"x, 2x\" } # one\n"
        "[variants]\nnt = { KIND = \"kK\", N = 1 }\n*/\n"
        "/* ridge-tunables\n[[tunable]]\nname = \"MR\"\nvalues = [1, 2]\ndefault = 1\ntitle = \"rows\"\n"
        "[[constraint]]\nexpression = \"MR < 3\"\nreason = \"why\"\n*/\n"}},
      {"reference",
       "what a reference in C++ says of itself",
       read_reference,
       {},
       {"/* ridge-reference\nfunction = \"scaled\"\nsizes = [\"rows\", \"columns\"]\n"
        "inputs = [\"x: rows columns\", \"scale: columns in 0.5 2\"]\noutputs = [\"out: rows columns\"]\n"
        "sums = \"columns\"\nflop = \"5 rows columns\"\n*/\nvoid scaled(const double* x);\n"}},
      {"expression",
       "an expression of a scope, a launch plan or a constraint",
       read_expression,
       {},
       {"ceil_div(m, 128) * (n + 3) % 7", "a <= b && c != 0", "min(a, max(b, 1))"}},
      {"case",
       "cases of the command line",
       read_cases,
       {},
       {"gemm m=512 n=512 k=64:512x2 dtype=bf16", "m=1,2 n=4..64x2"}},
      {"code",
       "ELF, cubins, fat binaries, AMD code objects",
       read_code,
       {{"tests/inspect/objects", ".co"}},
       {fat_binary(0, 0, 0), fat_binary(16, 80, std::uint64_t{0} - 64)}},
      {"profile", "reports of profilers", read_profile, {{"tests/profile/reports", ".csv"}}, {}},
      {"table",
       "a project's benchmark table",
       read_table,
       {},
       {std::string(kTableHeader) + "\r\n\"a\",PASS,1.5,0.5,90\r\n"}},
      {"request", "the worker's request", read_record<record::WorkerRequest>, {}, {request}, true},
      {"answer", "a proposer's answer", read_record<record::AgentAnswer>, {}, {answer}, true},
      {"message",
       "a message of the Model Context Protocol",
       read_message,
       {},
       {R"({"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"check","arguments":{"case":["m=8",8],"all":true},"_meta":{"progressToken":7}}})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}})"},
       true},
      {"tuning",
       "recorded measurements of a tuner",
       read_tuning,
       {},
       {R"({"recording":"a","strategy":"b","seed":1,"rows":[17,4]})",
        R"({"version":1,"kernel":"k","device":"d","configuration":{"b":"8"},"seconds":0.5,"cost":2})",
        R"({"device_name":"d","kernel_name":"k","tune_params_keys":["b"],"tune_params":{"b":[32,64,128]},"objective":"time","cache":{"32":{"b":32,"time":2.0},"64":{"b":64,"time":"RuntimeFailedConfig"},"128":{"b":128,"time":1.5}}})",
        R"({"schema_version":"1.0.0","metadata":{"timeunit":"miliseconds"},"results":[{"configuration":{"b":8},"times":{"compilation":9,"framework":1,"runtimes":[2]},"invalidity":"correct","measurements":[{"name":"time","value":0.5}],"objectives":["time"]},{"configuration":{"b":16},"times":{"compilation":9,"framework":1,"runtimes":[2]},"invalidity":"correct","measurements":[{"name":"time","value":0.25}],"objectives":["time"]}]})"}},
      {"pack", "a kernel pack", read_pack, {}, {pack, far}, true},
      {"promotion",
       "what a promotion says of itself, and files of a killed one",
       [](std::string_view text) {
         return read_record<record::Promotion>(text) || read_record<record::PendingEdits>(text);
       },
       {},
       {record::to_line(record::Promotion{.edits = {{"a", "b", "c", true}}}),
        record::to_line(record::PendingEdits{.files = {{"a", true, "b"}}})},
       true},
      {"signature",
       "a line of signatures.jsonl",
       read_record<record::Signature>,
       {},
       {record::to_line(record::Signature{})},
       true},
      {"progress",
       "progress.json of a campaign",
       read_progress,
       {},
       {record::to_line(record::CampaignProgress{}), R"({"version":2,"mood":"fine"})"},
       true},
      {"control",
       "what a page asks of a campaign",
       read_record<record::ControlRequest>,
       {},
       {R"({"budget":"5m","max_iterations":3})"},
       true},
  };
}

}  // namespace

std::span<const Reader> readers() {
  static const std::vector<Reader> table = make_readers();
  return table;
}

const Reader* find_reader(std::string_view name) {
  const auto found =
      std::find_if(readers().begin(), readers().end(), [&](const Reader& one) { return name == one.name; });
  return found == readers().end() ? nullptr : &*found;
}

std::vector<std::string> seeds_of(const Reader& reader, const fs::path& repository, std::size_t most_bytes) {
  std::vector<fs::path> paths;
  for (const Reader::Seeds& seeds : reader.files) {
    std::error_code error;
    for (fs::recursive_directory_iterator it(repository / seeds.folder, error), end; !error && it != end;
         it.increment(error)) {
      if (it->is_regular_file(error) && it->path().string().ends_with(seeds.ending)) paths.push_back(it->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> found = reader.texts;
  for (const fs::path& path : paths) {
    Result<std::string> text = read_file_up_to(path, kJournalBytes);
    if (!text) continue;
    if (reader.thinned != nullptr) *text = reader.thinned(*text);
    if (text->size() > most_bytes) {
      const std::size_t line = text->rfind('\n', most_bytes);
      text->resize(line == std::string::npos ? most_bytes : line + 1);
    }
    found.push_back(std::move(*text));
  }
  return found;
}

}  // namespace ridge::fuzz
