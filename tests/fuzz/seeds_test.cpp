#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "fuzz/readers.h"
#include "fuzz/structure.h"
#include "places.h"

namespace ridge::fuzz {
namespace {

// At least one seed of each reader is accepted: the cuts below would else begin outside of the format.
TEST(Seeds, EveryReaderTakesItsOwn) {
  for (const Reader& reader : readers()) {
    const std::vector<std::string> seeds = seeds_of(reader, source_dir());
    EXPECT_FALSE(seeds.empty()) << reader.name;
    std::size_t accepted = 0;
    for (const std::string& seed : seeds) accepted += reader.read(seed) ? 1 : 0;
    EXPECT_GT(accepted, 0u) << reader.name;
  }
}

// Whatever is read must be answered, in whatever way.
TEST(Seeds, NoReaderFallsOverNonsense) {
  std::vector<std::string> nonsense = {"",
                                       "\n",
                                       std::string(1, '\0'),
                                       std::string(100'000, '['),
                                       std::string(100'000, '('),
                                       std::string(100'000, '{'),
                                       std::string(100'000, '-'),
                                       "\x7f"
                                       "ELF",
                                       "\xff\xfe",
                                       "a: &a [*a]",
                                       std::string(100'000, '='),
                                       std::string(5000, '\n')};
  for (const Reader& reader : readers()) {
    for (const std::string& text : nonsense) (void)reader.read(text);
    for (std::string seed : seeds_of(reader, source_dir(), 4096)) {
      for (std::size_t cut = 0; cut < seed.size(); cut += 1 + seed.size() / 40) (void)reader.read(seed.substr(0, cut));
    }
  }
}

// A seed with a few random changes; the same number gives the same text.
std::string changed(const std::vector<std::string>& seeds, std::uint64_t number) {
  static const std::vector<std::string> kWords = {"18446744073709551616",
                                                  "-9223372036854775808",
                                                  "1e999",
                                                  "nan",
                                                  "-0",
                                                  "[[[[",
                                                  "{{{{",
                                                  "((((",
                                                  "\"",
                                                  "\\u0000",
                                                  "\xff",
                                                  "\r\n",
                                                  "../",
                                                  "&a",
                                                  "*a",
                                                  std::string(1, '\0'),
                                                  "2147483648",
                                                  "0x",
                                                  "..",
                                                  ",,",
                                                  "= ="};
  std::mt19937_64 random(number);
  std::string text = seeds[random() % seeds.size()];
  for (std::uint64_t changes = 1 + random() % 6; changes > 0; --changes) {
    const std::size_t at = text.empty() ? 0 : random() % text.size();
    const std::size_t length = std::min<std::size_t>(random() % 32, text.size() - at);
    switch (random() % 6) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(random());
        break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3: text.insert(at, kWords[random() % kWords.size()]); break;
      case 4: text.replace(at, length, kWords[random() % kWords.size()]); break;
      default: {
        const std::string& other = seeds[random() % seeds.size()];
        text = text.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }
  return text;
}

// RIDGE_FUZZ_INPUTS: of each reader, for a longer run; RIDGE_FUZZ_FIRST the first number, RIDGE_FUZZ_READER one reader.
TEST(Seeds, RandomChangesAreAnswered) {
  const auto number_of = [](const char* name, std::uint64_t usual) {
    const char* text = std::getenv(name);
    return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
  };
  const std::uint64_t inputs = number_of("RIDGE_FUZZ_INPUTS", 300), first = number_of("RIDGE_FUZZ_FIRST", 1);
  const char* only = std::getenv("RIDGE_FUZZ_READER");
  for (const Reader& reader : readers()) {
    if (only != nullptr && std::string_view(only) != reader.name) continue;
    const std::vector<std::string> seeds = seeds_of(reader, source_dir(), 16 << 10);
    std::uint64_t accepted = 0;
    for (std::uint64_t i = first; i < first + inputs; ++i) {
      if (inputs > 1000 && i % 1000 == 0) fmt::print(stderr, "\r{} {} ", reader.name, i);
      const bool whole = reader.json_lines && i % 2 == 0;
      accepted += reader.read(whole ? change_json_lines(seeds[i / 2 % seeds.size()], i) : changed(seeds, i)) ? 1 : 0;
    }
    if (inputs > 1000) fmt::print(stderr, "\r{}: {} inputs, {} accepted\n", reader.name, inputs, accepted);
    EXPECT_LT(accepted, inputs) << reader.name << " takes anything";
  }
}

}  // namespace
}  // namespace ridge::fuzz
