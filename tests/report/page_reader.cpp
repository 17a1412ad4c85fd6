#include "report/page_reader.h"

#include <fmt/format.h>

#include <set>

namespace ridge::report::fixture {
namespace {

const std::set<std::string> kVoid = {"meta", "br", "link", "input"}, kRaw = {"style", "script"};

class Reader {
 public:
  explicit Reader(const std::string& html) : html_(html) {}

  Page read() {
    if (!html_.starts_with("<!DOCTYPE html>\n")) return fail("no doctype");
    position_ = 16;
    while (page_.error.empty() && position_ < html_.size()) {
      if (raw_text()) continue;
      html_[position_] == '<' ? tag() : text();
    }
    if (page_.error.empty() && !open_.empty()) fail("not closed: " + page_.elements[open_.back()].tag);
    return page_;
  }

 private:
  Page fail(const std::string& what) {
    page_.error = fmt::format("byte {}: {}: {}", position_, what, html_.substr(position_, 60));
    return page_;
  }

  std::string unescape(std::string raw) {
    static const std::map<std::string, std::string> kEntities = {
        {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"#39", "'"}};
    std::string plain;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '&') {
        plain += raw[i];
        continue;
      }
      const std::size_t end = raw.find(';', i);
      const auto found = end == std::string::npos ? kEntities.end() : kEntities.find(raw.substr(i + 1, end - i - 1));
      if (found == kEntities.end()) {
        fail("bare & in " + raw.substr(i, 20));
        return plain;
      }
      plain += found->second;
      i = end;
    }
    return plain;
  }

  // What is inside <style> and <script> ends at their end tag and knows no entities.
  bool raw_text() {
    if (open_.empty() || !kRaw.contains(page_.elements[open_.back()].tag)) return false;
    Element& element = page_.elements[open_.back()];
    const std::size_t end = html_.find("</" + element.tag + ">", position_);
    if (end == std::string::npos) return false;
    element.text += html_.substr(position_, end - position_);
    position_ = end;
    close();
    return true;
  }

  void text() {
    const std::size_t end = std::min(html_.find('<', position_), html_.size());
    std::string raw = html_.substr(position_, end - position_);
    if (!open_.empty()) page_.elements[open_.back()].text += unescape(raw);
    position_ = end;
  }

  void close() {
    const std::size_t end = html_.find('>', position_);
    const std::string name = html_.substr(position_ + 2, end - position_ - 2);
    if (open_.empty() || page_.elements[open_.back()].tag != name) {
      fail("closes " + name + " while open is " + (open_.empty() ? "nothing" : page_.elements[open_.back()].tag));
      return;
    }
    if (name == "svg") chart_ = -1;
    open_.pop_back();
    position_ = end + 1;
  }

  void tag() {
    if (html_.compare(position_, 2, "</") == 0) return close();
    Element element;
    std::size_t i = position_ + 1;
    while (i < html_.size() && std::isalnum(static_cast<unsigned char>(html_[i])) != 0) element.tag += html_[i++];
    if (element.tag.empty()) return void(fail("bare <"));
    while (i < html_.size() && html_[i] == ' ') {
      const std::size_t equals = html_.find('=', i);
      const std::string name = html_.substr(i + 1, equals - i - 1);
      if (html_[equals + 1] != '"') return void(fail("attribute without quotes"));
      const std::size_t end = html_.find('"', equals + 2);
      const std::string raw = html_.substr(equals + 2, end - equals - 2);
      if (raw.find('<') != std::string::npos) return void(fail("< in an attribute"));
      if (!element.attributes.emplace(name, unescape(raw)).second) return void(fail("attribute twice: " + name));
      i = end + 1;
    }
    const bool closed = html_.compare(i, 2, "/>") == 0;
    if (!closed && html_[i] != '>') return void(fail("malformed tag"));
    position_ = i + (closed ? 2 : 1);
    if (element.tag == "svg" && element.attributes["class"] == "chart") chart_ = charts_++;
    element.chart = chart_;
    page_.elements.push_back(element);
    if (!closed && !kVoid.contains(element.tag)) open_.push_back(page_.elements.size() - 1);
  }

  const std::string& html_;
  std::size_t position_ = 0;
  std::vector<std::size_t> open_;
  int chart_ = -1, charts_ = 0;
  Page page_;
};

}  // namespace

Page read_page(const std::string& html) { return Reader(html).read(); }

}  // namespace ridge::report::fixture
