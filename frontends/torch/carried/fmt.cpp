// Compiles the part of fmt that is no header, for want of an archive of it (Debian has a shared library alone).
#include <fmt/format-inl.h>

template auto fmt::detail::thousands_sep_impl<char>(fmt::detail::locale_ref) -> fmt::detail::thousands_sep_result<char>;
template auto fmt::detail::decimal_point_impl<char>(fmt::detail::locale_ref) -> char;
