// The pages below data/wiki: each transcribes the figures of one public document, with title, publisher, version, where
// in the document each figure stands, and when and how it was read.
//
// A page is Markdown: "# <title>", the lines "- Publisher: ", "- Version: ", "- Document: " and "- Read: ", then
// sections "## <section>" with tables "| metric | value | unit | where |". Its SHA-256 is kept in pages.sha256, so that
// a page cannot change under the facts that rest on it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/quantity.h"

namespace ridge::hardware {

struct WikiRow {
  int line = 0;
  std::string section, metric, text, where;  // text: "989.4 TFLOPS"
};

struct WikiPage {
  std::string path;  // relative to data/wiki: "nvidia/h200-datasheet.md"
  std::string title, publisher, version, document, read;
  std::vector<WikiRow> rows;
  std::string digest;         // of the text on disk
  std::string locked_digest;  // of the text when its facts were checked; empty: not in pages.sha256
  [[nodiscard]] bool edited() const { return digest != locked_digest; }
};

class Wiki {
 public:
  static Result<Wiki> open(const std::filesystem::path& directory);

  [[nodiscard]] const std::map<std::string, WikiPage>& pages() const { return pages_; }
  // Pages that pages.sha256 names and the folder lacks.
  [[nodiscard]] const std::vector<std::string>& deleted() const { return deleted_; }

  // "<path>:<section>" or "<path>:<line>" to the row that states `metric` there.
  [[nodiscard]] Result<const WikiRow*> resolve(std::string_view source, std::string_view metric) const;

  // The text of pages.sha256 for the pages as they are now.
  [[nodiscard]] std::string lock() const;

 private:
  std::map<std::string, WikiPage> pages_;
  std::vector<std::string> deleted_;
};

Result<WikiPage> parse_wiki_page(std::string path, std::string_view text);

}  // namespace ridge::hardware
