// The knowledge pages: data/knowledge/{ops,backends,hardware}/*.md, for people and for proposers.
//
//   +++
//   title = "Matrix products"
//   operator = ["gemm", "matmul"]        # words of an operator's name; left out: any
//   device = ["hopper"]                  # architectures, as data/hardware names them, or x86; left out: any
//   language = ["cuda"]                  # or backend; left out: any
//   bottleneck = ["compute", "memory"]   # of entries that state none: compute | memory | latency | resource | launch
//   +++
//   Prose.
//   ## Tile against the extents          one entry; operator, device, language and bottleneck may be narrowed
//   - Category: tile
//   - Bottleneck: compute
//   - Applies: when it is worth a look
//   - Mechanism: why it helps
//   - Signal: the counter or figure that shows it
//   - Evidence: measured [the file](../../../bench/results/...): what it shows
//   - Evidence: documented "Title of the vendor's document", section
//   - Evidence: untested, and why it is worth a look all the same
//
// A bullet goes on in lines that begin with two blanks. One parser reads them for campaigns, searches and the lint.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/knowledge.h"
#include "ridge/result.h"

namespace ridge::knowledge {

// `name`: "ops/gemm", which begins the ids. An error names the line and what is expected there.
Result<std::vector<record::KnowledgeEntry>> parse_page(std::string_view text, std::string_view name);

struct Pages {
  std::string digest;  // SHA-256 over all pages
  std::vector<record::KnowledgeEntry> entries;
};
// Every page below `directory` and below the folders of `own`, where a page takes the place of one of its name that
// came before it; an error names the page, or a folder without pages.
Result<Pages> read_pages(const std::filesystem::path& directory, std::span<const std::filesystem::path> own = {});

struct PageProblem {
  std::string file;
  int line = 0;
  std::string message;
};
// What does not hold in the pages: pages that do not parse, ids that are there twice, links to files that are not there
// (where the tree that they point into is), and categories without two entries for any kernel, on which the review of a
// stagnation rests.
std::vector<PageProblem> lint_pages(const std::filesystem::path& directory,
                                    std::span<const std::filesystem::path> own = {});

// What a kernel is. An empty field is not asked about.
struct Route {
  std::string op;                      // "grouped_gemm"
  std::vector<std::string> devices;    // "nvidia-h200", "hopper"
  std::vector<std::string> languages;  // "c++", "cuda"
  std::string bottleneck;
};
// Entries that hold for the route (any bottleneck), best first: for its bottleneck, then the more special ones.
std::vector<record::KnowledgeEntry> routed(std::span<const record::KnowledgeEntry> entries, const Route& route);

// Entries, and tips below `experience` (<gpu>/<op>/<backend>/tips.md), in which every word of `words` stands and that
// hold for the route, best first. Tips that must not be followed are left out.
Result<std::vector<record::KnowledgeHit>> search(std::span<const record::KnowledgeEntry> entries,
                                                 const std::filesystem::path& experience,
                                                 const std::vector<std::string>& words, const Route& route);

// An entry for people, in lines.
std::string to_text(const record::KnowledgeEntry& entry);

}  // namespace ridge::knowledge
