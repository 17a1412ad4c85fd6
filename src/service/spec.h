// The hardware database: each fact with the document that it comes from.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "record/hardware.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

Result<std::vector<record::SpecSummary>> list_products(const Context& context);
// The text of docs/hardware.md.
Result<std::string> products_markdown(const Context& context);
Result<record::SpecSheet> show_product(const Context& context, const std::string& product);

// One fact; of one that no source states `state` is "unknown", and the fact says why.
struct FoundFact {
  record::SpecFact fact;
  std::string conflict;  // what the sources disagree in; empty: nothing
};
Result<FoundFact> get_fact(const Context& context, const std::string& product, const std::string& metric);

struct ProductDifferences {
  std::string left, right;  // names
  std::vector<record::SpecDifference> differences;
};
Result<ProductDifferences> compare_products(const Context& context, const std::string& left, const std::string& right);

// Every fact (source, digits, physics), the knowledge pages, and the citations of Markdown files or folders.
Result<record::LintReport> lint_facts(const Context& context, const std::vector<std::string>& files);
// Takes the wiki pages as they are.
struct Relocked {
  std::string file;
  std::size_t pages = 0;
};
Result<Relocked> relock_pages(const Context& context);

// What this machine reports, beside what the database states of a product; empty: the one that the device names.
Result<record::SpecProbe> probe_device(const Context& context, const std::string& product);
// The device disagrees with a stated fact.
bool disagrees(const record::SpecProbe& probe);

}  // namespace ridge::service
