#include "hardware/lint.h"

#include <functional>

#include "database.h"
#include "hardware/physics.h"

namespace ridge::hardware {
namespace {

TEST(Lint, FindsNothingInTheShippedDatabase) {
  const std::vector<Finding> findings = lint_database(shipped());
  EXPECT_TRUE(findings.empty()) << told(findings);
}

TEST(Lint, PhysicsHasSomethingToCheckOnMostProducts) {
  // A gate that never applies would pass everything: with one unit more, nearly every product with stated peaks breaks.
  int caught = 0, gpus = 0;
  for (Spec spec : shipped().specs()) {
    if (!spec.is_gpu()) continue;
    ++gpus;
    for (Fact& fact : spec.facts) {
      if (fact.metric->name == "compute_units") fact.value.value += 1;
    }
    caught += check_physics(spec).empty() ? 0 : 1;
  }
  EXPECT_EQ(caught, gpus);
}

// One error planted into a copy of the database. `forged`: the page was changed along and its hash renewed, so that
// only physics is left to notice.
struct Planted {
  const char* name;
  const char* file;
  const char* from;
  const char* to;
  const char* rule;  // the rule that must speak
  const char* page = nullptr;
  const char* page_from = nullptr;
  const char* page_to = nullptr;
};

class PlantedError : public testing::TestWithParam<Planted> {};

TEST_P(PlantedError, IsCaught) {
  const Planted& p = GetParam();
  Copy copy;
  copy.replace(p.file, p.from, p.to);
  if (p.page != nullptr) {
    copy.replace(p.page, p.page_from, p.page_to);
    copy.relock();
  }
  const Result<Database> database = copy.open();
  if (!database) {
    EXPECT_STREQ(p.rule, "refused") << database.error().text();
    return;
  }
  const std::vector<Finding> findings = lint_database(*database);
  const bool caught = std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.rule == p.rule; });
  EXPECT_TRUE(caught) << "wanted a finding of " << p.rule << ", got:\n" << told(findings);
}

const char* const kH100 = "hardware/h100-sxm.toml";
const char* const kPage = "wiki/nvidia/h100-whitepaper.md";
const char* const kMi = "hardware/mi300x.toml";
const char* const kMiPage = "wiki/amd/mi300x-datasheet.md";

