#include "ringmax/pjrt/elf.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>

namespace ringmax::pjrt {
namespace {

template <typename T>
bool read_at(std::ifstream& file, std::uint64_t offset, T& value) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&value), sizeof(value));
  return file.good();
}

}  // namespace

bool is_cut_short(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  Elf64_Ehdr header = {};
  if (size < 0 || !read_at(file, 0, header)) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return false;
  }
  // The table of sections comes last, where it was not stripped.
  if (header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize >
      static_cast<std::uint64_t>(size)) {
    return true;
  }
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment = {};
    if (!read_at(file, header.e_phoff + i * header.e_phentsize, segment)) {
      return true;
    }
    if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz >
                                         static_cast<std::uint64_t>(size)) {
      return true;
    }
  }
  return false;
}

}  // namespace ringmax::pjrt
