// What the library has: operators by implementations, tuned tables, and what campaigns promoted into it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "record/promotion.h"
#include "record/tuned.h"
#include "record/worker.h"
#include "web/page.h"

namespace ridge::web {

struct Library {
  std::vector<record::OperatorInfo> operators;
  std::vector<record::TunedChoice> tuned;
  std::vector<record::Promotion> promotions;
  std::vector<std::string> problems;  // what could not be read, and why
};

// The tables below <data>/tuned and <cache>/tuned, and the promotions below <tree>/src/ops; empty paths: none.
void read_tables(Library& library, const std::filesystem::path& data, const std::filesystem::path& cache,
                 const std::filesystem::path& tree);

Page library_page(const Library& library);

}  // namespace ridge::web
