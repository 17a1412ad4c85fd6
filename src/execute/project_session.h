// A session out of the tables that the four processes of a project's benchmark wrote.
#pragma once

#include <string>
#include <vector>

#include "project/bench_csv.h"
#include "record/measurement.h"
#include "record/metric.h"
#include "ridge/result.h"

namespace ridge::execute {

// The label of a shape in a project's table as that of a case.
std::string case_label(const std::string& label);

struct ProjectSession {
  record::Session session;  // its shapes, in the order of the labels, and its columns
  std::string missing;      // what a table of the candidate lacks and the incumbent's have; empty: nothing
};

// `processes`: the passing rows of each, in the order of the arms. An error where two tables of the incumbent do not
// have the same directions.
Result<ProjectSession> session_of(const std::vector<std::string>& labels, const std::string& order,
                                  const std::vector<std::vector<project::BenchTableRow>>& processes,
                                  const record::Metric& metric);

}  // namespace ridge::execute