const Planted kPlanted[] = {
    // sparse as dense
    {"SparseAsDenseBf16", kH100, "matrix_bf16 = { is = \"989.4", "matrix_bf16 = { is = \"1978.9", "citation"},
    {"SparseAsDenseBf16Forged", kH100, "matrix_bf16 = { is = \"989.4", "matrix_bf16 = { is = \"1978.9", "physics",
     kPage, "| matrix_bf16 | 989.4 |", "| matrix_bf16 | 1978.9 |"},
    {"SparseAsDenseFp8Forged", kH100, "matrix_fp8 = { is = \"1978.9", "matrix_fp8 = { is = \"3957.8", "physics", kPage,
     "| matrix_fp8 | 1978.9 |", "| matrix_fp8 | 3957.8 |"},
    {"SparseAsDenseInt8Forged", kMi, "matrix_int8 = { is = \"2614.9", "matrix_int8 = { is = \"5229.8", "physics",
     kMiPage, "| matrix_int8 | 2614.9 |", "| matrix_int8 | 5229.8 |"},
    {"SparseAsDenseTf32Forged", kMi, "matrix_tf32 = { is = \"653.7", "matrix_tf32 = { is = \"1307.4", "physics",
     kMiPage, "| matrix_tf32 | 653.7 |", "| matrix_tf32 | 1307.4 |"},
    {"DenseAsSparseForged", kMi, "matrix_fp16_sparse = { is = \"2614.9", "matrix_fp16_sparse = { is = \"1307.4",
     "physics", kMiPage, "| matrix_fp16_sparse | 2614.9 |", "| matrix_fp16_sparse | 1307.4 |"},
    {"SparseAsDenseDerived", "hardware/h200.toml", "matrix_bf16 = { is = \"989.4", "matrix_bf16 = { is = \"1979",
     "physics"},
    {"SparseAsDenseBlackwell", "hardware/b200.toml", "matrix_fp8 = { is = \"4.5", "matrix_fp8 = { is = \"9", "physics",
     "wiki/derived/b200.md", "| matrix_fp8 | 4.5 |", "| matrix_fp8 | 9 |"},
    // a bandwidth in a field of peaks, and the other way round
    {"BandwidthAsPeak", kMi, "matrix_bf16 = { is = \"1307.4 TFLOPS\"", "matrix_bf16 = { is = \"5.3 TB/s\"", "refused"},
    {"PeakAsBandwidth", kMi, "memory_bandwidth = { is = \"5.3 TB/s\"", "memory_bandwidth = { is = \"5.3 TFLOPS\"",
     "refused"},
    {"TopsInAFlopField", kH100, "matrix_fp8 = { is = \"1978.9 TFLOPS", "matrix_fp8 = { is = \"1978.9 TOPS", "refused"},
    {"FlopsInAnIntegerField", kH100, "matrix_int8 = { is = \"1978.9 TOPS", "matrix_int8 = { is = \"1978.9 TFLOPS",
     "refused"},
    {"CapacityAsBandwidth", kH100, "memory_bandwidth = { is = \"3.35 TB/s", "memory_bandwidth = { is = \"80 GB",
     "refused"},
    {"UnitsAsCores", kH100, "compute_units = { is = \"132 SMs", "compute_units = { is = \"132 cores", "refused"},
    {"BandwidthOfTheRidgeTable", kMi, "matrix_bf16_sparse = { is = \"2614.9", "matrix_bf16_sparse = { is = \"5.3",
     "physics", kMiPage, "| matrix_bf16_sparse | 2614.9 |", "| matrix_bf16_sparse | 5.3 |"},
    // wrong counts
    {"SmCountOfTheFullChip", kH100, "compute_units = { is = \"132", "compute_units = { is = \"144", "citation"},
    {"SmCountForged", kH100, "compute_units = { is = \"132", "compute_units = { is = \"144", "physics", kPage,
     "| compute_units | 132 |", "| compute_units | 144 |"},
    {"SmCountOfTheOtherH100", "hardware/h100-pcie.toml", "compute_units = { is = \"114", "compute_units = { is = \"132",
     "physics", kPage, "| compute_units | 114 |", "| compute_units | 132 |"},
    {"CuCountForged", kMi, "compute_units = { is = \"304", "compute_units = { is = \"320", "physics",
     "wiki/amd/rocm-gpu-specs.md", "| compute_units | 304 |", "| compute_units | 320 |"},
    {"CuCountOfTheSmallerPart", "hardware/mi308x.toml", "compute_units = { is = \"80", "compute_units = { is = \"304",
     "physics", "wiki/amd/aiter-build-targets.md", "| compute_units | 80 |", "| compute_units | 304 |"},
    {"MatrixCoresForged", kH100, "matrix_cores = { is = \"528", "matrix_cores = { is = \"576", "physics", kPage,
     "| matrix_cores | 528 |", "| matrix_cores | 576 |"},
    {"LanesForged", "hardware/a100-80gb.toml", "vector_cores = { is = \"6912", "vector_cores = { is = \"8192",
     "physics", "wiki/nvidia/a100-whitepaper.md", "| vector_cores | 6912 |", "| vector_cores | 8192 |"},
    {"VectorRateAsMatrixRate", "hardware/mi355x.toml", "matrix_fp16 = { is = \"2516.6", "matrix_fp16 = { is = \"157.3",
     "physics", "wiki/amd/mi350-datasheet.md", "| matrix_fp16 | 2516.6 |", "| matrix_fp16 | 157.3 |"},
    // edited, deleted and unregistered pages
    {"EditedPage", "wiki/nvidia/h200-datasheet.md", "| memory_bandwidth | 4.8 |", "| memory_bandwidth | 4.9 |", "page"},
    {"EditedWordOfAPage", "wiki/nvidia/h200-datasheet.md", "- Version: 2024", "- Version: 2025", "page"},
    {"EditedPageAndFact", "hardware/h200.toml", "memory_bandwidth = { is = \"4.8", "memory_bandwidth = { is = \"4.9",
     "citation"},
    {"NoSuchPage", kH100, "nvidia/h100-datasheet.md:", "nvidia/h100-leaflet.md:", "citation"},
    {"NoSuchSection", kH100, "h100-whitepaper.md:H100 SXM5", "h100-whitepaper.md:H100 SXM6", "citation"},
    {"SectionOfAnotherProduct", kH100, "h100-whitepaper.md:H100 SXM5", "h100-whitepaper.md:H100 PCIe", "citation"},
    {"UnregisteredHash", "wiki/pages.sha256", "  nvidia/h200-datasheet.md", "  nvidia/h200-datasheet-old.md", "page"},
    // slipped units
    {"GigabytesForTerabytes", kH100, "3.35 TB/s", "3.35 GB/s", "physics", "wiki/nvidia/h100-datasheet.md",
     "| memory_bandwidth | 3.35 | TB/s |", "| memory_bandwidth | 3.35 | GB/s |"},
    {"MegahertzForGigahertz", kH100, "boost_clock = { is = \"1980 MHz", "boost_clock = { is = \"1980 GHz", "physics",
     kPage, "| boost_clock | 1980 | MHz |", "| boost_clock | 1980 | GHz |"},
    {"KilobytesForMegabytes", kMi, "l2_cache = { is = \"32 MiB", "l2_cache = { is = \"32 KiB", "physics",
     "wiki/amd/rocm-gpu-specs.md", "| l2_cache | 32 | MiB |", "| l2_cache | 32 | KiB |"},
    {"GibibytesPerPin", kMi, "memory_data_rate = { is = \"5.2 Gbit/s", "memory_data_rate = { is = \"2.6 Gbit/s",
     "physics", kMiPage, "| memory_data_rate | 5.2 |", "| memory_data_rate | 2.6 |"},
    {"BusOfOneStack", kMi, "memory_bus_width = { is = \"8192", "memory_bus_width = { is = \"1024", "physics", kMiPage,
     "| memory_bus_width | 8192 |", "| memory_bus_width | 1024 |"},
    {"PetaForTera", "hardware/b200.toml", "matrix_bf16_sparse = { is = \"4.5 PFLOPS",
     "matrix_bf16_sparse = { is = \"4.5 TFLOPS", "physics", "wiki/nvidia/hgx-b200.md",
     "| matrix_bf16_sparse | 4.5 | PFLOPS |", "| matrix_bf16_sparse | 4.5 | TFLOPS |"},
    {"WattsAsKilowatts", kMi, "board_power = { is = \"750 W", "board_power = { is = \"7500 W", "physics", kMiPage,
     "| board_power | 750 |", "| board_power | 7500 |"},
    {"SharedMemoryOfABlock", kH100, "shared_memory_per_unit = { is = \"228", "shared_memory_per_unit = { is = \"227",
     "physics", "wiki/nvidia/cuda-occupancy.md", "| shared_memory_per_unit | 228 |",
     "| shared_memory_per_unit | 227 |"},
    {"RegistersAsBytes", kH100, "register_file_per_unit = { is = \"256 KiB", "register_file_per_unit = { is = \"64 KiB",
     "physics", "wiki/nvidia/cuda-programming-guide.md", "| register_file_per_unit | 256 |",
     "| register_file_per_unit | 64 |"},
    {"ThreadsOfAnotherCapability", "hardware/l40s.toml", "max_threads_per_unit = { is = \"1536",
     "max_threads_per_unit = { is = \"2048", "physics", "wiki/nvidia/cuda-programming-guide.md",
     "| max_threads_per_unit | 1536 |", "| max_threads_per_unit | 2048 |"},
    {"ExtraDigit", kH100, "\"66.9 TFLOPS\"", "\"669 TFLOPS\"", "physics", kPage, "| 66.9 | TFLOPS |",
     "| 669 | TFLOPS |"},
    {"ClockOfMemory", "hardware/a100-40gb.toml", "boost_clock = { is = \"1410", "boost_clock = { is = \"1215",
     "physics", "wiki/nvidia/a100-whitepaper.md", "| boost_clock | 1410 |", "| boost_clock | 1215 |"},
    // hedges, missing facts, evidence, conflicts, names
    {"HedgedUnknown", "hardware/b200.toml", "was found (ridge spec probe reads",
     "is usually found (ridge spec probe reads", "hedge"},
    {"HedgedNote", "hardware/h200.toml", "the nearest step of 15 MHz\"", "approximately the clock of an H100\"",
     "hedge"},
    {"HedgedTilde", "hardware/h200.toml", "the datasheet lists none", "~134", "hedge"},
    {"HedgedPage", "wiki/nvidia/h200-datasheet.md", "Technical Specifications: up to", "should be this much", "hedge"},
    {"MetricLeftOut", "hardware/h20.toml", "board_power = ", "# board_power = ", "missing"},
    {"ReportAsVendor", "hardware/h20.toml", "from = \"third-party/h20-geekbench.md:H20\", evidence = \"third-party\"",
     "from = \"third-party/h20-geekbench.md:H20\"", "evidence"},
    {"DerivedWithWrongFormula", "hardware/l40s.toml", "formula = \"vector_cores / vector_cores_per_unit\"",
     "formula = \"vector_cores / matrix_cores_per_unit\"", "physics"},
    {"ConflictWithoutAReason", "hardware/b200.toml", ", conflict = \"180 GB is what", ", note = \"180 GB is what",
     "conflict"},
    {"AliasOfTwo", "hardware/a100-80gb.toml", "\"A100 SXM 80GB\"", "\"A100 SXM 40GB\"", "name"},
};

