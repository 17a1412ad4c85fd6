// A defence that could be switched off without anything slipping through would not be tested. Each is switched off
// here, alone, and the cheat that its file says proves it must then pass.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "base/files.h"
#include "cheats/corpus.h"
#include "places.h"

namespace ridge::cheats {

void PrintTo(const Item& item, std::ostream* out);

namespace {

using record::Defence;

std::vector<Item> proofs() {
  std::vector<Item> chosen;
  std::copy_if(corpus().begin(), corpus().end(), std::back_inserter(chosen),
               [](const Item& item) { return item.proves; });
  return chosen;
}

std::string gate_and_name(const ::testing::TestParamInfo<Item>& info) {
  return std::string(record::name_of(info.param.gate)) + "_" + info.param.name;
}

// The cheat's result in the best of three runs: beside other work on the machine the clock may notice what it does
// late.
record::CheckRow lets_through(const Item& item, const evaluate::Defences& fewer) {
  record::CheckRow row;
  for (int attempt = 0; attempt < 3; ++attempt) {
    row = check(item, fewer);
    if (row.outcome == record::Outcome::kPass) break;
  }
  return row;
}

class Mutant : public ::testing::TestWithParam<Item> {};
INSTANTIATE_TEST_SUITE_P(Corpus, Mutant, ::testing::ValuesIn(proofs()), gate_and_name);

TEST_P(Mutant, LetsItsCheatThrough) {
  const Item& item = GetParam();
  if (const std::string why = missing(item); !why.empty()) GTEST_SKIP() << why;
  if (item.gate == record::Defence::kPrivileges && ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
    GTEST_SKIP() << "what runs these tests can gain no privileges itself";
  }
  const record::CheckRow row = lets_through(item, item.defences.without(item.gate));
  EXPECT_EQ(record::name_of(row.outcome), "PASS")
      << "still stopped by " << record::name_of(row.gate) << ": " << row.detail;
}

std::vector<Item> proofs_of_parts() {
  std::vector<Item> chosen;
  std::copy_if(corpus().begin(), corpus().end(), std::back_inserter(chosen),
               [](const Item& item) { return item.part.has_value(); });
  return chosen;
}

std::string_view name_of_part(const Item& item) {
  for (const auto& [part, name] : evaluate::kParts) {
    if (part == item.part) return name;
  }
  return {};
}

std::string part_and_name(const ::testing::TestParamInfo<Item>& info) {
  return fmt::format("{}_{}", name_of_part(info.param), info.param.name);
}

class PartMutant : public ::testing::TestWithParam<Item> {};
INSTANTIATE_TEST_SUITE_P(Corpus, PartMutant, ::testing::ValuesIn(proofs_of_parts()), part_and_name);

TEST_P(PartMutant, LetsItsCheatThrough) {
  const Item& item = GetParam();
  const record::CheckRow row = lets_through(item, item.defences.without(*item.part));
  EXPECT_EQ(record::name_of(row.outcome), "PASS")
      << "still stopped by " << record::name_of(row.gate) << ": " << row.detail;
}

// What a candidate hides of a call shows in latencies only: Clock.* in tests/evaluate switches these two off.
TEST(Mutation, EveryPartOfADefenceHasACheatThatProvesIt) {
  for (const auto& [part, name] : evaluate::kParts) {
    if (part == evaluate::Part::kHiddenCharge || part == evaluate::Part::kWholeAccount) continue;
    const auto proves = [&, wanted = part](const Item& item) { return item.part == wanted; };
    EXPECT_TRUE(std::any_of(corpus().begin(), corpus().end(), proves)) << name;
  }
}

TEST(Mutation, EveryDefenceHasACheatThatProvesIt) {
  std::set<Defence> proven;
  for (const Item& item : proofs()) proven.insert(item.gate);
  for (const Defence gate : defences()) EXPECT_TRUE(proven.contains(gate)) << record::name_of(gate);
}

std::string names(const std::vector<std::string>& all) { return fmt::format("{}", fmt::join(all, ", ")); }

// The table of docs/checking.md, from the corpus.
std::string table() {
  std::string text = "| defence | the cheat that passes without it | others it stops |\n|---|---|---|\n";
  for (const Defence gate : defences()) {
    std::vector<std::string> proving, others;
    for (const Item& item : corpus()) {
      if (!item.honest && item.gate == gate) (item.proves ? proving : others).push_back(item.name);
    }
    text += fmt::format("| {} | {} | {} |\n", record::name_of(gate), names(proving), names(others));
  }
  for (const auto& [part, name] : evaluate::kParts) {
    std::vector<std::string> proving;
    std::string_view gate;
    for (const Item& item : corpus()) {
      if (item.part != part) continue;
      proving.push_back(item.name);
      gate = record::name_of(item.gate);
    }
    if (!proving.empty()) text += fmt::format("| {}, of {} | {} | |\n", name, gate, names(proving));
  }
  return text;
}

TEST(Mutation, TheTableInTheDocumentationIsThatOfTheCorpus) {
  const auto page = read_file(source_dir() / "docs/checking.md");
  ASSERT_TRUE(page.ok());
  const std::string begin = "<!-- corpus -->\n", end = "<!-- /corpus -->";
  const std::size_t first = page->find(begin) + begin.size(), last = page->find(end);
  ASSERT_NE(last, std::string::npos);
  EXPECT_EQ(page->substr(first, last - first), table()) << "put the second text between the two marks";
}

}  // namespace
}  // namespace ridge::cheats
