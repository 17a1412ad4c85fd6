#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "base/files.h"
#include "record/json.h"
#include "report/escape.h"
#include "report/fixture/campaigns.h"
#include "report/page_reader.h"
#include "report/report.h"

namespace ridge::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Model model_of(const fixture::JournalBuilder& journal) {
  const Result<Model> model = fold(journal.events());
  EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
  return model.ok() ? *model : Model{};
}

// Read once; every test looks at all of them.
struct Rendered {
  std::string name;
  Model model;
  std::string html, markdown;
  fixture::Page page;
};

const std::vector<Rendered>& all_pages() {
  static const std::vector<Rendered> kPages = [] {
    std::vector<Rendered> pages;
    for (const auto& [name, journal] : fixture::all_campaigns()) {
      const Model model = model_of(journal);
      const std::string text = html(model);
      pages.push_back({name, model, text, markdown(model), fixture::read_page(text)});
    }
    return pages;
  }();
  return kPages;
}

// Leaves the pages in the build folder, to be looked at.
TEST(Report, WritesItsThreeFilesForEveryKindOfCampaign) {
  for (const auto& [name, journal] : fixture::all_campaigns()) {
    const auto folder = std::filesystem::path(RIDGE_BINARY_DIR) / "report-fixture" / name;
    journal.write(folder);
    const Result<Model> model = load(folder);
    ASSERT_TRUE(model.ok()) << name << ": " << model.error().text();
    ASSERT_TRUE(write(folder, *model).ok()) << name;
    EXPECT_EQ(*read_file(folder / kHtmlPath), html(*model));
    EXPECT_EQ(*read_file(folder / kMarkdownPath), markdown(*model));
    EXPECT_EQ(*read_file(folder / kJsonPath), json(*model));
  }
}

TEST(Report, TheSameJournalGivesTheSameBytes) {
  const fixture::JournalBuilder journal = fixture::nine_rounds();
  const Model first = model_of(journal), second = model_of(journal);
  EXPECT_EQ(html(first), html(second));
  EXPECT_EQ(markdown(first), markdown(second));
  EXPECT_EQ(json(first), json(second));
  EXPECT_EQ(status_text(first), status_text(second));
}

TEST(Report, EveryRoundsReasonIsInAllThreeFormats) {
  for (const auto& page : all_pages()) {
    const std::string data = json(page.model);
    for (const auto& round : page.model.rounds) {
      ASSERT_FALSE(round.reason.empty()) << page.name << " round " << round.round;
      EXPECT_THAT(page.html, HasSubstr(escape_html(round.reason)));
      EXPECT_THAT(page.markdown, HasSubstr(escape_markdown(round.reason)));
      const std::string quoted = dump_json(Json(clean_utf8(round.reason)));
      EXPECT_THAT(data, HasSubstr(quoted));
    }
  }
}

TEST(Html, IsWellFormed) {
  for (const auto& page : all_pages()) EXPECT_EQ(page.page.error, "") << page.name;
}

TEST(Html, HasNoScriptAndFetchesNothing) {
  const std::set<std::string> tags = {
      "html",   "head",  "meta",  "title", "style",    "body",    "header",  "nav",     "main",   "section",
      "footer", "h1",    "h2",    "h3",    "h4",       "p",       "ul",      "ol",      "li",     "a",
      "b",      "br",    "small", "span",  "code",     "pre",     "dl",      "dt",      "dd",     "div",
      "table",  "thead", "tbody", "tr",    "th",       "td",      "details", "summary", "figure", "figcaption",
      "svg",    "desc",  "g",     "line",  "polyline", "polygon", "rect",    "circle",  "path",   "text"};
  for (const auto& page : all_pages()) {
    for (const auto& element : page.page.elements) {
      EXPECT_TRUE(tags.contains(element.tag)) << page.name << " <" << element.tag << ">";
      for (const auto& [name, value] : element.attributes) {
        EXPECT_FALSE(name.starts_with("on") || name == "src" || name == "style" || name.ends_with(":href")) << name;
        if (name == "href") {
          EXPECT_TRUE(value.starts_with("#")) << value;
        }
      }
      if (element.tag == "style") {
        EXPECT_THAT(element.text, Not(testing::ContainsRegex("url\\(|@import|http")));
      }
    }
  }
}

TEST(Html, EveryLinkAndEveryLabelHasItsTargetAndIdsAreUnique) {
  for (const auto& page : all_pages()) {
    std::set<std::string> ids;
    for (const auto& element : page.page.elements) {
      const auto id = element.attributes.find("id");
      if (id != element.attributes.end()) {
        EXPECT_TRUE(ids.insert(id->second).second) << page.name << " " << id->second;
      }
    }
    for (const auto& element : page.page.elements) {
      const auto href = element.attributes.find("href");
      if (href != element.attributes.end()) {
        EXPECT_TRUE(ids.contains(href->second.substr(1))) << href->second;
      }
      const auto label = element.attributes.find("aria-labelledby");
      if (label != element.attributes.end()) {
        EXPECT_TRUE(ids.contains(label->second.substr(0, label->second.find(' '))));
      }
    }
  }
}

