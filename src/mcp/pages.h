// What a client of the Model Context Protocol may read: reports, journals and sources of the campaigns in a folder, and
// the pages of knowledge; and the prompts that carry the order of a round.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/mcp.h"
#include "ridge/result.h"

namespace ridge::mcp {

class Pages {
 public:
  // `root` holds campaigns; `knowledge` the pages that the program ships, then the user's own, which go before them.
  Pages(std::filesystem::path root, std::vector<std::filesystem::path> knowledge)
      : root_(std::move(root)), knowledge_(std::move(knowledge)) {}

  [[nodiscard]] std::vector<record::McpResource> list() const;
  [[nodiscard]] static std::vector<record::McpResource> templates();

  struct Page {
    record::McpResource resource;
    std::string text;
  };
  // kNotFound for what is not there; nothing outside of the folders is read.
  [[nodiscard]] Result<Page> read(const std::string& uri) const;

 private:
  [[nodiscard]] std::vector<std::filesystem::path> campaigns() const;
  [[nodiscard]] Result<Page> journal(const std::string& uri, const std::string& rest) const;
  [[nodiscard]] Result<Page> file(const std::string& uri, const std::filesystem::path& folder,
                                  const std::string& rest) const;

  std::filesystem::path root_;
  std::vector<std::filesystem::path> knowledge_;
};

inline constexpr std::size_t kLinesOfAPage = 100;

const std::vector<record::McpPrompt>& prompts();
std::string prompt_text(const record::McpPrompt& prompt, const std::string& argument);

}  // namespace ridge::mcp
