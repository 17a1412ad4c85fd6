// A campaign as the viewer of another driver reads it: state/<id>/run.json beside logs/ and rounds/, in that driver's
// words. What it has no word for is left out: rounds that were not measured, and every metric but rates of a pass.
#pragma once

#include "campaign/render.h"

namespace ridge::campaign {

FileMap render_for_viewer(const State& state);

}  // namespace ridge::campaign
