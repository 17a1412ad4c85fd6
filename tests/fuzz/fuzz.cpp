// The program of scripts/fuzz: libFuzzer over one reader of readers.h.
//
//   RIDGE_FUZZ_READER=NAME ridge_fuzz [libFuzzer's arguments]    changes inputs, guided by the code they reach
//   ridge_fuzz --readers                                         prints the names
//   ridge_fuzz --seeds NAME FOLDER                               writes the seeds of a reader as files
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/files.h"
#include "fuzz/readers.h"
#include "fuzz/structure.h"
#include "places.h"

namespace {

using ridge::fuzz::Reader;

const Reader* chosen = nullptr;

const Reader& reader_of(const char* name) {
  if (const Reader* reader = ridge::fuzz::find_reader(name)) return *reader;
  fmt::print(stderr, "ridge_fuzz: \"{}\" is no reader; `ridge_fuzz --readers` prints them\n", name);
  std::exit(2);
}

void write_seeds(const Reader& reader, const std::filesystem::path& folder) {
  constexpr std::size_t kMostBytes = 32 << 10;
  int number = 0;
  for (const std::string& seed : ridge::fuzz::seeds_of(reader, ridge::source_dir(), kMostBytes)) {
    const ridge::Status written = ridge::write_file_durably(folder / fmt::format("seed-{}", number++), seed);
    if (written.ok()) continue;
    fmt::print(stderr, "ridge_fuzz: {}\n", written.error().text());
    std::exit(2);
  }
}

}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

int LLVMFuzzerInitialize(int* count, char*** arguments) {
  const std::string_view first = *count > 1 ? (*arguments)[1] : "";
  if (first == "--readers") {
    for (const Reader& reader : ridge::fuzz::readers()) fmt::print("{}\n", reader.name);
    std::exit(0);
  }
  if (first == "--seeds" && *count == 4) {
    write_seeds(reader_of((*arguments)[2]), (*arguments)[3]);
    std::exit(0);
  }
  const char* name = std::getenv("RIDGE_FUZZ_READER");
  chosen = &reader_of(name == nullptr ? "" : name);
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)chosen->read({reinterpret_cast<const char*>(data), size});
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (chosen->json_lines && seed % 4 != 0) {
    const std::string text = ridge::fuzz::change_json_lines({reinterpret_cast<const char*>(data), size}, seed);
    if (text.size() <= most) {
      std::memcpy(data, text.data(), text.size());
      return text.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}

}  // extern "C"
