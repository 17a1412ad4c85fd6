// What is known about making kernels faster, one direction each, and what a search of it finds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::record {

// One direction of a page below data/knowledge. An empty list holds for any.
struct KnowledgeEntry {
  std::string id;               // "ops/gemm#tile-against-the-extents"
  std::string title, category;  // category: tile | layout | pipeline | resource | backend | algorithm
  std::vector<std::string> operators, devices, languages, bottlenecks;
  std::string applies, mechanism, signal;  // signal: the counter or figure that shows it
  std::vector<std::string> evidence;       // "measured ...", "documented ...", "untested ..."
  std::vector<std::string> tried;          // rounds of the campaign that named this entry, and what came of them
  static void fields(auto& v, auto& self) {
    v("id", self.id);
    v("title", self.title);
    v("category", self.category);
    v("operators", self.operators);
    v("devices", self.devices);
    v("languages", self.languages);
    v("bottlenecks", self.bottlenecks);
    v("applies", self.applies);
    v("mechanism", self.mechanism);
    v("signal", self.signal);
    v("evidence", self.evidence);
    v.optional("tried", self.tried);
  }
};

// One answer of `ridge tips search`.
struct KnowledgeHit {
  std::string kind;   // page | tip
  std::string id;     // of the entry, or the file of the tip
  std::string title;  // of the entry, or the tip's heading
  std::string text;   // all of it, for people
  std::int64_t score = 0;
  static void fields(auto& v, auto& self) {
    v("kind", self.kind);
    v("id", self.id);
    v("title", self.title);
    v("text", self.text);
    v("score", self.score);
  }
};

}  // namespace ridge::record
