// A look at a shared library before it is loaded.
// Source: the ELF specification, and elf(5).
#ifndef RINGMAX_PJRT_ELF_H_
#define RINGMAX_PJRT_ELF_H_

#include <string>

namespace ringmax::pjrt {

// Whether a 64-bit ELF file ends before its last segment or section does:
// loading it would kill the process (SIGBUS). False for any other file, which
// dlopen() refuses by itself.
bool is_cut_short(const std::string& path);

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_ELF_H_
