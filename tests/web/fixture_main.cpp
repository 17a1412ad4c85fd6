// Writes a folder of made-up campaigns for tests of `ridge serve` and for its screenshots.
//   web_fixture FOLDER              one of every kind that the report's tests have
//   web_fixture FOLDER COUNT        so many small ones
//   web_fixture FOLDER 1 ROUNDS     one with so many rounds
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "report/fixture/campaigns.h"
#include "web/many_rounds.h"

int main(int argc, char** argv) {
  using namespace ridge::report::fixture;
  if (argc < 2) return 2;
  const std::filesystem::path folder = argv[1];
  const int count = argc > 2 ? std::atoi(argv[2]) : 0, rounds = argc > 3 ? std::atoi(argv[3]) : 12;
  if (count == 0) {
    for (const Named& one : all_campaigns()) one.journal.write(folder / one.name);
    return 0;
  }
  for (int i = 0; i < count; ++i)
    many_rounds(fmt::format("made_up_{:03}", i), rounds).write(folder / fmt::format("made_up_{:03}", i));
  return 0;
}
