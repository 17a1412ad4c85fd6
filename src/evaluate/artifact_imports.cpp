#include "evaluate/artifact_imports.h"

#include <algorithm>
#include <array>

namespace ridge::evaluate {
namespace {

// Of these everything may be used: mathematics, OpenMP, and what C++ needs at run time.
constexpr std::array<std::string_view, 7> kWholeLibraries = {
    "libm.so.6", "libmvec.so.1", "libgomp.so.1", "libomp.so.5", "libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1"};
constexpr std::array<std::string_view, 4> kCLibraries = {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2",
                                                         "ld-linux-aarch64.so.1"};

// Names of the C library, and beginnings of names.
constexpr std::string_view kNames[] = {
    // memory and text
    "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign", "mmap", "munmap", "madvise",
    "memcpy", "memmove", "memset", "memcmp", "memchr", "mempcpy", "bcmp", "strlen", "strcmp", "strncmp", "strcpy",
    "strncpy", "strchr", "strrchr", "strstr", "strtol", "strtoul", "strtoll", "strtoull", "strtod", "strtof", "atoi",
    "atol", "atof", "getenv", "secure_getenv", "qsort", "bsearch", "rand", "srand", "rand_r", "abs", "labs",
    // mathematics that lives in the C library
    "frexp", "frexpf", "ldexp", "ldexpf", "scalbn", "scalbnf", "modf", "modff", "copysign", "copysignf", "isnan",
    "isnanf", "isinf", "isinff", "finite", "finitef",
    // messages to standard error, which go nowhere
    "printf", "puts", "putchar", "fprintf", "vfprintf", "snprintf", "vsnprintf", "sprintf", "fwrite", "fputs", "fputc",
    "fflush", "stderr", "abort", "__assert_fail",
    // time and processors, as far as they are only asked
    "clock_gettime", "clock_getres", "gettimeofday", "time", "clock", "nanosleep", "clock_nanosleep", "usleep", "sleep",
    "sched_yield", "sched_getcpu", "sched_getaffinity", "sysconf", "getpagesize", "get_nprocs", "get_nprocs_conf",
    "gettid",
    // what compilers refer to by themselves
    "__stack_chk_fail", "__errno_location", "__tls_get_addr", "__libc_single_threaded", "_setjmp", "longjmp"};
constexpr std::string_view kBeginnings[] = {"pthread_",     "__pthread_", "sem_",      "thrd_",      "mtx_",
                                            "cnd_",         "tss_",       "__cxa_",    "_Unwind_",   "__memcpy_",
                                            "__memset_",    "__memmove_", "__printf_", "__fprintf_", "__snprintf_",
                                            "__vsnprintf_", "__sprintf_"};
// Of those that begin so: what moves a thread to another processor, or sends and catches signals.
constexpr std::string_view kRefused[] = {"pthread_setaffinity_np",
                                         "pthread_attr_setaffinity_np",
                                         "pthread_kill",
                                         "pthread_sigmask",
                                         "pthread_attr_setsigmask_np",
                                         "pthread_sigqueue",
                                         "pthread_setschedparam",
                                         "pthread_atfork",
                                         "sem_open"};

template <class List>
bool contains(const List& list, std::string_view wanted) {
  return std::find(std::begin(list), std::end(list), wanted) != std::end(list);
}

}  // namespace

bool library_allowed(std::string_view library) {
  return contains(kWholeLibraries, library) || contains(kCLibraries, library);
}

bool import_allowed(std::string_view symbol, std::string_view library) {
  if (contains(kWholeLibraries, library)) return true;
  if (contains(kNames, symbol)) return true;
  if (contains(kRefused, symbol)) return false;
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [symbol](std::string_view beginning) { return symbol.starts_with(beginning); });
}

}  // namespace ridge::evaluate
