#include "hardware/spec.h"

#include "database.h"
#include "hardware/markdown.h"
#include "places.h"
#include "record/architecture.h"

namespace ridge::hardware {
namespace {

TEST(Quantity, KeepsTheDigitsThatWerePrinted) {
  const Quantity eight = parse_quantity("8 TB/s").value(), precise = parse_quantity("8.00 TB/s").value();
  EXPECT_TRUE(agree(eight, 8.192e12, 0));
  EXPECT_FALSE(agree(precise, 8.192e12, 0));
  EXPECT_TRUE(agree(parse_quantity("1979 TFLOPS").value(), 1978.9e12, 0));
  EXPECT_FALSE(agree(parse_quantity("132 SMs").value(), 131.9, 0)) << "a count has no rounding";
}

TEST(Quantity, RefusesWhatIsNotANumberAndAUnit) {
  for (const char* text : {"", "4.8", "4.8TB/s", "~4.8 TB/s", "4,800 GB/s", "4.8e12 B/s", "-1 W", "4.8  TB/s",
                           "4. TB/s", "1.2.3 W", "4.8 TBs", "four W", "989.4 Tflops"}) {
    EXPECT_FALSE(parse_quantity(text)) << text;
  }
  EXPECT_NE(parse_quantity("5 parsec").error().hint.find("TB/s"), std::string::npos);
}

TEST(Database, FindsAProductHoweverItsNameIsWritten) {
  for (const char* name : {"H200", "h200", "NVIDIA H200", "h200-sxm", "H200 SXM5"}) {
    const auto found = shipped().find(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ((*found)->name, "H200");
  }
  EXPECT_EQ((*shipped().find("instinct mi300x"))->target, "gfx942");
}

TEST(Database, NeverTakesASimilarProduct) {
  const auto ambiguous = shipped().find("H100");
  ASSERT_FALSE(ambiguous);
  EXPECT_NE(ambiguous.error().hint.find("H100 PCIe, H100 SXM"), std::string::npos) << ambiguous.error().text();
  for (const char* name : {"H800", "MI300A", "A100", "B2000", "", "V100"}) EXPECT_FALSE(shipped().find(name)) << name;
}

TEST(Database, SaysUnknownInsteadOfANumber) {
  const Spec& h20 = **shipped().find("H20");
  const auto clock = h20.value("boost_clock");
  ASSERT_FALSE(clock);
  EXPECT_EQ(clock.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(clock.error().message.find("boost_clock: UNKNOWN ("), std::string::npos);
  EXPECT_EQ(h20.value("warmth").error().code, ErrorCode::kNotFound);
}

TEST(Database, HoldsTheProductsPeopleRunOn) {
  for (const char* name :
       {"H20", "H100 SXM", "H100 PCIe", "H200", "A100 40GB", "A100 80GB", "B200", "B300", "L40S", "MI300X", "MI308X",
        "MI325X", "MI350X", "MI355X", "Sapphire Rapids", "Emerald Rapids", "Zen 4", "Zen 5"}) {
    const auto spec = shipped().find(name);
    ASSERT_TRUE(spec) << name;
    EXPECT_GE((*spec)->facts.size(), (*spec)->is_gpu() ? 25u : 15u) << name;
  }
}

TEST(Database, EveryTargetIsAnArchitectureThatAgreesWithTheCapability) {
  for (const Spec& spec : shipped().specs()) {
    const auto target = record::parse_architecture(spec.target);
    ASSERT_TRUE(target) << spec.name << ": " << target.error().text();
    const bool nvidia = target->family == record::ArchitectureFamily::kNvidia;
    EXPECT_EQ(spec.capability, nvidia ? fmt::format("{}.{}", target->major, target->minor) : "") << spec.name;
    EXPECT_EQ(spec.is_gpu(), target->family != record::ArchitectureFamily::kX86) << spec.name;
  }
}

TEST(Database, EveryKnownFactHasEvidenceAndACitation) {
  for (const Spec& spec : shipped().specs()) {
    for (const Fact& fact : spec.facts) {
      EXPECT_EQ(fact.state == State::kKnown, !fact.from.empty()) << spec.name << " " << fact.citation();
      EXPECT_TRUE(fact.state == State::kKnown || !fact.reason.empty()) << spec.name << " " << fact.citation();
    }
  }
}

TEST(Formula, MultipliesAndDivides) {
  const Spec& h200 = **shipped().find("H200");
  EXPECT_NEAR(evaluate(h200, "compute_units * matrix_bf16_per_clock * matrix_clock").value(), 989.43e12, 0.01e12);
  EXPECT_NEAR(evaluate(h200, "memory_bandwidth / 2").value(), 2.4e12, 1);
  for (const char* text : {"", "compute_units *", "compute_units + 1", "compute_units  * 2", "nonsense * 2"}) {
    EXPECT_FALSE(evaluate(h200, text)) << text;
  }
}

TEST(Formula, AnUnknownInputMakesItUnknown) {
  EXPECT_FALSE(evaluate(**shipped().find("H20"), "compute_units * boost_clock"));
}

TEST(SpecFile, NamesTheLineOfWhatItRefuses) {
  const std::string head =
      "name=\"X\"\nproduct=\"X\"\nvendor=\"V\"\nkind=\"gpu\"\narchitecture=\"A\"\ntarget=\"t\"\n[facts]\n";
  const auto refuses = [&](const std::string& fact, const char* says) {
    const auto spec = parse_spec("x.toml", head + fact);
    ASSERT_FALSE(spec) << fact;
    EXPECT_NE(spec.error().text().find(says), std::string::npos) << spec.error().text();
    EXPECT_NE(spec.error().text().find("x.toml:8"), std::string::npos) << spec.error().text();
  };
  refuses("memory_bandwidth = 4.8", "bare value");
  refuses("memory_bandwidth = { is = \"4.8 TFLOPS\", from = \"p:s\" }", "the metric is bytes per second");
  refuses("memory_bandwidth = { is = \"4.8 TB/s\" }", "\"from\" is missing");
  refuses("memory_bandwith = { unknown = \"x\" }", "no metric \"memory_bandwith\"");
  refuses("memory_bandwidth = { unknown = \"\" }", "say why");
  refuses("memory_bandwidth = { is = \"4.8 TB/s\", unknown = \"x\" }", "needs one of");
  refuses("memory_bandwidth = { is = \"4.8 TB/s\", from = \"p:s\", evidence = \"rumour\" }", "rumour");
  refuses("memory_bandwidth = { is = \"4.8 TB/s\", from = \"p:s\", formula = \"1 * 2\" }",
          "derived value has a formula");
  refuses("memory_bandwidth = { is = \"4.8 TB/s\", from = \"p:s\", source = \"x\" }", "unknown key \"source\"");
  refuses("memory_bandwidth = { is = ", "x.toml:8");
}

TEST(Documentation, IsWhatTheDatabaseSays) {
  const std::string introduction = read_file(shipped_data() / "hardware" / "README.md").value();
  const std::string page = read_file(source_dir() / "docs" / "hardware.md").value();
  EXPECT_TRUE(page == to_markdown(shipped(), introduction))
      << "docs/hardware.md is old: ridge spec list --markdown > docs/hardware.md";
}

}  // namespace
}  // namespace ridge::hardware
