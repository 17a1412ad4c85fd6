#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "record/campaign.h"
#include "record/case.h"
#include "record/journal.h"
#include "record/json.h"
#include "record/worker.h"

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

TEST(Case, ReadsItsOwnText) {
  const Case c = parse_case("gemm m=512 n=256 dtype=f32").value();
  EXPECT_EQ(c.op, "gemm");
  EXPECT_EQ(c.integer("m").value(), 512);
  EXPECT_EQ(parse_case(c.text()).value(), c);
}

TEST(Case, RefusesWordsThatAreNotNameValue) {
  for (const char* text : {"", "gemm 512", "gemm m=", "gemm =5", "gemm m=1 m=2"}) {
    EXPECT_FALSE(parse_case(text).ok()) << text;
  }
  EXPECT_THAT(parse_case("gemm 512").error().message, HasSubstr("\"512\""));
}

TEST(Case, AnIntegerMustBeWholeAndInRange) {
  const Case c = parse_case("gemm m=12x n=99999999999999999999").value();
  EXPECT_FALSE(c.integer("m").ok());
  EXPECT_FALSE(c.integer("n").ok());
  EXPECT_FALSE(c.integer("absent").ok());
}

TEST(Record, SurvivesTheRoundTripIncludingNanAndInfinity) {
  Session session;
  session.index = 7;
  session.shapes = {{"m=1", {{"ABBA", {{0.1, std::numeric_limits<double>::infinity()}, {}, {1e-300}, {0.3}}}}}};
  session.guards["steal"] = std::numeric_limits<double>::quiet_NaN();
  const std::string line = to_line(session);
  const Session again = parse_record<Session>(line).value();
  EXPECT_EQ(to_line(again), line);
  EXPECT_EQ(again.shapes[0].quads[0].blocks[0][0], 0.1);
}

TEST(Record, AMissingKeyIsNamedWithItsPlace) {
  const auto result = parse_record<ShapeSamples>(R"({"label":"x","quads":[{"order":"ABBA"}]})");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("record.quads[0]"));
  EXPECT_THAT(result.error().message, HasSubstr("\"blocks\" is missing"));
}

TEST(Record, AnUnknownKeyIsNamed) {
  const auto result = parse_record<Cost>(R"({"flop":1,"bytes":2,"verdict":"PASS"})");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("verdict"));
}

TEST(Record, AWrongTypeIsNamed) {
  EXPECT_THAT(parse_record<Cost>(R"({"flop":"fast","bytes":2})").error().message, HasSubstr("expected a number"));
  EXPECT_THAT(parse_record<Param>(R"({"name":1,"value":""})").error().message, HasSubstr("expected a string"));
  EXPECT_THAT(parse_record<Cost>("[1]").error().message, HasSubstr("expected an object"));
}

TEST(Record, AnUnknownEnumNameListsTheKnownOnes) {
  const auto result = parse_record<GateResult>(R"({"gate":"g","outcome":"maybe","detail":""})");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("pass, fail, inconclusive, not applicable"));
}

TEST(Record, AnIntegerOutOfRangeIsRefused) {
  EXPECT_FALSE(parse_record<Created>(R"({"spec":{},"baseline":{}})").ok());
  Protocol protocol;
  std::string line = to_line(protocol);
  line.replace(line.find("\"threads\":1"), 11, "\"threads\":99999999999999999999");
  EXPECT_FALSE(parse_record<Protocol>(line).ok());
}

TEST(Record, OptionalFieldsAreLeftOutWhenEmpty) {
  EXPECT_THAT(to_line(BenchRow{}), Not(HasSubstr("ratio_low")));
  BenchRow row;
  row.ratio = 1.5;
  EXPECT_EQ(parse_record<BenchRow>(to_line(row)).value().ratio, 1.5);
}

TEST(Record, BytesThatAreNotUtf8AreReplacedNotFatal) {
  GateResult gate;
  gate.detail = "bad \xff byte";
  EXPECT_TRUE(parse_record<GateResult>(to_line(gate)).ok());
}

TEST(Json, AnErrorNamesTheColumn) {
  const Result<Json> result = parse_json("{\"a\": 1,, }");
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("column 9"));
}

TEST(Candidate, IdIgnoresItsNameAndParentOnly) {
  Candidate a{
      .op = "gemm", .name = "one", .sources = {{"k.cpp", "int x;"}}, .defines = {{"MR", 4}}, .flags = {}, .parent = ""};
  Candidate b = a;
  b.name = "two";
  b.parent = "abc";
  EXPECT_EQ(a.id(), b.id());
  b.defines["MR"] = 5;
  EXPECT_NE(a.id(), b.id());
  Candidate c = a;
  c.flags = {"-O2"};
  EXPECT_NE(a.id(), c.id());
}

std::string journal_of(int events) {
  std::string text, previous(64, '0');
  for (int i = 0; i < events; ++i) {
    Event event;
    event.sequence = i;
    event.time = "2026-01-01T00:00:00Z";
    event.kind = EventKind::kPaused;
    event.payload = to_json(Note{"note " + std::to_string(i)});
    event.previous = previous;
    event.hash = event_hash(event);
    previous = event.hash;
    text += to_line(event) + "\n";
  }
  return text;
}

TEST(Journal, LoadsWhenCutAtAnyByte) {
  const std::string text = journal_of(3);
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const Result<JournalText> journal = parse_journal(text.substr(0, size));
    ASSERT_TRUE(journal.ok()) << size << ": " << journal.error().text();
    const auto whole = static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(size), '\n'));
    EXPECT_EQ(journal->events.size(), whole);
  }
}

TEST(Journal, FindsAnyChangedByteInAWholeLine) {
  const std::string text = journal_of(3);
  for (std::size_t i = 0; i < text.size(); i += 7) {
    std::string forged = text;
    forged[i] = forged[i] == '1' ? '2' : '1';
    const Result<JournalText> journal = parse_journal(forged);
    const bool torn = journal.ok() && journal->torn_bytes > 0;  // the last newline itself was overwritten
    EXPECT_TRUE(!journal.ok() || torn) << "byte " << i << " was changed unnoticed";
  }
}

TEST(Journal, FindsARemovedOrRepeatedLine) {
  const std::string text = journal_of(3);
  const std::size_t first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  EXPECT_FALSE(parse_journal(text.substr(first)).ok());
  EXPECT_FALSE(parse_journal(text.substr(0, first) + text.substr(second)).ok());
  const auto repeated = parse_journal(text.substr(0, second) + text.substr(first));
  ASSERT_FALSE(repeated.ok());
  EXPECT_THAT(repeated.error().message, HasSubstr("line 3"));
}

}  // namespace
}  // namespace ridge::record
