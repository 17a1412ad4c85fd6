// The context that this program gives to every use case (service/context.h): where it is installed, the flags that all
// subcommands have, progress on standard error, and Ctrl-C.
#pragma once

#include "service/context.h"

namespace ridge::cli {

// How often Ctrl-C or SIGTERM arrived since install_signal_handlers().
int interruptions();
void install_signal_handlers();

// Made once, when the flags are known, and passed down.
service::Context make_context();

}  // namespace ridge::cli
