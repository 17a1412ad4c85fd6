// The table of backends: its rows agree with the names that the library knows, and unknown names are refused by name.
#include "record/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ridge::record {
namespace {

using ::testing::HasSubstr;

TEST(Backends, EveryRowIsFoundByEachOfItsNames) {
  std::set<std::string_view> names, suffixes;
  for (const BackendInfo& row : backends()) {
    EXPECT_EQ(row.name, to_string(row.backend));
    EXPECT_EQ(*parse_backend(row.name), row.backend);
    EXPECT_EQ(&info_of(row.backend), &row);
    EXPECT_EQ(&backend_of_name(row.name), &row);
    EXPECT_EQ(&backend_of_suffix(row.suffix), &row);
    EXPECT_EQ(&backend_of_language(row.language), &row);
    EXPECT_TRUE(row.device.starts_with(row.facts)) << row.name;
    EXPECT_EQ(row.host, row.capability.empty()) << row.name;
    EXPECT_TRUE(names.insert(row.name).second && suffixes.insert(row.suffix).second) << row.name;
  }
  EXPECT_TRUE(backends().front().host);
}

TEST(Backends, WhatIsNotMeasuredIsRefusedWithTheWayOut) {
  EXPECT_EQ((*find_measured("cuda", "campaigns on"))->backend, Backend::kCuda);
  const auto later = find_measured("hip", "campaigns on"), never = find_measured("tpu", "campaigns on");
  ASSERT_FALSE(later);
  ASSERT_FALSE(never);
  EXPECT_EQ(later.error().message, "campaigns on \"hip\" are not built yet");
  EXPECT_EQ(never.error().message, "campaigns on \"tpu\" do not exist");
  EXPECT_EQ(never.error().hint, "use --on cpu or --on cuda");
}

TEST(Backends, OnlyTheProcessorIsTheHost) {
  EXPECT_TRUE(runs_on_host("cpu"));
  for (const char* name : {"cuda", "hip", "triton", ""}) EXPECT_FALSE(runs_on_host(name)) << name;
}

TEST(Backends, AnUnknownSuffixIsTheProcessors) {
  EXPECT_TRUE(backend_of_suffix(".cc").host);
  EXPECT_EQ(backend_of_suffix(".cu").name, "cuda");
  EXPECT_TRUE(backend_of_language("fortran").host);
}

}  // namespace
}  // namespace ridge::record
