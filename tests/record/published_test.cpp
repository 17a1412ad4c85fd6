#include "record/published.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "places.h"

namespace ridge::record {
namespace {

TEST(PublishedSchema, IsWhatIsRead) {
  ASSERT_EQ(published_schemas().size(), 2u);
  for (const PublishedSchema& one : published_schemas()) {
    const std::string path = source_dir().string() + "/docs/schema/" + std::string(one.name) + ".v1.json";
    EXPECT_EQ(*read_file(path), pretty_json(one.schema()) + "\n")
        << "run: ridge campaign schema " << one.name << " > docs/schema/" << one.name << ".v1.json";
  }
}

TEST(PublishedSchema, NamesWhatIsNeededAndAllowsNothingElse) {
  const Json schema = published_schemas()[1].schema();
  EXPECT_EQ(schema.at("required"), Json::array({"version"}));
  EXPECT_EQ(schema.at("additionalProperties"), false);
  const Json& hypothesis = schema.at("properties").at("hypothesis");
  EXPECT_EQ(hypothesis.at("properties").at("informed_by").at("type"), "integer");
  EXPECT_EQ(hypothesis.at("properties").at("risks").at("items").at("type"), "string");
}

}  // namespace
}  // namespace ridge::record