INSTANTIATE_TEST_SUITE_P(Lint, PlantedError, testing::ValuesIn(kPlanted),
                         [](const testing::TestParamInfo<Planted>& planted) {
                           return std::string(planted.param.name);
                         });

TEST(PlantedErrors, AreAtLeastForty) { EXPECT_GE(std::size(kPlanted), 40u); }

TEST(Lint, NoticesADeletedPage) {
  Copy copy;
  copy.remove("wiki/nvidia/l40s-datasheet.md");
  const std::vector<Finding> findings = lint_database(copy.open().value());
  const auto deleted = [](const Finding& f) { return f.rule == "page" && f.message == "deleted"; };
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), deleted)) << told(findings);
}

TextLint checked(const std::string& text) { return lint_text(shipped(), "plan.md", text); }

TEST(TextLint, AcceptsCitationsThatHold) {
  const TextLint lint = checked(
      "# Task\n## Hardware Spec\n- memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM\n"
      "* `matrix_bf16: 989.4 TFLOPS <- nvidia/h100-whitepaper.md:H100 SXM5`\nmemory_data_rate: UNKNOWN (nvidia/x.md "
      "not found)\n");
  EXPECT_TRUE(lint.findings.empty()) << told(lint.findings);
  EXPECT_EQ(lint.citations, 2);
  EXPECT_EQ(lint.gaps, std::vector<std::string>{"memory_data_rate"});
}

