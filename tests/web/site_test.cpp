// The pages over HTTP: what they say of every kind of campaign, what they do not let through, how fast they are.
#include "web/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "campaign/lock.h"
#include "http/client.h"
#include "places.h"
#include "record/json.h"
#include "record/progress.h"
#include "report/fixture/campaigns.h"
#include "report/page_reader.h"
#include "web/campaign_page.h"
#include "web/many_rounds.h"

namespace ridge::web {
namespace {

namespace fs = std::filesystem;
using http::get;
using http::post;
using http::TestClient;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

double seconds_of(const std::function<void()>& call) {
  const auto began = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : answer.substr(end + 4);
}

class WebSite : public testing::Test {
 protected:
  void SetUp() override {
    Result<TempDir> folder = TempDir::create("ridge-web");
    ASSERT_TRUE(folder.ok());
    folder_.emplace(std::move(*folder));
  }
  [[nodiscard]] fs::path root() const { return folder_->path(); }
  void serve(SiteOptions options = {}) {
    if (options.roots.empty()) options.roots = {root()};
    site_.emplace(std::move(options));
    const Status started = site_->start();
    ASSERT_TRUE(started.ok()) << started.error().text();
  }
  // Until no campaign is being read any more.
  void wait_for_reading() {
    for (int i = 0; i < 600; ++i) {
      const auto cards = site_->store().cards();
      if (std::ranges::none_of(cards, [](const auto& card) { return card.state == "reading"; })) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    FAIL() << "campaigns are still being read";
  }
  std::string ask(const std::string& request) { return TestClient(site_->server().port()).ask(request, 20); }
  std::string page(const std::string& path) { return body_of(ask(get(path))); }
  record::CampaignCard card(const std::string& id) {
    const Result<record::CampaignCard> card = site_->store().card(id);
    return card ? *card : record::CampaignCard{};
  }

  std::optional<TempDir> folder_;
  std::optional<Site> site_;
};

// Every rule that a page keeps whatever is in it.
void expect_clean(const std::string& html, const std::string& what) {
  const report::fixture::Page page = report::fixture::read_page(html);
  EXPECT_EQ(page.error, "") << what;
  std::set<std::string> ids;
  int headings = 0;
  for (const auto& element : page.elements) {
    headings += element.tag == "h1" ? 1 : 0;
    EXPECT_NE(element.tag, "style") << what;
    if (element.tag == "script") {
      EXPECT_EQ(element.attributes.at("src"), "/site.js") << what;
    }
    for (const auto& [name, value] : element.attributes) {
      EXPECT_FALSE(name.starts_with("on") || name == "style") << what << ": " << name;
      if (name == "href") {
        EXPECT_TRUE(value.starts_with("/") || value.starts_with("#")) << what << ": " << value;
      }
      if (name == "id") {
        EXPECT_TRUE(ids.insert(value).second) << what << ": id " << value << " twice";
      }
    }
    const bool named = element.attributes.contains("aria-label") || !element.text.empty();
    if (element.tag == "button") {
      EXPECT_TRUE(named) << what << ": a button without a name";
    }
  }
  EXPECT_EQ(headings, 1) << what;
}

TEST_F(WebSite, EveryPageOfEveryKindOfCampaignIsWellFormed) {
  for (const auto& [name, journal] : report::fixture::all_campaigns()) journal.write(root() / name);
  serve();
  wait_for_reading();
  for (const char* path : {"/", "/device", "/library", "/compare", "/compare?c=hostile-texts&c=sixty-rounds"})
    expect_clean(page(path), path);
  for (const auto& [name, journal] : report::fixture::all_campaigns()) {
    const std::string path = "/campaign/" + name;
    expect_clean(page(path), path);
    expect_clean(page("/device/" + name), "/device/" + name);
    const Result<report::Model> model = report::fold(journal.events());
    ASSERT_TRUE(model.ok());
    for (const auto& round : std::span(model->rounds).first(std::min<std::size_t>(model->rounds.size(), 4))) {
      const std::string round_path = fmt::format("{}/round/{}", path, round.round);
      const std::string html = page(round_path);
      expect_clean(html, round_path);
      EXPECT_THAT(html, HasSubstr(fmt::format("<h1>Round {}: ", round.round)));
    }
  }
}

TEST_F(WebSite, TheOverviewSaysWhereEveryCampaignStands) {
  report::fixture::full_answers().write(root() / "done");
  report::fixture::paused_in_a_round().write(root() / "waits");
  report::fixture::only_created().write(root() / "fresh");
  serve();
  wait_for_reading();
  const record::CampaignCard done = card("done");
  ASSERT_TRUE(done.speedup && done.low && done.high && done.share);
  EXPECT_LT(*done.low, *done.speedup);
  EXPECT_GT(*done.high, *done.speedup);
  EXPECT_GT(done.speeds.size(), 2u);
  EXPECT_EQ(card("waits").state, "paused");
  EXPECT_EQ(card("fresh").state, "draft");
  const std::string html = page("/");
  EXPECT_THAT(html, AllOf(HasSubstr("3 campaigns"), HasSubstr("/campaign/done"),
                          HasSubstr("Best so far over the rounds"), HasSubstr("Compare done")));
  const Result<std::vector<record::CampaignCard>> cards =
      record::parse_record<std::vector<record::CampaignCard>>(page("/campaigns.json"));
  ASSERT_TRUE(cards.ok()) << cards.error().text();
  EXPECT_EQ(cards->size(), 3u);
}

TEST_F(WebSite, TheListIsFilteredSortedAndCompared) {
  report::fixture::nine_rounds().write(root() / "nine");
  report::fixture::many_rounds("sixty", 60).write(root() / "sixty");
  report::fixture::paused_in_a_round().write(root() / "waits");
  serve();
  wait_for_reading();
  const auto ids = [&](const std::string& query) {
    std::vector<std::string> found;
    const auto cards = record::parse_record<std::vector<record::CampaignCard>>(page("/campaigns.json" + query));
    if (cards)
      for (const auto& card : *cards) found.push_back(card.id);
    return found;
  };
  EXPECT_THAT(ids("?q=SIXTY"), testing::ElementsAre("sixty"));
  EXPECT_THAT(ids("?q=gemm+nothing"), testing::IsEmpty());
  EXPECT_THAT(ids("?state=paused"), testing::ElementsAre("waits"));
  EXPECT_THAT(ids("?sort=name"), testing::ElementsAre("nine", "sixty", "waits"));
  EXPECT_EQ(ids("?sort=rounds").front(), "sixty");
  const std::string html = page("/compare?c=nine&c=sixty");
  EXPECT_THAT(html, AllOf(HasSubstr("Side by side"), HasSubstr("/campaign/nine"), HasSubstr("/campaign/sixty"),
                          HasSubstr("Speed-up of each")));
  EXPECT_THAT(ask(get("/compare?c=nine&c=none")), StartsWith("HTTP/1.1 404"));
}

TEST_F(WebSite, ARoundSaysWhyInOneSentenceWithItsNumbers) {
  report::fixture::nine_rounds().write(root() / "nine");
  serve();
  wait_for_reading();
  const std::string accepted = page("/campaign/nine/round/2");
  EXPECT_THAT(accepted, AllOf(HasSubstr("<p class=\"why verdict\">Accepted: "), HasSubstr("of the 2400 needed")));
  expect_clean(page("/campaign/nine/round/2/rules"), "rules");
  EXPECT_THAT(page("/campaign/nine/round/2/rules"), HasSubstr("Written rules in round 2"));
  EXPECT_THAT(page("/campaign/nine/rules"), HasSubstr("What that rests on"));
  EXPECT_THAT(ask(get("/campaign/nine/round/99/rules")), Not(StartsWith("HTTP/1.1 200")));
  EXPECT_THAT(accepted, AllOf(HasSubstr("Gain over the incumbent, with intervals"), HasSubstr("What the proposer saw"),
                              HasSubstr("rel=\"next\"")));
  bool refused = false;
  for (int i = 2; i <= 10; ++i) {
    const std::string html = page(fmt::format("/campaign/nine/round/{}", i));
    refused = refused || html.find("<p class=\"why verdict\">Not accepted: stopped by ") != std::string::npos;
  }
  EXPECT_TRUE(refused);
}

TEST_F(WebSite, NoTextOfAProposerBecomesMarkup) {
  report::fixture::hostile_texts().write(root() / "<b>evil</b> & \"co\"");
  serve();
  wait_for_reading();
  for (const std::string& path : {std::string("/"), std::string("/campaign/%3Cb%3Eevil%3C%2Fb%3E%20%26%20%22co%22")}) {
    const std::string answer = ask(get(path));
    EXPECT_THAT(answer, AllOf(Not(HasSubstr("<script>")), Not(HasSubstr("<img")), Not(HasSubstr("<b>evil"))));
    EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'"));
  }
}

TEST_F(WebSite, ANewLineIsSeenWithinASecond) {
  const auto journal = report::fixture::nine_rounds();
  const std::vector<std::string> lines = split(journal.text(), '\n');
  fs::create_directories(root() / "live");
  const fs::path file = root() / "live" / "journal.jsonl";
  std::size_t written = lines.size() / 2;
  {
    std::ofstream out(file);
    for (std::size_t i = 0; i < written; ++i) out << lines[i] << '\n';
  }
  serve();
  wait_for_reading();
  TestClient follower(site_->server().port());
  follower.send(get("/events"));
  follower.read_until("data: following");
  const auto before = card("live");
  const double seconds = seconds_of([&] {
    std::ofstream out(file, std::ios::app);
    for (; written + 1 < lines.size(); ++written) out << lines[written] << '\n';
    out.close();
    EXPECT_THAT(follower.read_until("data: live"), HasSubstr("event: campaign"));
  });
  EXPECT_LT(seconds, 1.0);
  EXPECT_GT(card("live").rounds, before.rounds);
  EXPECT_THAT(page("/campaign/live"), HasSubstr("Round 10"));
}

TEST_F(WebSite, WhatIsBeingDoneIsToldWithoutThePage) {
  report::fixture::no_accepted_round().write(root() / "live");
  const auto lock = campaign::CampaignLock::acquire(root() / "live");
  ASSERT_TRUE(lock.ok());
  const auto self = campaign::current_process();
  record::CampaignProgress now;
  now.pid = self.pid;
  now.boot_id = self.boot_id;
  now.start_time = self.start_time;
  now.step = "build, check and measure the candidate";
  const auto write = [&](const std::string& detail) {
    now.detail = detail;
    ASSERT_TRUE(write_file_durably(root() / "live" / "progress.json", record::to_line(now)).ok());
  };
  write("session 1");
  serve();
  wait_for_reading();
  EXPECT_EQ(card("live").state, "running");
  EXPECT_THAT(page("/campaign/live"), AllOf(HasSubstr("<span data-doing=\"live\">"), HasSubstr("session 1")));
  TestClient follower(site_->server().port());
  follower.send(get("/events"));
  follower.read_until("data: following");
  write("session 2");
  EXPECT_THAT(follower.read_until("session 2"),
              AllOf(HasSubstr("event: doing\ndata: live\ndata: "), Not(HasSubstr("event: campaign"))));
  EXPECT_THAT(page("/"), HasSubstr("session 2"));
}

TEST_F(WebSite, AJournalThatIsCutForgedOrNewerIsShownAsSuch) {
  const std::string text = report::fixture::nine_rounds().text();
  const auto write = [&](const std::string& name, const std::string& journal) {
    fs::create_directories(root() / name);
    std::ofstream(root() / name / "journal.jsonl") << journal;
  };
  write("cut", text.substr(0, text.size() - 100));
  std::string forged = text;
  const std::size_t at = forged.find("\"accepted\":true");
  ASSERT_NE(at, std::string::npos);
  forged.replace(at, 15, "\"accepted\":null");
  write("forged", forged);
  // A kind of event that this version does not know, chained and hashed as it should be.
  record::Event event = report::fixture::nine_rounds().events().back();
  event.previous = event.hash;
  event.sequence += 1;
  event.hash.clear();
  std::string line = record::to_line(event);
  const std::string kind = "\"kind\":\"" + std::string(record::name_of(event.kind)) + "\"";
  ASSERT_NE(line.find(kind), std::string::npos);
  line.replace(line.find(kind), kind.size(), "\"kind\":\"teleported\"");
  const std::string hash = sha256(line);
  line.replace(line.rfind("\"hash\":\"\""), 9, "\"hash\":\"" + hash + "\"");
  write("newer", text + line + "\n");
  write("empty", "");
  serve();
  wait_for_reading();
  EXPECT_THAT(card("cut").problem, HasSubstr("The file is cut: "));
  EXPECT_EQ(card("forged").state, "damaged");
  EXPECT_THAT(card("forged").problem, HasSubstr("journal line "));
  EXPECT_EQ(card("newer").state, "newer") << card("newer").problem;
  EXPECT_EQ(card("empty").state, "unreadable");
  for (const char* name : {"cut", "forged", "newer", "empty"}) {
    const std::string html = page(fmt::format("/campaign/{}", name));
    EXPECT_THAT(html, HasSubstr("<b>Take care.</b>")) << name;
    expect_clean(html, name);
  }
  EXPECT_THAT(ask(get("/campaign/forged/round/2")), Not(StartsWith("HTTP/1.1 200")));
}

TEST_F(WebSite, CampaignsComeAndGo) {
  serve();
  EXPECT_THAT(page("/"), HasSubstr("No campaign in "));
  report::fixture::single_shape().write(root() / "late");
  for (int i = 0; i < 100 && card("late").op.empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(page("/"), HasSubstr("/campaign/late"));
  fs::remove_all(root() / "late");
  for (int i = 0; i < 100 && !site_->store().cards().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(ask(get("/campaign/late")), StartsWith("HTTP/1.1 404"));
}

TEST_F(WebSite, ACampaignIsServedByItself) {
  report::fixture::single_shape().write(root() / "one");
  serve({.roots = {root() / "one" / ""}});
  wait_for_reading();
  EXPECT_THAT(ask(get("/")), AllOf(StartsWith("HTTP/1.1 303"), HasSubstr("Location: /campaign/one\r\n")));
  EXPECT_THAT(page("/campaign/one"), HasSubstr("Rounds"));
}

// The campaigns of a queue lie where they like; two of one name are told apart by the folder above.
TEST_F(WebSite, SeveralCampaignsAndFoldersAreServedTogether) {
  report::fixture::single_shape().write(root() / "a" / "one");
  report::fixture::single_shape().write(root() / "b" / "one");
  report::fixture::single_shape().write(root() / "b" / "two");
  serve({.roots = {root() / "a" / "one", root() / "b"}});
  wait_for_reading();
  for (const char* id : {"one", "b:one", "two"})
    EXPECT_THAT(page(fmt::format("/campaign/{}", id)), HasSubstr("Rounds")) << id;
  EXPECT_THAT(page("/"), AllOf(HasSubstr("3 campaigns"), HasSubstr("/campaign/b%3Aone")));
  fs::remove_all(root() / "a" / "one");  // its id goes to the other one
  for (int i = 0; i < 100 && site_->store().cards().size() != 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(*site_->store().folder("one"), fs::canonical(root() / "b" / "one"));
  report::fixture::single_shape().write(root() / "a" / "one");
  serve({.roots = {root() / "a" / "one", root() / "a"}});
  wait_for_reading();
  EXPECT_THAT(page("/"), HasSubstr("1 campaign"));
}

TEST_F(WebSite, NothingOutsideOfTheFolderIsReached) {
  report::fixture::single_shape().write(root() / "inside" / "one");
  report::fixture::single_shape().write(root() / "outside");
  serve({.roots = {root() / "inside"}});
  wait_for_reading();
  for (const char* path :
       {"/campaign/..%2foutside", "/campaign/../outside", "/campaign/%2e%2e", "/campaign/..%2f..%2fetc%2fpasswd",
        "/campaign/one/..%2f..%2foutside", "/../../etc/passwd", "/campaign/one/round/..%2f2", "/campaign/one%00"})
    EXPECT_THAT(ask(get(path)), AnyOf(StartsWith("HTTP/1.1 404"), StartsWith("HTTP/1.1 400"))) << path;
  for (const char* round : {"0", "1", "999999999999999999999", "-1", "2x", ""})
    EXPECT_THAT(ask(get(fmt::format("/campaign/one/round/{}", round))), StartsWith("HTTP/1.1 404")) << round;
}

TEST_F(WebSite, RawSamplesComeSessionBySession) {
  report::fixture::nine_rounds().write(root() / "nine");
  serve();
  wait_for_reading();
  const std::string first = page("/campaign/nine/round/2/samples");
  EXPECT_THAT(first, AllOf(HasSubstr("session 1 of "), HasSubstr("samples?page=2"), HasSubstr("ABBA")));
  EXPECT_THAT(page("/campaign/nine/round/2/samples?page=3"), HasSubstr("session 3 of "));
  EXPECT_THAT(page("/campaign/nine/round/2/samples?page=99999"), HasSubstr("session "));
  const auto session = record::parse_record<record::Session>(page("/campaign/nine/round/2/samples.json?page=2"));
  ASSERT_TRUE(session.ok()) << session.error().text();
  EXPECT_FALSE(session->shapes.empty());
}

TEST_F(WebSite, PagesOnlyReadUnlessTheyMayControl) {
  report::fixture::paused_in_a_round().write(root() / "waits");
  serve();
  wait_for_reading();
  EXPECT_THAT(ask(post("/campaign/waits/stop", "{}")), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(page("/campaign/waits"), Not(HasSubstr("data-post")));
}

TEST_F(WebSite, ControlAsksForATokenAndTellsWhatCameOfIt) {
  report::fixture::paused_in_a_round().write(root() / "waits");
  std::vector<std::string> asked;
  SiteOptions options;
  options.server.token = "0123456789abcdef";
  options.allow_control = true;
  options.control = [&](const std::string& what, const fs::path& campaign,
                        const record::ControlRequest& request) -> Result<std::string> {
    asked.push_back(what + " " + campaign.filename().string() + " " + request.budget + request.defines);
    if (what == "stop") return Error{ErrorCode::kConflict, "it has ended", ""};
    return std::string("done");
  };
  serve(std::move(options));
  const std::string token = "Authorization: Bearer 0123456789abcdef\r\n";
  wait_for_reading();
  EXPECT_THAT(ask(post("/campaign/waits/resume", "{}")), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(ask(post("/campaign/waits/resume", "{}", token + "Origin: http://evil.example\r\n")),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(ask(get("/campaign/waits/resume", token)), StartsWith("HTTP/1.1 405"));
  EXPECT_TRUE(asked.empty());
  EXPECT_THAT(ask(post("/campaign/waits/resume", "{}", token)), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("done")));
  EXPECT_THAT(ask(post("/campaign/waits/extend", R"({"budget":"5m"})", token)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(
      ask(post("/campaign/waits/propose", R"({"defines":"MR=6","title":"t","reason":"r","expect":"8%"})", token)),
      StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(post("/campaign/waits/stop", "{}", token)),
              AllOf(StartsWith("HTTP/1.1 409"), HasSubstr("it has ended")));
  EXPECT_THAT(ask(post("/campaign/waits/extend", R"({"rm":"-rf"})", token)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(post("/campaign/none/stop", "{}", token)), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(asked, testing::ElementsAre("resume waits ", "extend waits 5m", "propose waits MR=6", "stop waits "));
  EXPECT_THAT(body_of(ask(get("/campaign/waits", token))), HasSubstr("data-post=\"/campaign/waits/resume\""));
}

TEST_F(WebSite, AThousandRoundsAndAHundredCampaignsLoadInUnderASecond) {
  report::fixture::many_rounds("long", 1000).write(root() / "long");
  const std::string small = report::fixture::many_rounds("small", 3).text();
  for (int i = 0; i < 100; ++i) {
    const fs::path folder = root() / fmt::format("small_{:03}", i);
    fs::create_directories(folder);
    std::ofstream(folder / "journal.jsonl") << small;
  }
  serve();
  const double reading = seconds_of([&] { wait_for_reading(); });
  const double first = seconds_of([&] { EXPECT_THAT(page("/campaign/long"), HasSubstr("Round 1001")); });
  const double overview = seconds_of([&] { EXPECT_THAT(page("/"), HasSubstr("101 campaigns")); });
  const double round = seconds_of([&] { EXPECT_THAT(page("/campaign/long/round/500"), HasSubstr("<h1>Round 500")); });
  const double other = seconds_of([&] { EXPECT_THAT(page("/campaign/long?page=7"), HasSubstr("Round 400")); });
  RecordProperty("reading_ms", static_cast<int>(reading * 1000));
  std::printf(
      "reading %.2f s (%.0f MB), campaign of 1000 rounds %.3f s, overview of 101 campaigns %.3f s, round %.3f s, "
      "part %.3f s\n",
      reading, static_cast<double>(fs::file_size(root() / "long" / "journal.jsonl")) / 1e6, first, overview, round,
      other);
  EXPECT_LT(first, 1.0);
  EXPECT_LT(overview, 1.0);
  EXPECT_LT(round, 1.0);
  EXPECT_LT(other, 1.0);
}

}  // namespace
}  // namespace ridge::web
