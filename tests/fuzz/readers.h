// Every reader of a file or a message that others write, as a function of bytes with seeds: a unit test reads them
// whole, cut short and changed at random.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::fuzz {

struct Reader {
  const char* name;
  const char* what;
  // Reads the text; whether it was accepted. What is accepted must survive being written and read again where that is
  // possible; a reader that breaks that aborts.
  bool (*read)(std::string_view text);
  // Files of the repository to begin with, folder and end of the name, and texts.
  struct Seeds {
    const char *folder, *ending;
  };
  std::vector<Seeds> files;
  std::vector<std::string> texts;
  // Lines of JSON: changed by structure.h, too.
  bool json_lines = false;
  // Makes a seed of a file; null: its first bytes are.
  std::string (*thinned)(std::string_view text) = nullptr;
};

std::span<const Reader> readers();
const Reader* find_reader(std::string_view name);

// The texts, and of each seed file what is made of it or its first bytes; no more than `most_bytes` of each, cut at the
// end of a line.
std::vector<std::string> seeds_of(const Reader& reader, const std::filesystem::path& repository,
                                  std::size_t most_bytes = 64 << 10);

}  // namespace ridge::fuzz
