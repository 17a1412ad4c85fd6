// What campaigns looked at, kept in the store of measurements (tune_store.h) for later campaigns on the same kernel: on
// this device or another, for these shapes or others. It guides what is proposed, never what is decided.
#pragma once

#include <vector>

#include "campaign/state.h"
#include "record/campaign.h"
#include "service/context.h"

namespace ridge::service {

// Those of other campaigns and of `ridge tune`, the most alike first: by their shapes, and this device before others.
// Of each at most `most` looks, the fastest among them. A store that cannot be read is said through Context::note and
// counts as empty.
std::vector<record::EarlierLooks> earlier_looks(const Context& context, const campaign::State& state, std::size_t most);
inline constexpr std::size_t kLooksForSearch = 100, kLooksShown = 20;

// Keeps what this campaign looked at, instead of what was kept of it before. A store that cannot be written is said
// through Context::note: the journal has the looks all the same.
void keep_looks(const Context& context, const campaign::State& state);

}  // namespace ridge::service
