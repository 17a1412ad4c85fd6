// A strict reader of the pages we write: enough of HTML to see whether one is well formed and self-contained.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ridge::report::fixture {

struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::string text;  // character data directly inside, entities undone
  int chart = -1;    // which <svg class="chart"> it is in; -1 outside
};

struct Page {
  std::vector<Element> elements;  // in the order of their start tags
  std::string error;              // empty: well formed
};

// Every start tag must be closed in order (void elements and "/>" excepted), attributes quoted, `<` and `&` escaped.
Page read_page(const std::string& html);

}  // namespace ridge::report::fixture
