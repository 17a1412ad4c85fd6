// The pages that are shipped hold, and the parser says of any other page what is wrong with it and where.
#include "knowledge/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/files.h"
#include "places.h"

namespace ridge::knowledge {
namespace {

using record::KnowledgeEntry;
using testing::HasSubstr;

const std::filesystem::path kShipped = source_dir() / "data" / "knowledge";

std::string page(const std::string& front, const std::string& entry) {
  return "+++\n" + front + "+++\n\nProse.\n\n" + entry;
}
const std::string kFront = "title = \"Products\"\noperator = [\"gemm\"]\nbottleneck = [\"compute\"]\n";
const std::string kEntry =
    "## A tile of its own\n- Category: tile\n- Applies: always,\n  and more\n- Mechanism: reuse\n- Signal: fewer "
    "loads\n"
    "- Evidence: untested\n";

std::string refusal(const std::string& text) {
  const auto parsed = parse_page(text, "ops/x");
  return parsed ? std::string() : parsed.error().message;
}

TEST(Pages, ThoseThatAreShippedHoldAndCoverWhatTheyAreAskedFor) {
  for (const PageProblem& problem : lint_pages(kShipped)) ADD_FAILURE() << problem.file << ": " << problem.message;
  const Result<Pages> pages = read_pages(kShipped);
  ASSERT_TRUE(pages) << pages.error().text();
  std::set<std::string> devices, languages, operators;
  for (const KnowledgeEntry& entry : pages->entries) {
    devices.insert(entry.devices.begin(), entry.devices.end());
    languages.insert(entry.languages.begin(), entry.languages.end());
    operators.insert(entry.operators.begin(), entry.operators.end());
  }
  for (const char* one : {"hopper", "ada", "blackwell", "cdna3", "cdna4", "x86"})
    EXPECT_TRUE(devices.contains(one)) << one;
  for (const char* one : {"cuda", "hip", "triton", "c++"}) EXPECT_TRUE(languages.contains(one)) << one;
  for (const char* one : {"gemm", "grouped", "attention", "rmsnorm", "quantize", "moe", "softmax"})
    EXPECT_TRUE(operators.contains(one)) << one;
}

TEST(Pages, AnEntryHasItsFieldsAndThePagesLists) {
  const auto entries = parse_page(page(kFront, kEntry + "- Bottleneck: memory, latency\n"), "ops/gemm");
  ASSERT_TRUE(entries) << entries.error().text();
  ASSERT_EQ(entries->size(), 1u);
  const KnowledgeEntry& one = entries->front();
  EXPECT_EQ(one.id, "ops/gemm#a-tile-of-its-own");
  EXPECT_EQ(one.applies, "always, and more");
  EXPECT_EQ(one.operators, std::vector<std::string>{"gemm"});
  EXPECT_EQ(one.bottlenecks, (std::vector<std::string>{"memory", "latency"}));
  EXPECT_EQ(one.evidence, std::vector<std::string>{"untested"});
}

TEST(Pages, WhatIsWrongIsSaidWithItsLine) {
  const auto without = [](std::string text, const std::string& part) {
    return text.erase(text.find(part), part.size());
  };
  const auto with = [&](const std::string& evidence) {
    return page(kFront, without(kEntry, "- Evidence: untested\n") + "- Evidence: " + evidence + "\n");
  };
  EXPECT_THAT(refusal("# Products\n"), HasSubstr("line 1: a page begins with +++"));
  EXPECT_THAT(refusal("+++\ntitle = \"x\"\n"), HasSubstr("does not end with +++"));
  EXPECT_THAT(refusal(page("title = 3\n", kEntry)), HasSubstr("line 2: title is not"));
  EXPECT_THAT(refusal(page("title = \"x\"\nauthor = \"y\"\n", kEntry)), HasSubstr("line 3: author is not"));
  EXPECT_THAT(refusal(page("title = \"x\"\ndevice = [3]\n", kEntry)),
              HasSubstr("line 3: device must be a list of texts"));
  EXPECT_THAT(refusal(page("title = \"x\n", kEntry)), HasSubstr("line 2: "));
  EXPECT_THAT(refusal(page("title = \"x\"\n", kEntry)), HasSubstr("has no Bottleneck"));
  EXPECT_THAT(refusal(page(kFront, "")), HasSubstr("no entry"));
  EXPECT_THAT(refusal(page(kFront, without(kEntry, "- Signal: fewer loads\n"))), HasSubstr("has no Signal"));
  EXPECT_THAT(refusal(page(kFront, without(kEntry, "- Evidence: untested\n"))), HasSubstr("has no Evidence"));
  EXPECT_THAT(refusal(page(kFront, kEntry + "- Signal: twice\n")), HasSubstr("Signal is there twice"));
  EXPECT_THAT(refusal(page(kFront, kEntry + "- Author: x\n")), HasSubstr("\"Author\" is not Category"));
  EXPECT_THAT(refusal(page(kFront, kEntry + "stray\n")), HasSubstr("an entry holds bullets only"));
  EXPECT_THAT(refusal(page(kFront, kEntry + "- Bottleneck: magic\n")), HasSubstr("bottleneck magic is not compute"));
  EXPECT_THAT(refusal(page(kFront, kEntry + "# Heading\n")), HasSubstr("the title stands in the front matter"));
  EXPECT_THAT(refusal(with("measured 1.5x on my machine")), HasSubstr("links to no file"));
  EXPECT_THAT(refusal(with("documented in a blog")), HasSubstr("names no \"title of a document\""));
  EXPECT_THAT(refusal(with("documented \"A title\"")), HasSubstr("names no \"title of a document\""));
  EXPECT_THAT(refusal(with("everybody knows")), HasSubstr("evidence begins with"));
  EXPECT_EQ(refusal(with("measured [x](y.csv): 2x")), "");
  EXPECT_EQ(refusal(with("documented \"A title\", section 3")), "");
}

TEST(Pages, TheLintFindsDanglingLinksTwinsAndCategoriesWithoutGeneralEntries) {
  const TempDir tree = TempDir::create("ridge-pages").value();
  const std::filesystem::path data = tree.path() / "data" / "knowledge";
  ASSERT_TRUE(write_file_durably(tree.path() / "CMakeLists.txt", ""));
  ASSERT_TRUE(write_file_durably(data / "ops" / "x.md", page(kFront, kEntry)));
  const auto messages = [&] {
    std::string all;
    for (const PageProblem& problem : lint_pages(data)) all += problem.message + "\n";
    return all;
  };
  EXPECT_THAT(messages(), HasSubstr("0 entries of category tile hold for any kernel, 2 are needed"));
  ASSERT_TRUE(write_file_durably(data / "ops" / "x.md", page(kFront, kEntry + kEntry)));
  EXPECT_THAT(messages(), HasSubstr("is there twice"));
  ASSERT_TRUE(write_file_durably(
      data / "ops" / "x.md", page(kFront, kEntry + "- Evidence: measured [x](../../../bench/results/none.csv): 2x\n")));
  EXPECT_THAT(messages(), HasSubstr("there is no ../../../bench/results/none.csv"));
  ASSERT_TRUE(write_file_durably(data / "ops" / "x.md", "nothing"));
  EXPECT_THAT(messages(), HasSubstr("line 1"));
  EXPECT_FALSE(read_pages(data));
  EXPECT_FALSE(read_pages(tree.path() / "none"));
  EXPECT_FALSE(lint_pages(tree.path() / "none").empty());
}

TEST(Pages, FoldersOfOnesOwnAddPagesAndReplaceThoseOfTheirName) {
  auto made = TempDir::create("ridge-pages");
  ASSERT_TRUE(made);
  const std::filesystem::path own = made->path() / "own", empty = made->path() / "empty";
  ASSERT_TRUE(make_directories(own / "ops"));
  ASSERT_TRUE(make_directories(empty));
  ASSERT_TRUE(write_file_durably(own / "ops/gemm.md", page(kFront, kEntry)));
  ASSERT_TRUE(write_file_durably(own / "ours.md", page("title = \"Ours\"\nbottleneck = [\"memory\"]\n", kEntry)));
  const std::vector<std::filesystem::path> folders = {own};
  const Result<Pages> shipped = read_pages(kShipped), both = read_pages(kShipped, folders);
  ASSERT_TRUE(shipped && both);
  EXPECT_NE(both->digest, shipped->digest);
  const auto of_page = [](const Pages& pages, const std::string& name) {
    return std::ranges::count_if(pages.entries, [&](const auto& one) { return one.id.starts_with(name + "#"); });
  };
  EXPECT_GT(of_page(*shipped, "ops/gemm"), 1);
  EXPECT_EQ(of_page(*both, "ops/gemm"), 1) << "the page of one's own takes its place";
  EXPECT_EQ(of_page(*both, "ours"), 1);
  EXPECT_EQ(of_page(*both, "ops/norm"), of_page(*shipped, "ops/norm"));
  ASSERT_TRUE(write_file_durably(own / "ours.md", page("title = \"Ours\"\n", kEntry)));
  const auto problems = lint_pages(kShipped, folders);
  ASSERT_FALSE(problems.empty());
  EXPECT_THAT(problems.front().file, HasSubstr("ours.md"));
  const std::vector<std::filesystem::path> without = {empty};
  const Result<Pages> refused = read_pages(kShipped, without);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr(empty.string()));
}

TEST(Pages, RoutesByOperatorDeviceLanguageAndThenByBottleneck) {
  const std::vector<KnowledgeEntry> entries = read_pages(kShipped)->entries;
  const auto ids = [&](const Route& route) {
    std::vector<std::string> found;
    for (const KnowledgeEntry& entry : routed(entries, route)) found.push_back(entry.id.substr(0, entry.id.find('#')));
    return found;
  };
  const auto holds = [](const std::vector<std::string>& found, const std::string& page_id) {
    return std::ranges::count(found, page_id) > 0;
  };
  const auto h200 = ids({"gemm_fp8", {"nvidia-h200", "hopper"}, {"c++", "cuda"}, "compute"});
  for (const char* one : {"ops/gemm", "hardware/hopper", "backends/cuda", "ops/any-kernel"})
    EXPECT_TRUE(holds(h200, one)) << one;
  for (const char* one : {"ops/attention", "hardware/cdna3", "backends/hip", "hardware/x86", "backends/triton"})
    EXPECT_FALSE(holds(h200, one)) << one;
  EXPECT_TRUE(holds(ids({"x", {"nvidia-b300", "blackwell-ultra"}, {"cuda"}, ""}), "hardware/blackwell"));
  const auto cpu = ids({"my_softmax", {"testcpu", "x86"}, {"c++", "cpu"}, "memory"});
  EXPECT_TRUE(holds(cpu, "ops/reductions"));
  EXPECT_TRUE(holds(cpu, "hardware/x86"));
  EXPECT_FALSE(holds(cpu, "backends/cuda"));
  // What limits comes first.
  const std::vector<KnowledgeEntry> memory = routed(entries, {"gemm", {"x86"}, {"c++"}, "memory"});
  EXPECT_EQ(std::ranges::count(memory.front().bottlenecks, "memory"), 1);
  EXPECT_EQ(std::ranges::count(memory.back().bottlenecks, "memory"), 0);
}

TEST(Pages, SearchesPagesAndTipsAndLeavesOutWhatMustNotBeFollowed) {
  const TempDir folder = TempDir::create("ridge-tips").value();
  const std::filesystem::path tips = folder.path() / "nvidia-h200" / "gemm" / "cuda" / "tips.md";
  ASSERT_TRUE(write_file_durably(tips,
                                 "# Tips\n\n### round-2\n- Context: gemm, bottleneck memory\n- Takeaway: swizzle B\n\n"
                                 "### round-3\n- Takeaway: swizzle, and a weakref to the activation\n\n"
                                 "### \n- Takeaway: untitled\n"));
  const std::vector<KnowledgeEntry> entries = read_pages(kShipped)->entries;
  const auto found = [&](const std::vector<std::string>& words, const Route& route) {
    std::vector<record::KnowledgeHit> hits = search(entries, folder.path(), words, route).value();
    std::erase_if(hits, [](const auto& hit) { return hit.kind != "tip"; });
    return hits.size();
  };
  EXPECT_EQ(found({"swizzle"}, {}), 1u);
  EXPECT_EQ(found({"Swizzle", "memory"}, {"gemm_fp8", {"h200"}, {"cuda"}, "memory"}), 1u);
  EXPECT_EQ(found({"swizzle"}, {"attention", {}, {}, ""}), 0u);
  EXPECT_EQ(found({"swizzle"}, {"", {"mi300x"}, {}, ""}), 0u);
  EXPECT_EQ(found({"swizzle"}, {"", {}, {"hip"}, ""}), 0u);
  EXPECT_EQ(found({"swizzle"}, {"", {}, {}, "compute"}), 0u);
  EXPECT_EQ(found({"weakref"}, {}), 0u);
  EXPECT_EQ(found({"untitled"}, {}), 1u);
  // Every word must stand there; a word of the title counts more.
  const auto hits = search(entries, folder.path(), {"last", "wave"}, {}).value();
  ASSERT_FALSE(hits.empty());
  for (const auto& hit : hits) EXPECT_THAT(hit.text, testing::ContainsRegex("[Ww]ave"));
  EXPECT_TRUE(search(entries, folder.path(), {"no-such-word"}, {}).value().empty());
}

}  // namespace
}  // namespace ridge::knowledge