TEST(TextLint, ResolvesALineOfAPage) {
  const WikiPage& page = shipped().wiki().pages().at("nvidia/h200-datasheet.md");
  const WikiRow& row = page.rows.front();
  const std::string line = row.metric + ": " + row.text + " <- nvidia/h200-datasheet.md:" + std::to_string(row.line);
  EXPECT_TRUE(checked(line).findings.empty());
  const std::string off = row.metric + ": " + row.text + " <- nvidia/h200-datasheet.md:" + std::to_string(row.line + 1);
  EXPECT_FALSE(checked(off).findings.empty());
}

TEST(TextLint, RefusesWhatDoesNotHold) {
  const std::pair<const char*, const char*> wrong[] = {
      {"memory_bandwidth: 4.9 TB/s <- nvidia/h200-datasheet.md:H200 SXM", "citation"},
      {"memory_bandwidth: 4.8 TFLOPS <- nvidia/h200-datasheet.md:H200 SXM", "citation"},
      {"memory_bandwidth: 4800 GB/s <- nvidia/h200-datasheet.md:H200 SXM", "citation"},
      {"memory_bandwidth: 4.8 TB/s <- nvidia/nothing.md:H200 SXM", "citation"},
      {"memory_bandwidth: 4.8 TB/s <- nvidia/h200-datasheet.md", "citation"},
      {"memory_speed: 4.8 TB/s <- nvidia/h200-datasheet.md:H200 SXM", "citation"},
      {"matrix_bf16: 1979 TFLOPS <- nvidia/h200-datasheet.md:H200 SXM", "citation"},
      {"## Hardware Spec\nThe bandwidth is 4.8 TB/s.", "unregistered"},
      {"## Hardware Spec\nmemory: 141GB", "unregistered"},
      {"## Hardware Spec\n132 SMs at full clock", "unregistered"},
      {"## Hardware Spec\nThe clock is usually high", "hedge"},
      {"## Hardware Spec\nvalues of a similar product", "hedge"},
  };
  for (const auto& [text, rule] : wrong) {
    const TextLint lint = checked(text);
    ASSERT_EQ(lint.findings.size(), 1u) << text << "\n" << told(lint.findings);
    EXPECT_EQ(lint.findings.front().rule, rule) << text;
  }
}

TEST(TextLint, LeavesOtherTextAlone) {
  const TextLint lint =
      checked("# Result\nWe reach 700.3 TFLOPS, usually.\nNote: a <- b\n## Hardware Spec\n## Plan\n4.8 TB/s\n");
  // "Note: a <- b" has the form of a citation and cites nothing.
  ASSERT_EQ(lint.findings.size(), 1u) << told(lint.findings);
  EXPECT_EQ(lint.findings.front().line, 3);
}

}  // namespace
}  // namespace ridge::hardware
