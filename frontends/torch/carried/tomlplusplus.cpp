// Compiles the part of toml++ that is no header, for want of an archive of it (Debian has a shared library alone).
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