TEST(Html, EveryChartHasATitleADescriptionAndFiniteCoordinates) {
  const std::set<std::string> numeric = {"x",  "y", "x1",    "x2",     "y1",     "y2", "cx",
                                         "cy", "r", "width", "height", "points", "d"};
  const std::regex number("[-+]?[0-9]+(\\.[0-9]+)?");
  int charts = 0;
  for (const auto& page : all_pages()) {
    for (const auto& element : page.page.elements) {
      if (element.tag == "svg" && element.chart >= 0) {
        ++charts;
        EXPECT_EQ(element.attributes.at("role"), "img");
      }
      if (element.chart < 0) continue;
      for (const auto& [name, value] : element.attributes) {
        if (!numeric.contains(name)) continue;
        const std::string rest = std::regex_replace(value, number, "");
        EXPECT_EQ(rest.find_first_not_of(" ,MLZ"), std::string::npos) << page.name << " " << name << "=" << value;
      }
    }
  }
  EXPECT_GT(charts, 20);
}

struct TextBox {
  std::string words;
  double left, right, top, bottom;
};

std::vector<std::vector<TextBox>> text_boxes(const fixture::Page& page) {
  std::vector<std::vector<TextBox>> charts;
  for (const auto& element : page.elements) {
    if (element.chart < 0 || element.tag != "text" || element.attributes.contains("transform")) continue;
    const double width = 6.2 * static_cast<double>(length_utf8(element.text));  // typical for a 12.5 unit font
    const double x = std::stod(element.attributes.at("x")), y = std::stod(element.attributes.at("y"));
    const std::string& anchor = element.attributes.at("text-anchor");
    const double left = anchor == "start" ? x : anchor == "middle" ? x - width / 2 : x - width;
    charts.resize(std::max(charts.size(), static_cast<std::size_t>(element.chart) + 1));
    charts[static_cast<std::size_t>(element.chart)].push_back({element.text, left, left + width, y - 9, y + 2});
  }
  return charts;
}

TEST(Html, NoTwoLabelsOfAChartOverlap) {
  for (const auto& page : all_pages()) {
    for (const auto& boxes : text_boxes(page.page)) {
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          const TextBox &a = boxes[i], &b = boxes[j];
          const bool apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
          EXPECT_TRUE(apart) << page.name << ": \"" << a.words << "\" over \"" << b.words << "\"";
        }
      }
    }
  }
}

TEST(Html, LabelsStayInsideTheirCharts) {
  for (const auto& page : all_pages()) {
    for (const auto& boxes : text_boxes(page.page)) {
      for (const TextBox& box : boxes) {
        EXPECT_GE(box.left, -2) << page.name << " " << box.words;
        EXPECT_LE(box.right, 456) << page.name << " " << box.words;
      }
    }
  }
}

TEST(Html, UntrustedTextStaysText) {
  const std::string page = html(model_of(fixture::hostile_texts()));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page,
              HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt; a|b &quot;quoted&quot; &#39;single&#39; &amp; done"));
  EXPECT_THAT(page, HasSubstr("&lt;/pre&gt;&lt;script&gt;alert(4)"));
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_THAT(page, Not(HasSubstr("\u202e")));
  EXPECT_EQ(clean_utf8(page), page);
}

TEST(Html, TellsANewcomerTheMainFacts) {
  const Model model = model_of(fixture::nine_rounds());
  const std::string page = html(model);
  for (const char* fact :
       {"AMD EPYC 9B14", "efficiency target was reached", "4 accepted, 4 rolled back, 1 not settled", "at most 5 %",
        "ridge campaign verify .</code>", "ridge campaign replay .</code>", "What is not claimed", "A/A calibration",
        "winner&#39;s curse", "prefers-color-scheme: dark", "@media print"}) {
    EXPECT_THAT(page, HasSubstr(fact));
  }
}

// Cells of a Markdown table row: separators are pipes without a backslash.
int cells(const std::string& line) {
  int pipes = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '|' && (i == 0 || line[i - 1] != '\\')) ++pipes;
  }
  return pipes;
}

TEST(Markdown, EveryRowOfATableHasAsManyCellsAsItsHead) {
  for (const auto& page : all_pages()) {
    int expected = 0;
    bool fenced = false;
    std::size_t start = 0;
    while (start < page.markdown.size()) {
      const std::size_t end = page.markdown.find('\n', start);
      const std::string line = page.markdown.substr(start, end - start);
      start = end + 1;
      if (line.starts_with("```")) fenced = !fenced;
      if (fenced || !line.starts_with("|")) {
        expected = 0;
        continue;
      }
      if (expected == 0) expected = cells(line);
      EXPECT_EQ(cells(line), expected) << page.name << ": " << line;
    }
    EXPECT_FALSE(fenced) << page.name;
  }
}

TEST(Markdown, UntrustedTextStaysText) {
  const std::string page = markdown(model_of(fixture::hostile_texts()));
  // Inside a fence text is text, and the fence is longer than any run of back quotes in it.
  const std::size_t fence = page.find("````text\n"), end = page.find("\n````\n");
  ASSERT_LT(fence, end);
  EXPECT_THAT(page.substr(fence, end - fence), HasSubstr("``` </pre><script>alert(4)</script>"));
  EXPECT_THAT(page.substr(0, fence) + page.substr(end), Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("a\\|b"));
  EXPECT_THAT(page, HasSubstr("\\[link\\](http://x)"));
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
}

TEST(Status, FitsAScreenAndShowsTheLastRounds) {
  const std::string text = status_text(model_of(fixture::sixty_rounds()), 5);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 30);
  EXPECT_THAT(text, HasSubstr("Last 5 of 60 rounds"));
  EXPECT_THAT(text, HasSubstr("\n   61  "));
  EXPECT_THAT(text, Not(HasSubstr("\n   56  ")));
}

TEST(Status, DoesNotLetATitleSteerTheTerminal) {
  const std::string text = status_text(model_of(fixture::hostile_texts()));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("& done second line"));
}

}  // namespace
}  // namespace ridge::report
