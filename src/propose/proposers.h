// The constructors behind make_proposer(), one per file of this folder.
#pragma once

#include "propose/proposer.h"

namespace ridge::propose {

Result<std::unique_ptr<Proposer>> make_search(std::string_view argument, const ProposerOptions& options);
Result<std::unique_ptr<Proposer>> make_replay(std::string_view argument, const ProposerOptions& options);
Result<std::unique_ptr<Proposer>> make_manual(std::string_view argument, const ProposerOptions& options);
Result<std::unique_ptr<Proposer>> make_agent(std::string_view argument, const ProposerOptions& options);

}  // namespace ridge::propose
