#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/hash.h"
#include "journal/fold.h"
#include "places.h"
#include "record/json.h"
#include "report/charts.h"
#include "report/escape.h"
#include "report/fixture/campaigns.h"
#include "report/numbers.h"
#include "report/page_reader.h"
#include "report/report.h"

namespace ridge::report {
namespace {

using ::testing::AllOf;
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
    const auto folder = binary_dir() / "report-fixture" / name;
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

// Base64 of a digest given as hexadecimal digits.
std::string base64_of_hex(const std::string& hex) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits, text;
  for (const char digit : hex) bits += fmt::format("{:04b}", std::stoi(std::string(1, digit), nullptr, 16));
  while (bits.size() % 6 != 0) bits += "00";
  for (std::size_t i = 0; i < bits.size(); i += 6) text += kDigits[std::stoul(bits.substr(i, 6), nullptr, 2)];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

TEST(Html, RunsOnlyItsOwnScriptAndFetchesNothing) {
  const std::set<std::string> tags = {
      "html",     "head",    "meta",   "title",      "style", "body",   "header", "nav",  "main",
      "section",  "footer",  "h1",     "h2",         "h3",    "h4",     "p",      "ul",   "ol",
      "li",       "a",       "b",      "br",         "small", "span",   "code",   "pre",  "dl",
      "dt",       "dd",      "div",    "table",      "thead", "tbody",  "tr",     "th",   "td",
      "details",  "summary", "figure", "figcaption", "svg",   "desc",   "g",      "line", "rect",
      "polyline", "polygon", "circle", "path",       "text",  "button", "script"};
  for (const auto& page : all_pages()) {
    std::string policy;
    std::vector<std::string> scripts;
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
      if (element.tag == "script") scripts.push_back(element.text);
      if (element.tag == "meta" && element.attributes.contains("http-equiv")) policy = element.attributes.at("content");
    }
    ASSERT_EQ(scripts.size(), 1U) << page.name;
    EXPECT_THAT(scripts[0], Not(testing::ContainsRegex("fetch|XMLHttp|http|eval|innerHTML")));
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("script-src 'sha256-" + base64_of_hex(sha256(scripts[0])) + "'"));
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
    const double width = 7.0 * static_cast<double>(length_utf8(element.text));  // typical for 13 units, on a telephone
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

// The box of a mark of a series, of what svg.cpp draws.
std::optional<TextBox> mark_box(const fixture::Element& element) {
  const auto style = element.attributes.find("class");
  if (element.chart < 0 || style == element.attributes.end() || !style->second.starts_with("s-")) return std::nullopt;
  const auto number = [&](const char* name) { return std::stod(element.attributes.at(name)); };
  if (element.tag == "circle") {
    const double x = number("cx"), y = number("cy"), r = number("r");
    return TextBox{style->second, x - r, x + r, y - r, y + r};
  }
  if (element.tag == "rect") {
    const double x = number("x"), y = number("y");
    return TextBox{style->second, x, x + number("width"), y, y + number("height")};
  }
  return std::nullopt;
}

TEST(Html, NoLabelOfAChartCoversAMark) {
  for (const auto& page : all_pages()) {
    const auto labels = text_boxes(page.page);
    for (const auto& element : page.page.elements) {
      const std::optional<TextBox> mark = mark_box(element);
      if (!mark || static_cast<std::size_t>(element.chart) >= labels.size()) continue;
      for (const TextBox& a : labels[static_cast<std::size_t>(element.chart)]) {
        const bool apart =
            a.right <= mark->left || mark->right <= a.left || a.bottom <= mark->top || mark->bottom <= a.top;
        EXPECT_TRUE(apart) << page.name << ": \"" << a.words << "\" over a mark " << mark->words;
      }
    }
  }
}

TEST(Html, EveryShapeIsNamedInTheRoofline) {
  const Model model = model_of(fixture::full_answers());
  const fixture::Page page = fixture::read_page(html(model));
  std::set<std::string> named;
  for (const auto& element : page.elements) {
    if (element.chart == 0 && element.tag == "text") named.insert(element.text);
  }
  for (const auto& shape : model.shapes) EXPECT_TRUE(named.contains(shape.key)) << shape.key;
}

TEST(Html, TheRooflineHasTheUnitOfTheText) {
  const std::string page = html(model_of(fixture::full_answers()));
  EXPECT_THAT(page, HasSubstr(">GFLOP/s</text>"));
  EXPECT_THAT(page, HasSubstr("GFLOP/s, geometric mean over 5 shapes"));
  EXPECT_THAT(page, HasSubstr(">131 GFLOP/s cited</text>"));
}

// Relative luminance and contrast as WCAG 2 defines them.
double luminance(const std::string& colour) {
  double sum = 0;
  const double weights[] = {0.2126, 0.7152, 0.0722};
  for (std::size_t i = 0; i < 3; ++i) {
    const double value = std::stoi(colour.substr(2 * i, 2), nullptr, 16) / 255.0;
    sum += weights[i] * (value <= 0.03928 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4));
  }
  return sum;
}

double contrast(const std::string& a, const std::string& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(Html, WordsHaveEnoughContrastInLightAndDark) {
  const std::string page = html(model_of(fixture::only_created()));
  const std::regex theme(":root \\{([^}]*)\\}"), colour("--([a-z0-9-]+): #([0-9a-f]{6})");
  int themes = 0;
  for (std::sregex_iterator found(page.begin(), page.end(), theme), end; found != end; ++found, ++themes) {
    const std::string body = (*found)[1];
    std::map<std::string, std::string> colours;
    for (std::sregex_iterator one(body.begin(), body.end(), colour); one != std::sregex_iterator(); ++one)
      colours[(*one)[1]] = (*one)[2];
    for (const char* words : {"ink", "soft", "link", "good", "total", "rejected", "bad", "roof"}) {
      for (const char* under : {"paper", "wash"})
        EXPECT_GE(contrast(colours.at(words), colours.at(under)), 4.5) << words << " on " << under;
    }
    EXPECT_GE(contrast(colours.at("added"), colours.at("added-wash")), 4.5);
    EXPECT_GE(contrast(colours.at("removed"), colours.at("removed-wash")), 4.5);
    for (int part = 0; part < 8; ++part) {  // as .part-t0 to .part-t7 have it
      const std::string words = part == 0 || part == 7 ? colours.at("paper") : "111111";
      EXPECT_GE(contrast(colours.at(fmt::format("p{}", part)), words), 4.5) << "part " << part;
    }
  }
  EXPECT_EQ(themes, 2);
}

// Of every chart in its own units.
std::vector<double> chart_widths(const fixture::Page& page) {
  std::vector<double> widths;
  for (const auto& element : page.elements) {
    if (element.tag != "svg" || element.chart < 0 || !element.attributes.contains("aria-labelledby")) continue;
    std::istringstream box(element.attributes.at("viewBox"));
    double left = 0, top = 0, width = 0;
    box >> left >> top >> width;
    widths.push_back(width);
  }
  return widths;
}

TEST(Html, LabelsStayInsideTheirCharts) {
  for (const auto& page : all_pages()) {
    const std::vector<double> widths = chart_widths(page.page);
    const auto charts = text_boxes(page.page);
    ASSERT_LE(charts.size(), widths.size()) << page.name;
    for (std::size_t chart = 0; chart < charts.size(); ++chart) {
      for (const TextBox& box : charts[chart]) {
        EXPECT_GE(box.left, -2) << page.name << " " << box.words;
        EXPECT_LE(box.right, widths[chart] + 4) << page.name << " " << box.words;
      }
    }
  }
}

TEST(Html, TheHeatMapHasACellWithItsSignForEveryMeasuredShape) {
  const Model model = model_of(fixture::nine_rounds());
  const std::string map = heat_map(model, 2, 10);
  const record::Effect& gain = model.rounds.front().decision->effects.at(1);
  EXPECT_THAT(map, HasSubstr(fmt::format("round 2, {}: {} (accepted)", gain.label, gain_text(gain.ratio - 1))));
  EXPECT_THAT(map, HasSubstr(">+</text>"));
  EXPECT_THAT(map, HasSubstr("round 2 was accepted"));
  EXPECT_THAT(heat_map(model, 2, 2), Not(HasSubstr("round 3,")));
  EXPECT_EQ(heat_map(model, 5, 5), "") << "it crashed: nothing was measured";
  EXPECT_EQ(heat_map(model_of(fixture::only_created()), 2, 10), "");
  Model slower = model;
  for (auto& effect : slower.rounds.front().decision->effects) effect.ratio = 1 / effect.ratio;
  EXPECT_THAT(heat_map(slower, 2, 2), AllOf(HasSubstr("class=\"hm4\""), HasSubstr(">−</text>")));
}

TEST(Html, EvidenceIsShownWhereTheSessionsGiveTheDecisionsOwn) {
  const auto journal = fixture::nine_rounds();
  const Model model = model_of(journal);
  const record::ReportRound& round = model.rounds.front();
  ASSERT_EQ(round.evidence.size(), 13u);
  EXPECT_DOUBLE_EQ(round.evidence.back(), round.decision->evidence);
  EXPECT_THAT(evidence_chart("e", round),
              AllOf(HasSubstr("2400 needed to accept"), HasSubstr("after 13 sessions: E = ")));
  Result<journal::State> state = journal::fold(journal.events());
  ASSERT_TRUE(state.ok());
  state->rounds.front().decision->evidence *= 1.01;
  EXPECT_TRUE(draw(*state).rounds.front().evidence.empty());
}

TEST(Html, TheTimelineHasEveryEffectWhereItWas) {
  const Model model = model_of(fixture::nine_rounds());
  double end = 0;
  for (const record::ReportSpan& span : model.timeline) {
    EXPECT_GE(span.start + 1e-6, end) << span.activity << ": one after the other";
    end = span.start + span.seconds;
  }
  EXPECT_LE(end, model.active_seconds + 1e-6);
  EXPECT_THAT(timeline_chart(model), AllOf(HasSubstr(">evaluate</text>"), HasSubstr("evaluate, round 2: ")));
  EXPECT_EQ(timeline_chart(model_of(fixture::only_created())), "");
}

TEST(Html, UntrustedTextStaysText) {
  const std::string page = html(model_of(fixture::hostile_texts()));
  // The page's own script is the only one.
  EXPECT_EQ(page.find("<script"), page.rfind("<script"));
  EXPECT_THAT(page, HasSubstr("<script>for (const button of"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page,
              HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt; a|b &quot;quoted&quot; &#39;single&#39; &amp; done"));
  EXPECT_THAT(page, HasSubstr("&lt;/pre&gt;&lt;script&gt;alert(4)"));
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_THAT(page, Not(HasSubstr("\u202e")));
  EXPECT_EQ(clean_utf8(page), page);
}

// The words of an element and of everything up to the next element of the kind.
std::string between(const std::string& page, const std::string& from, const std::string& to) {
  const std::size_t start = page.find(from);
  if (start == std::string::npos) return {};
  return page.substr(start, page.find(to, start) - start);
}

TEST(Html, AnswersComeFirstAndInTheOrderOfTheQuestions) {
  for (const auto& page : all_pages()) {
    std::vector<std::string> order;
    for (const auto& element : page.page.elements) {
      const auto id = element.attributes.find("id");
      if (element.tag == "h1") order.emplace_back("h1");
      if (id != element.attributes.end() && (element.tag == "section" || id->second.starts_with("answer-")))
        order.push_back(id->second);
    }
    ASSERT_GE(order.size(), 6U);
    EXPECT_THAT(std::vector<std::string>(order.begin(), order.begin() + 6),
                testing::ElementsAre("h1", "answer-speed", "answer-good", "answer-changes", "answer-next", "stands"));
  }
}

TEST(Html, TheFirstScreenAnswersWithFigures) {
  const Model model = model_of(fixture::full_answers());
  const std::string page = html(model);
  const std::string title = between(page, "<h1>", "</h1>");
  EXPECT_THAT(title, testing::ContainsRegex("gemm on AMD EPYC 9B14: 4\\.[0-9]+× as fast "
                                            "\\(3\\.[0-9]+× to [45]\\.[0-9]+× over 5 shapes\\)"));
  const std::string good = between(page, "id=\"answer-good\"", "id=\"answer-changes\"");
  EXPECT_THAT(good, HasSubstr("of the measured ceiling"));
  EXPECT_THAT(good, HasSubstr("104 GFLOP/s (fma_f32)"));
  EXPECT_THAT(good, HasSubstr("131.2 GFLOPS for fma_f32"));
  EXPECT_THAT(good, testing::ContainsRegex("0\\.[45][0-9]+× the speed of the best peer, cpu_onednn \\(3 of 5 shapes"));
  const std::string changes = between(page, "id=\"answer-changes\"", "id=\"answer-next\"");
  EXPECT_THAT(changes, testing::ContainsRegex("Round 2: MR 1 → 6, NR 8 → 16 \\(\\+3[0-9][0-9]"));
  EXPECT_THAT(changes, HasSubstr("1 accepted, 0 rolled back, 2 not measured"));
  const std::string next = between(page, "id=\"answer-next\"", "<nav");
  for (const char* word : {"g++", "-DMR=6", "export-kernel", "verify", "replay", "extend", "class=\"copy\""})
    EXPECT_THAT(next, HasSubstr(word));
}

TEST(Html, ALongTitleDoesNotFillTheFirstScreen) {
  const std::string page = html(model_of(fixture::long_labels()));
  const std::string changes = between(page, "id=\"answer-changes\"", "id=\"answer-next\"");
  EXPECT_THAT(changes, HasSubstr(std::string(99, 'W') + "…"));
  EXPECT_THAT(changes, Not(HasSubstr(std::string(100, 'W'))));
}

TEST(Html, TheFastestPeerOfTheFinalMeasurementIsThePeer) {
  EXPECT_THAT(html(model_of(fixture::with_peers())),
              HasSubstr("0.800× the speed of the best peer, cpu_onednn (5 of 5 shapes, measured in turns)"));
}

TEST(Html, SaysSoWhenNoPeerWasMeasured) {
  EXPECT_THAT(html(model_of(fixture::nine_rounds())), HasSubstr("No other implementation was measured"));
}

TEST(Html, APausedCampaignSaysFirstHowToGoOn) {
  const std::string next = between(html(model_of(fixture::paused_in_a_round())), "id=\"answer-next\"", "<nav");
  EXPECT_THAT(next, HasSubstr("Paused: go on with resume"));
  EXPECT_THAT(between(next, "<code>", "</code>"), HasSubstr("resume"));
  EXPECT_THAT(markdown(model_of(fixture::paused_in_a_round())), HasSubstr("```sh\nridge campaign resume .\n```"));
}

TEST(Html, ARoundThatWasNotMeasuredIsNotCalledRolledBack) {
  const Model model = model_of(fixture::full_answers());
  EXPECT_EQ(model.rolled_back, 0);
  EXPECT_EQ(model.not_settled, 0);
  EXPECT_EQ(model.not_measured, 2);
  const std::string page = html(model);
  const std::string rounds = between(page, "<section id=\"rounds\"", "<section id=\"lineage\"");
  EXPECT_THAT(rounds, Not(HasSubstr("rolled back</span>")));
  EXPECT_THAT(rounds, HasSubstr("<span class=\"reason\">the budget is used up</span>"));
  EXPECT_THAT(rounds, HasSubstr("<span class=\"reason\">every session to confirm it was void (steal)"));
  EXPECT_THAT(status_text(model), HasSubstr("not measured"));
}

TEST(Html, AnAcceptedRoundShowsItsChangeAndTheColouredSource) {
  const std::string page = html(model_of(fixture::nine_rounds()));
  const std::string tile = between(page, "id=\"round-2\"", "id=\"round-3\"");
  EXPECT_THAT(tile, testing::ContainsRegex("MR 1 → 6, NR 8 → 16 <span class=\"gain\">\\(\\+3[0-9][0-9] %\\)"));
  EXPECT_THAT(tile, HasSubstr("rows of the register tile"));
  const std::string pack = between(page, "id=\"round-4\"", "id=\"round-5\"");
  EXPECT_THAT(pack, HasSubstr("Source: kernel.cpp (+"));
  EXPECT_THAT(pack, HasSubstr("<span class=\"add\">+  const float* b = pack_b(call);"));
  EXPECT_THAT(pack, HasSubstr("<span class=\"del\">-  const float* b = call-&gt;b;"));
}

TEST(Html, SessionsAreFoldedToTheirCounts) {
  const Model model = model_of(fixture::full_answers());
  EXPECT_THAT(html(model), HasSubstr("<summary>Sessions: 13 counted, 1 to screen, 5 void (clock)</summary>"));
  EXPECT_THAT(markdown(model), HasSubstr("<summary>Sessions: 13 counted, 1 to screen, 5 void (clock)</summary>"));
}

TEST(Html, ShapesAreNamedByWhatVaries) {
  const std::string page = html(model_of(fixture::full_answers()));
  EXPECT_THAT(page, HasSubstr("Shapes, all with dtype=f32 out=same layout=nn batch=1 bias=0:"));
  EXPECT_THAT(page, Not(HasSubstr("k=256 dtype=f32")));
}

TEST(Html, TellsANewcomerTheMainFacts) {
  const Model model = model_of(fixture::nine_rounds());
  const std::string page = html(model);
  for (const char* fact : {"AMD EPYC 9B14", "efficiency target was reached", "4 accepted, 4 rolled back, 1 not settled",
                           "at most 5 %", ">verify</span>", ">replay</span>", "What is not claimed", "A/A calibration",
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

TEST(Markdown, HasTheSameAnswersInTheSameOrder) {
  for (const auto& page : all_pages()) {
    std::size_t last = 0;
    for (const char* heading : {"# ", "\n## How fast?\n", "\n## Is it good?\n", "\n## What changed?\n",
                                "\n## What now?\n", "\n## Where the kernel stands\n", "\n## Rounds\n"}) {
      const std::size_t at = page.markdown.find(heading, last);
      ASSERT_NE(at, std::string::npos) << page.name << heading;
      last = at;
    }
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
