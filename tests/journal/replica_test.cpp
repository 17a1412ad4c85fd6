#include "journal/replica.h"

#include <gtest/gtest.h>

namespace ridge::journal {
namespace {

record::Effect effect(const std::string& label, double low, double ratio, double high) {
  return {label, ratio, low, high, 0.95, 8};
}

std::string difference(const record::Effect& here, const record::Effect& there) {
  return compare_effects({here}, {there}).at(0).differs;
}

TEST(CompareEffects, DifferWhereIntervalsDoNotOverlapOrAGainBecomesALoss) {
  const record::Effect gain = effect("m=1", 1.10, 1.20, 1.30);
  EXPECT_EQ(difference(gain, effect("m=1", 1.29, 1.40, 1.50)), "");
  EXPECT_EQ(difference(gain, effect("m=1", 1.301, 1.40, 1.50)), "more there");
  EXPECT_EQ(difference(gain, effect("m=1", 1.01, 1.05, 1.099)), "less there");
  EXPECT_EQ(difference(gain, effect("m=1", 1.00, 1.05, 1.10)), "") << "they touch";
  EXPECT_EQ(difference(gain, effect("m=1", 0.90, 0.99, 1.20)), "a loss there, a gain here") << "though they overlap";
  EXPECT_EQ(difference(effect("m=1", 0.99, 1.05, 1.1), effect("m=1", 0.9, 0.98, 1.02)), "") << "no gain here";
  EXPECT_EQ(difference(effect("m=1", 0.7, 0.8, 0.9), effect("m=1", 0.95, 0.96, 0.97)), "more there");
}

TEST(CompareEffects, AreOfEqualLabels) {
  const auto rows = compare_effects({effect("suite", 1, 1, 1), effect("a", 1, 1, 1), effect("b", 1, 1, 1)},
                                    {effect("b", 2, 2, 2), effect("suite", 1, 1, 1)});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].label, "b");
  EXPECT_EQ(rows[1].differs, "more there");
}

TEST(AgreementWords, NameTheShapesThatDiffer) {
  const record::Effect one = effect("", 1, 1, 1);
  EXPECT_EQ(agreement_words({}), "no shape was measured on both");
  EXPECT_EQ(agreement_words({{"suite", one, one, "more there"}, {"a", one, one, ""}}), "it agrees on the one shape");
  std::vector<record::ReplicaRow> rows;
  for (const char* label : {"a", "b", "c", "d", "e"}) rows.push_back({label, one, one, "less there"});
  rows[1].differs.clear();
  EXPECT_EQ(agreement_words(rows),
            "it differs on 4 of 5 shapes: a (less there), c (less there), d (less there) and 1 more");
}

TEST(Kinship, GoesByModelAndUuidOrHost) {
  const Device a{"n1", "H100", "GPU-1", "550"};
  EXPECT_EQ(kinship(a, a), Kinship::kSame);
  EXPECT_EQ(kinship(a, {"n1", "H100", "GPU-2", "550"}), Kinship::kSameKind) << "beside it";
  EXPECT_EQ(kinship(a, {"n2", "H100", "GPU-1", "550"}), Kinship::kSame) << "the host was renamed";
  EXPECT_EQ(kinship(a, {"n1", "H100", "", "550"}), Kinship::kSame) << "goes by the host";
  EXPECT_EQ(kinship(a, {"n2", "H100", "", "550"}), Kinship::kSameKind);
  EXPECT_EQ(kinship(a, {"n1", "H200", "GPU-1", "550"}), Kinship::kOther);
}

TEST(DeviceOf, IsReadFromTheFactsOfItsBackend) {
  const record::Environment facts{{{"cpu.model", "EPYC"},
                                   {"gpu.name", "NVIDIA H100"},
                                   {"gpu.uuid", "GPU-1"},
                                   {"gpu.driver_version", "12080"},
                                   {"node.host", "n7"}}};
  EXPECT_EQ(device_text(device_of(facts, "cpu")), "EPYC of host n7");
  EXPECT_EQ(device_text(device_of(facts, "cuda")), "NVIDIA H100 of host n7 (driver 12080)");
  record::Environment known = facts;
  known.facts["node.driver"] = "550.54.15";
  EXPECT_EQ(device_of(known, "cuda").driver, "550.54.15");
  EXPECT_EQ(device_of({}, "cpu", "here").host, "here");
  EXPECT_EQ(device_of(facts, "cpu", "here").host, "n7");
}

}  // namespace
}  // namespace ridge::journal
