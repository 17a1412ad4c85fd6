// Keys, traces, ledgers, scanners and the arithmetic of scores.
#include "campaign/transfer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "campaign/scan.h"
#include "campaign/score.h"
#include "campaign/skew.h"
#include "knowledge/tips.h"
#include "stats/summary.h"
#include "world.h"

namespace ridge::campaign::test {
namespace {

// The worked example of the written rules, to the last digit.
// A shape whose forward and backward passes run at these rates, in TFLOPS, as a matrix product's do: 2 to 4 units of
// work.
record::RooflinePoint shape_at(double forward, double backward) {
  record::RooflinePoint point;
  point.directions = {{"forward", {2e12, 0}, 0, 2 / forward}, {"backward", {4e12, 0}, 0, 4 / backward}};
  return point;
}

// The worked example of the written rules, to the last digit.
TEST(Score, IsTheWorkedExample) {
  const double forward[] = {320, 305, 290}, backward[] = {160, 152, 145};
  const double wanted[] = {192.0, 182.51968503937007, 174.0};
  std::vector<record::RooflinePoint> points;
  for (int i = 0; i < 3; ++i) {
    points.push_back(shape_at(forward[i], backward[i]));
    EXPECT_NEAR(step_score({points.back()}, {}).step, wanted[i], 1e-9) << i;
    EXPECT_NEAR(wanted[i], 6 / (2 / forward[i] + 4 / backward[i]), 1e-9);
  }
  const StepScore score = step_score(points, {});
  EXPECT_NEAR(score.step, std::cbrt(192.0 * 182.51968503937007 * 174.0), 1e-9);
  EXPECT_NEAR(score.step, 182.69, 0.005);
  EXPECT_NEAR(score.forward, std::cbrt(320.0 * 305.0 * 290.0), 1e-9);
  EXPECT_NEAR(score.backward, std::cbrt(160.0 * 152.0 * 145.0), 1e-9);
  EXPECT_NEAR(score.forward_peak, 320, 1e-9);
  EXPECT_NEAR(score.backward_peak, 160, 1e-9);
  EXPECT_NEAR(step_score({shape_at(285.0, 140.0)}, {}).step, 168.59154929577466, 1e-9);
  const StepScore now{304.8, 152.2, 182.69}, baseline{285.0, 140.0, 168.59};  // as the example rounds them
  EXPECT_EQ(versus_baseline(now, baseline), "step +8.363%, fwd +6.947%, bwd +8.714%");
  EXPECT_EQ(versus_baseline({500, std::nan(""), 500}, {400, std::nan(""), 400}), "step +25.000%, fwd +25.000%, bwd —");
}

TEST(Score, GivesTheTrendOfTheWrittenRules) {
  const struct {
    double forward, backward, step, change;
  } rows[] = {{500, 250, 300.0, 0}, {520, 258, 310.0772, 3.359}, {480, 240, 288.0, -4.0}, {550, 272, 327.1137, 9.038}};
  for (const auto& row : rows) {
    const double step = step_score({shape_at(row.forward, row.backward)}, {}).step;
    EXPECT_NEAR(step, row.step, 5e-4);
    EXPECT_NEAR(percent_change(step, 300.0), row.change, 5e-4);
  }
}

TEST(Score, AShapeWithoutABackwardPassLeavesNoMeanOfTheOthers) {
  record::RooflinePoint forward_only = shape_at(100, 50);
  forward_only.directions.pop_back();
  const StepScore score = step_score({shape_at(100, 50), forward_only}, {});
  EXPECT_TRUE(std::isnan(score.backward));
  EXPECT_NEAR(score.forward, 100, 1e-9);
  EXPECT_EQ(score_text(4.25e-6), "4.25e-06");
  EXPECT_EQ(score_text(0.1503), "0.150");
  EXPECT_EQ(score_text(std::nan("")), "-");
}

TEST(Score, BoundsAreWhatStructureAllows) {
  EXPECT_NEAR(weight_cache_bound(30e-6, 2e-3), 0.015, 1e-9);
  EXPECT_TRUE(std::isnan(weight_cache_bound(1, 0)));
  EXPECT_NEAR(amdahl_speedup(0.5, INFINITY), 2.0, 1e-9);
  EXPECT_NEAR(amdahl_speedup(0.25, 2.0), 1 / 0.875, 1e-9);
  EXPECT_NEAR(amdahl_speedup(0.0, 100.0), 1.0, 1e-9);
  EXPECT_TRUE(std::isnan(stats::geomean(std::array{1.0, std::nan("")})));
  EXPECT_TRUE(std::isnan(stats::geomean(std::array{1.0, 0.0})));
  EXPECT_TRUE(std::isnan(stats::geomean(std::span<const double>())));
}

TEST(Transfer, OnlyAWeightWithItsVersionAndLayoutIsAKey) {
  EXPECT_EQ(refuse_key({"id(weight)", "weight._version", "shape"}), "");
  EXPECT_EQ(refuse_key({"weight.data_ptr()", "weight._version", "dtype", "shape"}), "");
  EXPECT_NE(refuse_key({"id(weight)", "shape"}).find("no version"), std::string::npos);
  EXPECT_NE(refuse_key({"weight._version", "shape"}), "");
  EXPECT_NE(refuse_key({"id(weight)", "weight._version"}), "");
  // A version, shape or dtype beside it does not rescue the identity of an activation.
  EXPECT_NE(refuse_key({"id(weight)", "weight._version", "shape", "id(activation)"}).find("new in every"),
            std::string::npos);
  EXPECT_NE(refuse_key({"x._version", "shape"}), "");
  EXPECT_NE(refuse_key({"id(weight_scale)", "weight._version", "shape"}), "");
  EXPECT_NE(refuse_key({"step_counter"}), "");
  EXPECT_NE(refuse_key({}), "");
}

TEST(Transfer, FourStepsOfTrainingHitAWeightOncePerStepAndAnActivationNever) {
  const KeyTrace weight = trace_key({"id(weight)", "weight._version", "shape"}, kTraceSteps);
  EXPECT_EQ(weight.lookups, 8);
  EXPECT_EQ(weight.hits, 4);  // the backward call finds the entry of the forward call
  EXPECT_GE(weight.hit_rate(), kLeastHitRate);
  for (const char* part :
       {"id(activation)", "id(grad_out)", "id(x_scale)", "weakref(a)", "a._version", "step_counter"}) {
    const KeyTrace trace = trace_key({part, "shape"}, kTraceSteps);
    EXPECT_EQ(trace.hits, 0) << part;
    EXPECT_LT(trace.hit_rate(), kLeastHitRate);
  }
  const KeyTrace eight = trace_key({"id(weight)", "weight._version", "shape"}, kSimulationSteps);
  EXPECT_EQ(eight.weight_hits, 8);
  EXPECT_EQ(eight.tensor_hits, 0);
}

TEST(Transfer, TheDecisionIsDerivedAndNeverTyped) {
  EXPECT_EQ(transfer_decision("K2", true, false, true), TransferDecision::kReal);
  EXPECT_EQ(transfer_decision("K2", true, false, false), TransferDecision::kOverfit);  // uniform loads only
  EXPECT_EQ(transfer_decision("W1", true, true, true), TransferDecision::kAsterisk);
  EXPECT_EQ(transfer_decision("W1", true, false, true), TransferDecision::kOverfit);  // no bound, no asterisk
  EXPECT_EQ(transfer_decision("W1", false, true, true), TransferDecision::kOverfit);
  for (const char* bucket : {"W2", "W3", "", "K5", "ACCEPT-as-real"}) {
    EXPECT_EQ(transfer_decision(bucket, true, true, true), TransferDecision::kOverfit) << bucket;
  }
}

TEST(Ledger, GainsCompoundAndAWeightCacheIsCapped) {
  const Ledger ledger = add_up({{2, "K1", 1.10, {}}, {3, "K3", 1.20, {}}, {4, "W1", 1.30, 0.015}});
  EXPECT_NEAR(ledger.structural, 1.32, 1e-9);
  EXPECT_NEAR(ledger.weight, 1.015, 1e-9);
  EXPECT_NEAR(ledger.headline, 1.716, 1e-9);
  EXPECT_NEAR(ledger.sum_percent, 60.0, 1e-9);
  EXPECT_NEAR(ledger.gap_percent(), 100 * (1.716 / (1.32 * 1.015) - 1), 1e-9);
  EXPECT_EQ(ledger.verdict(), "inflated");
  EXPECT_EQ(add_up({{2, "K1", 1.5, {}}}).verdict(), "clean");
  EXPECT_EQ(add_up({{2, "W2", 1.5, {}}}).verdict(), "rolled-back");
  EXPECT_EQ(add_up({}).verdict(), "clean");
}

record::Candidate with_source(const std::string& text, const std::string& path = "kernel.cpp") {
  record::Candidate candidate = make_candidate(100);
  candidate.sources = {{path, text}};
  return candidate;
}

TEST(Scan, CommentsAndBlanksAreNoChange) {
  const record::Candidate a =
      with_source("int f() { return 1; }  // one\n/* old */\nconst char* s = \"// no comment\";\n");
  EXPECT_EQ(meaning_of(a), meaning_of(with_source("int f() {   return 1; }\n\nconst char* s = \"// no comment\";")));
  EXPECT_NE(meaning_of(a), meaning_of(with_source("int f() { return 2; }\nconst char* s = \"// no comment\";")));
  EXPECT_NE(meaning_of(a), meaning_of(with_source("int f() { return 1; }\nconst char* s = \"//no comment\";")));
  EXPECT_NE(meaning_of(with_source("/* ridge-tunables\nvalues = [1, 2] */ int x;")),
            meaning_of(with_source("/* ridge-tunables\nvalues = [1, 3] */ int x;")));
  EXPECT_NE(meaning_of(with_source("if a:\n  b()\n", "k.py")), meaning_of(with_source("if a:\n    b()\n", "k.py")));
}

TEST(Scan, FindsWhatRemembersATensorAndOnlyThat) {
  const record::Candidate before = with_source("int f();\n");
  for (const char* line :
       {"static std::unordered_map<const void*, float*> cache;", "thread_local std::map<long, int> seen;",
        "static const float* last_input = nullptr;", "static const void *previous;", "key = (id(x), x.shape)",
        "cache[x.data_ptr()] = q", "r = weakref.ref(a)", "@functools.lru_cache", "if w._version == v:"}) {
    EXPECT_EQ(find_identity_memory(before, with_source("int f();\n" + std::string(line) + "\n")).size(), 1u) << line;
  }
  for (const char* line :
       {"static constexpr int table[4] = {1, 2, 3, 4};", "static float buffer[4096];",
        "static const char* kName = \"map\";", "static int multiply(const float* a, const float* b) {",
        "int width(int grid)", "static_assert(sizeof(x) == 4);", "// static std::map<const void*, int> cache;",
        "valid(x);", "thread_local alignas(64) float panel[256];"}) {
    EXPECT_TRUE(find_identity_memory(before, with_source("int f();\n" + std::string(line) + "\n")).empty()) << line;
  }
  // What was there before is not held against the change.
  const record::Candidate old = with_source("static std::map<int, int> table;\n");
  EXPECT_TRUE(find_identity_memory(old, with_source("static  std::map<int, int> table; // moved\nint g();\n")).empty());
}

// Caches of a Python project's quantised activations, each as somebody would write it.
TEST(Scan, FindsPythonCachesThatAskATensorForItsHash) {
  const record::Candidate before = with_source("import torch\n", "kernel.py");
  const char* const cheats[] = {
      "_codes = collections.OrderedDict()",
      "from collections import OrderedDict as Table",
      "if x.__hash__() in _codes:",
      "key = object.__hash__(x)",
      "key = (hash(x), tuple(x.shape))",
      "@functools.cache",
      "    @ft.cache",
      "from functools import wraps, cache",
      "from functools import *",
      "quantise = functools.cache(quantise)",
      "quantise = ft.cache(quantise)",
      "quantise = getattr(functools, 'cache')(quantise)",
      "@cache",
  };
  for (const char* line : cheats) {
    const record::Candidate after = with_source("import torch\n" + std::string(line) + "\n", "kernel.py");
    EXPECT_EQ(find_identity_memory(before, after).size(), 1u) << line;
  }
  for (const char* line :
       {"# @functools.cache would key on the tensor", "note = 'hash(x)'", "import functools", "x = rehash(7)",
        "@triton.autotune(configs=CONFIGS, key=['M', 'N'])", "@functools.wraps(f)", "@cached_property",
        "from functools import partial", "torch.cuda.empty_cache()", "cache_modifier = '.cg'"}) {
    const record::Candidate after = with_source("import torch\n" + std::string(line) + "\n", "kernel.py");
    EXPECT_TRUE(find_identity_memory(before, after).empty()) << line;
  }
  // An integer hash of a C++ kernel (a random number generator's) is none of a tensor.
  EXPECT_TRUE(find_identity_memory(with_source(""), with_source("unsigned u = hash(row);\n")).empty());
  EXPECT_EQ(cache_words("an OrderedDict keyed by x.__hash__(), behind functools.cache").size(), 3u);
}

TEST(Scan, FindsBakedInLoads) {
  const record::Candidate before = with_source("");
  for (const char* line : {"static_assert(M_per_group % BLOCK_M == 0);", "constexpr int M_per_group = 4096;",
                           "assert(tokens > 0);", "M_per_group: tl.constexpr"}) {
    EXPECT_EQ(find_baked_in_load(before, with_source(line)).size(), 1u) << line;
  }
  for (const char* line : {"constexpr int BLOCK_M = 128;", "int rows = tokens[g];", "static_assert(BLOCK_M > 0);"}) {
    EXPECT_TRUE(find_baked_in_load(before, with_source(line)).empty()) << line;
  }
}

TEST(Scan, ReadsTheInterface) {
  EXPECT_EQ(exported_names(with_source("extern \"C\" int ridge_kernel(const ridge_call* call) {")),
            (std::vector<std::string>{"ridge_kernel"}));
  EXPECT_EQ(exported_names(with_source("// extern \"C\" int gone(int);\nextern \"C\" void one (int);\nint two(int);")),
            (std::vector<std::string>{"one"}));
  EXPECT_EQ(exported_names(with_source("extern \"C\" {\nint f();\n}\n")), std::vector<std::string>{});
}

TEST(Skew, ReadsLoads) {
  const auto load = [](const std::string& tokens) {
    return load_of(*record::parse_case("moe_gemm k=64 tokens=" + tokens));
  };
  EXPECT_TRUE(load("64/64/64/64").uniform());
  EXPECT_NEAR(load("0/64/64/384").largest_share, 0.75, 1e-9);
  EXPECT_EQ(load("0/64/64/384").empty, 1);
  EXPECT_TRUE(load("0/64/64/384").skewed());
  EXPECT_FALSE(load_of(*record::parse_case("moe_gemm k=64")).known());
  for (const char* bad : {"a/b", "1//2", "-1/2", "0/0"}) EXPECT_FALSE(load(bad).known()) << bad;
  // By the parameter of our operators, which are grouped whatever they are called.
  const auto spread = [](const std::string& of) {
    return *record::parse_case("experts rows=1000 groups=5 load=" + of);
  };
  EXPECT_TRUE(load_of(spread("uniform")).uniform());
  EXPECT_EQ(load_of(spread("skewed")).empty, 1);
  EXPECT_TRUE(load_of(spread("skewed")).skewed());
  EXPECT_DOUBLE_EQ(load_of(spread("half")).largest_share, 0.5);
  EXPECT_EQ(load_of(spread("half")).empty, 0);
  EXPECT_FALSE(load_of(spread("any")).known());
  EXPECT_TRUE(is_grouped("experts", std::vector{spread("any")}));
  EXPECT_FALSE(is_grouped("gemm", std::vector{*record::parse_case("gemm m=8")}));
  EXPECT_TRUE(is_grouped("grouped_product", {}));
  // Of a project's label, with repetitions.
  const auto label = [](const std::string& text) { return load_of(*record::parse_case("moe label=" + text)); };
  EXPECT_TRUE(label("even:64x4").uniform());
  EXPECT_EQ(label("skewed:0-64x2-384").tokens, (std::vector<std::int64_t>{0, 64, 64, 384}));
  for (const char* bad : {"skewed", "B4-M4096", "a:", "a:1--2", "a:x2", "a:1x", "a:b-c", "a:1x99999999"})
    EXPECT_FALSE(label(bad).known()) << bad;
}

TEST(Tips, ThoseThatPraiseWhatTrainingCannotHaveAreQuarantinedAndKept) {
  EXPECT_NE(knowledge::hygiene_problem("A weakref cache on grad_out gave 36 %."), "");
  EXPECT_NE(knowledge::hygiene_problem("Works for uniform loads only."), "");
  EXPECT_NE(knowledge::hygiene_problem("Keep a weight cache."), "");
  EXPECT_EQ(knowledge::hygiene_problem("A weight cache is worth at most 1.5 % of a step."), "");
  EXPECT_EQ(knowledge::hygiene_problem("Never key on data_ptr of an activation."), "");
  EXPECT_EQ(knowledge::hygiene_problem("Pack B into panels."), "");
  EXPECT_NE(knowledge::hygiene_problem("An OrderedDict of codes gave 36 %."), "");
  EXPECT_NE(knowledge::hygiene_problem("Put functools.cache on quantise."), "");
  EXPECT_NE(knowledge::hygiene_problem("Look the codes up by x.__hash__()."), "");
  // A warning about something else does not excuse the praise.
  EXPECT_NE(knowledge::hygiene_problem("Key on hash(x): 36 % faster. It was never slower."), "");
  EXPECT_EQ(knowledge::hygiene_problem("### 2026-11-21 07:30 round-3 — ROLLED BACK\n- Takeaway: lru_cache: 1.30x"), "");

  World world(one_per_round({}));
  world.engine_options.experience = world.base() / "experience";
  const std::filesystem::path path = world.base() / "experience/testcpu/gemm/cpu/tips.md";
  const std::string text = "# Tips\n\n## Pack B\nIt helps.\n\n## Cache\nKeep a weakref to the activation.\n";
  ASSERT_TRUE(write_file_durably(path, text));
  ASSERT_TRUE(world.run());
  EXPECT_EQ(world.state().tips->tips.size(), 1u);
  EXPECT_EQ(*read_file(path), text);
  const std::string aside = *read_file(path.parent_path() / "tips.quarantine.md");
  EXPECT_NE(aside.find("weakref"), std::string::npos);
  ASSERT_TRUE(knowledge::quarantine(path, knowledge::parse_tips(text)));
  EXPECT_EQ(*read_file(path.parent_path() / "tips.quarantine.md"), aside);
}

}  // namespace
}  // namespace ridge::campaign::test
