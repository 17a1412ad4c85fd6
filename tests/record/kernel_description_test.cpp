#include "record/kernel_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/campaign_block.h"
#include "record/kernel_start.h"

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTunables =
    "/* ridge-tunables\n"
    "[[tunable]]\nname = \"MR\"\nvalues = [1, 2, 8]\ndefault = 1\ntitle = \"rows\"\n"
    "[[tunable]]\nname = \"NV\"\nvalues = [1, 3, 4]\ndefault = 1\ntitle = \"vectors\"\n"
    "[[constraint]]\nexpression = \"MR * NV <= 24\"\nreason = \"32 registers\"\n*/\n";

// The lines of [configs] begin in line 5.
std::string source(const std::string& configs, const std::string& behind = "") {
  return "// a kernel\n/* ridge-kernel\nop = \"gemm\"\n[configs]\n" + configs + behind + "*/\n" + kTunables +
         "int x;\n";
}

std::string error_of(const std::string& text) {
  const auto kernel = parse_kernel(text);
  EXPECT_FALSE(kernel.ok());
  return kernel.ok() ? "" : kernel.error().message;
}

TEST(KernelDescription, ReadsConfigurationsInTheOrderOfTheFile) {
  const auto kernel =
      parse_kernel(source("wide = { MR = 8, NV = 3, promoted = \"gemm_cpu_1, 47.5x\" }\n"
                          "default = { }   # the textbook\n"
                          "a = { MR = 2, model = 0.93 }\n",
                          "[variants]\nnt = { MAJOR_B = \"kK\", SPLIT_K = 2 }\n"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().text();
  ASSERT_TRUE(kernel->has_value());
  const KernelDescription& read = **kernel;
  EXPECT_EQ(read.ops, std::vector<std::string>{"gemm"});
  ASSERT_EQ(read.configs.size(), 3u);
  EXPECT_EQ(read.configs[0].name, "wide");
  EXPECT_EQ(read.configs[0].promoted, "gemm_cpu_1, 47.5x");
  EXPECT_EQ(read.configs[0].line, 5u);
  EXPECT_EQ(read.configs[1].name, "default");
  EXPECT_TRUE(read.configs[1].values.empty());
  EXPECT_DOUBLE_EQ(read.configs[2].model.value_or(0), 0.93);
  EXPECT_EQ(read.complete(read.configs[2].values), (std::map<std::string, std::int64_t>{{"MR", 2}, {"NV", 1}}));
  ASSERT_EQ(read.variants.size(), 1u);
  EXPECT_EQ(read.variants[0].defines, (std::map<std::string, std::string>{{"MAJOR_B", "kK"}, {"SPLIT_K", "2"}}));
  EXPECT_EQ(read.find("a"), &read.configs[2]);
  EXPECT_EQ(read.find("b"), nullptr);
  EXPECT_EQ(read.same({{"NV", 3}, {"MR", 8}}), read.configs.data());
  EXPECT_EQ(read.same({{"MR", 1}}), &read.configs[1]);
  EXPECT_EQ(read.same({{"MR", 8}}), nullptr);
}

TEST(KernelDescription, TakesSeveralOperatorsAndSourcesWithoutABlock) {
  const auto two = parse_kernel("/* ridge-kernel\nop = [\"gemm\", \"gemm_fp8\"]\n[configs]\ndefault = {}\n*/");
  ASSERT_TRUE(two.ok()) << two.error().text();
  EXPECT_EQ((*two)->ops, (std::vector<std::string>{"gemm", "gemm_fp8"}));
  const auto none = parse_kernel(kTunables);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(KernelDescription, MacrosOfTheCaseAreOneLineEach) {
  const auto kernel = parse_kernel(source("a = { }\n",
                                          "[define]\nTYPE_B = { value = \"type_b\", names = [\"kBf16\", \"kF16\"] }\n"
                                          "BIAS = { value = \"bias && m > 1\" }\n"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().text();
  const std::vector<KernelDefine>& defines = (*kernel)->defines;
  ASSERT_EQ(defines.size(), 2u);
  EXPECT_EQ(defines[0].name, "TYPE_B") << "in the order of the file";
  EXPECT_EQ(defines[0].names, (std::vector<std::string>{"kBf16", "kF16"}));
  EXPECT_EQ(defines[1].value, "bias && m > 1");
  const auto error = [](const std::string& line) { return error_of(source("a = { }\n", "[define]\n" + line + "\n")); };
  EXPECT_THAT(error("BIAS = { value = \"bias &&\" }"), HasSubstr("line 7: BIAS: "));
  EXPECT_THAT(error("bias = { value = \"bias\" }"), HasSubstr("\"bias\" is no name (A-Z, 0-9, _)"));
  EXPECT_THAT(error("BIAS = { names = [\"a\"] }"), HasSubstr("key \"value\" is missing"));
  EXPECT_THAT(error("BIAS = { value = \"bias\", names = [1] }"), HasSubstr("must be a list of strings"));
  EXPECT_THAT(error("BIAS = { value = \"bias\", colour = 1 }"), HasSubstr("unknown key \"colour\""));
  EXPECT_THAT(error("BIAS = 1"), HasSubstr("must be one line: BIAS = { NAME = VALUE, ... }"));
}

TEST(KernelDescription, ErrorsNameTheLineAndWhatIsAllowed) {
  EXPECT_THAT(error_of(source("a = { KC = 8 }\n")), HasSubstr("line 5: a: KC is not a tunable; declared are MR, NV"));
  EXPECT_THAT(error_of("/* ridge-kernel\nop = \"gemm\"\n[configs]\na = { KC = 8 }\n*/"), HasSubstr("none: the source"));
  EXPECT_THAT(error_of(source("default = { }\na = { MR = 3 }\n")),
              HasSubstr("line 6: a: MR = 3 is not among its values: 1, 2, 8"));
  EXPECT_THAT(error_of(source("a = { MR = \"2\" }\n")), HasSubstr("MR must be an integer"));
  EXPECT_THAT(error_of(source("a = { MR = 8, NV = 4 }\n")),
              HasSubstr("line 5: a: MR = 8, NV = 4 violates \"MR * NV <= 24\": 32 registers"));
  EXPECT_THAT(error_of(source("a = { MR = 2 }\nb = { NV = 1, MR = 2 }\n")),
              HasSubstr("line 6: b is the same configuration as a, line 5"));
  EXPECT_THAT(error_of(source("Wide = { MR = 2 }\n")), HasSubstr("\"Wide\" is no name"));
  EXPECT_THAT(error_of(source("a = { MR = 2, promoted = 3 }\n")), HasSubstr("\"promoted\" must be a string"));
  EXPECT_THAT(error_of(source("a = { MR = 2, promoted = \"\\n\" }\n")), HasSubstr("at most 200 letters"));
  EXPECT_THAT(error_of(source("a = { MR = 2, instructions = \"neon\" }\n")), HasSubstr("neither avx2 nor avx512"));
  EXPECT_THAT(error_of(source("a = { MR = 2, model = 0 }\n")), HasSubstr("\"model\" must be a number above 0"));
  EXPECT_THAT(error_of(source("")), HasSubstr("holds no configuration"));
  EXPECT_THAT(error_of(source("a = { }\n[configs.b]\nMR = 2\n")), HasSubstr("must be one line"));
  EXPECT_THAT(error_of(source("a.b = { MR = 2 }\n")), HasSubstr("must be one line"));
  EXPECT_THAT(error_of(source("a = 2\n")), HasSubstr("must be one line: a = { NAME = VALUE, ... }"));
  EXPECT_THAT(error_of(source("a = { }\n", "[colour]\nx = 1\n")), HasSubstr("unknown key \"colour\""));
  EXPECT_THAT(error_of(source("a = { }\n", "[variants]\nnt = { lower = 1 }\n")), HasSubstr("is not a macro name"));
  EXPECT_THAT(error_of("/* ridge-kernel\n[configs]\na = { }\n*/"), HasSubstr("key \"op\" is missing"));
  EXPECT_THAT(error_of("/* ridge-kernel\nop = []\n[configs]\na = { }\n*/"), HasSubstr("names no operator"));
  EXPECT_THAT(error_of(source("a = { MR = = }\n")), HasSubstr("line 5: "));
}

TEST(KernelDescription, AConfigurationIsOneLineThatComesAndGoes) {
  const std::string before = source("default = { }\na = { MR = 2 } # by hand\n", "[variants]\nnt = { X = 1 }\n");
  const auto after = text_with_config(before, {"won", {{"NV", 3}, {"MR", 8}}, "gemm_cpu_1, 47.5x", "avx2", 0.5});
  ASSERT_TRUE(after.ok()) << after.error().text();
  EXPECT_THAT(*after, HasSubstr("# by hand\nwon = { MR = 8, NV = 3, model = 0.5, instructions = \"avx2\", "
                                "promoted = \"gemm_cpu_1, 47.5x\" }\n["));
  EXPECT_EQ((*parse_kernel(*after))->configs.back().line, 7u);
  EXPECT_EQ(*text_without_configs(*after), *text_without_configs(before));
  EXPECT_NE(*text_without_configs(*after), *text_without_configs(source("default = { }\n")));
  EXPECT_EQ(*text_without_configs("int x;\n"), "int x;\n");
}

TEST(KernelDescription, WhereAConfigurationIsFromIsWrittenOnItsLine) {
  const std::string before = source("default = { }\na = { MR = 2, model = 0.5 } # by {hand}\nb = {MR = 8}\n");
  const auto written = [&](const std::string& text, const char* config) {
    const auto after = text_with_promoted(text, config, "gemm_1, 1.24x");
    return after ? *after : after.error().message;
  };
  EXPECT_THAT(written(before, "a"),
              HasSubstr("\na = { MR = 2, model = 0.5, promoted = \"gemm_1, 1.24x\" } # by {hand}\nb = {MR = 8}\n"));
  EXPECT_THAT(written(before, "default"), HasSubstr("\ndefault = { promoted = \"gemm_1, 1.24x\" }\n"));
  const auto promoted = parse_kernel(written(before, "b"));
  ASSERT_TRUE(promoted && *promoted);
  EXPECT_EQ((*promoted)->find("b")->promoted, "gemm_1, 1.24x");
  EXPECT_THAT(written(written(before, "a"), "a"), HasSubstr("a is promoted already: gemm_1"));
  EXPECT_THAT(written(before, "c"), HasSubstr("there is no configuration c"));
  EXPECT_FALSE(text_with_promoted(before, "a", "\" }\nevil = { MR = 8, NV = 3 }"));
}

TEST(KernelDescription, ATextGoesToACandidateAndBack) {
  const std::string text = "#include <cuda.h>\n#include \"../../device/cuda/kernel/tma.cuh\"\nint x;\n";
  EXPECT_EQ(as_candidate_text(text), "#include <cuda.h>\n#include \"ridge/kernel/tma.cuh\"\nint x;\n");
  EXPECT_EQ(as_library_text(as_candidate_text(text), "ops/softmax/cuda.cu"), text);
}

TEST(KernelDescription, ATextBelowItsOperatorGoesToACandidateAndBack) {
  const std::string text = "#include \"../../../device/cuda/kernel/tma.cuh\"\n#include \"../rows.cuh\"\n";
  EXPECT_EQ(as_candidate_text(text), "#include \"ridge/kernel/tma.cuh\"\n#include \"../rows.cuh\"\n");
  EXPECT_EQ(as_library_text(as_candidate_text(text), "ops/softmax/backward/cuda.cu"), text);
}

TEST(KernelStart, NamesTheCaseThatItIsBuiltFor) {
  Candidate candidate;
  candidate.sources = {{"start.cu", start_text("ops/softmax/cuda_softmax.cu", "softmax",
                                               std::vector<std::string>{"rows=4 cols=8", "rows=16 cols=8"})}};
  const auto built = built_for(candidate);
  ASSERT_TRUE(built && *built) << built.error().text();
  EXPECT_EQ((*built)->text(), "softmax rows=4 cols=8");
  const auto block = parse_campaign_block(candidate.sources[0].text);
  ASSERT_TRUE(block && *block);
  EXPECT_EQ((*block)->op, "softmax");
  EXPECT_THAT((*block)->cases, testing::ElementsAre("rows=4 cols=8", "rows=16 cols=8"));
  EXPECT_THAT(candidate.sources[0].text, HasSubstr("\n#include \"ops/softmax/cuda_softmax.cu\"\n"));
}

TEST(KernelDescription, RefusesToWriteWhatItWouldNotRead) {
  const std::string before = source("default = { }\n");
  const auto why = [&](const KernelConfig& config) {
    const auto text = text_with_config(before, config);
    return text.ok() ? std::string("written") : text.error().message;
  };
  EXPECT_THAT(why({.name = "default", .values = {{"MR", 2}}}),
              HasSubstr("already the name of a configuration, line 5"));
  EXPECT_THAT(why({.name = "again", .values = {}}), HasSubstr("the same configuration as default"));
  EXPECT_THAT(why({.name = "a", .values = {{"MR", 3}}}), HasSubstr("not among its values"));
  EXPECT_NE(why({.name = "a", .values = {{"MR", 2}}, .promoted = "*/"}), "written");
  EXPECT_NE(why({.name = "a", .values = {{"MR", 2}}, .promoted = "\" }\nb = { MR = 8, promoted = \""}), "written");
  EXPECT_THAT(text_with_config(kTunables, {.name = "a"}).error().message, HasSubstr("no ridge-kernel comment"));
}

}  // namespace
}  // namespace ridge::record
