// A made-up campaign with any number of rounds.
#pragma once

#include <fmt/format.h>

#include <string>

#include "report/fixture/journal_builder.h"

namespace ridge::report::fixture {

inline JournalBuilder many_rounds(const std::string& id, int rounds) {
  JournalBuilder journal({gemm_shape(512, 512, 512, 0.1), gemm_shape(1024, 1024, 1024, 0.12)});
  journal.create(id);
  journal.confirm();
  journal.prepare();
  journal.baseline();
  for (int i = 0; i < rounds; ++i) {
    Script script;
    script.hypothesis.title = fmt::format("Attempt {}: another tile", i);
    script.hypothesis.category = "tile";
    script.hypothesis.mechanism = "tile";
    script.hypothesis.bucket = "proven_small";
    script.hypothesis.expected_gain = 0.05;
    script.defines = {{"MR", 1 + i % 16}};
    script.true_gain = i % 10 == 0 ? 0.03 : -0.01;
    script.accepted = i % 10 == 0;
    script.confirm_sessions = script.accepted ? 13 : 1;  // most attempts are screened out
    script.reason = script.accepted ? "Every session was faster." : "It is not faster.";
    journal.round(script);
  }
  return journal;
}

}  // namespace ridge::report::fixture
