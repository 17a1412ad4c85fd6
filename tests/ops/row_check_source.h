// Builds the check of row models as a campaign does, for the tests of its source and of its verdicts on a device.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "ops/described_kernel.h"
#include "ops/row_cases.h"
#include "places.h"
#include "toolchain/device_build.h"

namespace ridge::testing {

inline constexpr const char* kRowModels = "row_models.cuh";

class RowCheckSource : public ::testing::Test {
 protected:
  void SetUp() override {
    bring_models();
    auto found = toolchain::find_nvrtc();
    if (!found) GTEST_SKIP() << found.error().text();
    compiler_ = *found;
    auto directory = TempDir::create("ridge-rows");
    ASSERT_TRUE(directory);
    directory_.emplace(std::move(*directory));
  }
  std::string compile(const std::string& source) {
    toolchain::DeviceCode code;
    code.files = {{"source.cu", source}};
    toolchain::BuildOptions options;
    options.cache_directory = directory_->path();
    const auto built = toolchain::build_device(code, *compiler_, options);
    EXPECT_TRUE(built && built->ok()) << (built ? built->error : built.error().text());
    if (!built) return {};
    const std::map<std::string, double>& counts = built->evidence.counts;
    EXPECT_EQ(counts.at("spill_bytes"), 0) << built->evidence.log;
    EXPECT_EQ(counts.at("stack_bytes"), 0) << built->evidence.log;
    return built->cubin;
  }

 private:
  static void bring_models() {
    static const std::string text = *read_file(source_dir() / "tests" / "ops" / "row_models.cuh");
    static const EmbeddedFile file{kRowModels, text};
    static const bool once = (ops::add_device_sources({&file, 1}), true);
    (void)once;
  }

  std::shared_ptr<const toolchain::DeviceCompiler> compiler_;
  std::optional<TempDir> directory_;
};

}  // namespace ridge::testing
