// A YAML config file as a flat list of keys, each with its value and its place
// in the file. Read once, so that nothing downstream meets yaml-cpp, which
// keeps the first of two equal keys silently and takes `yes` for true.
// Source: YAML 1.2.2; of it a mapping of keys to scalars and lists.
#ifndef RINGMAX_CONFIG_YAML_FILE_H_
#define RINGMAX_CONFIG_YAML_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/base/option_value.h"
#include "ringmax/base/problems.h"

namespace ringmax::config {

struct YamlEntry {
  std::string key;
  RawValue value;
  std::int64_t line = 0;    // of the key, from 1
  std::int64_t column = 0;  // of the key, from 1
};

// The entries in file order, without those that cannot be read: those, equal
// keys and bad syntax are added to `problems` as `name:line:column: ...`.
std::vector<YamlEntry> parse_yaml(const std::string& text,
                                  std::string_view name, Problems& problems);
// The same from a file. A file that cannot be read is a problem too.
std::vector<YamlEntry> read_yaml(const std::string& path, Problems& problems);

// One value as it stands after `key=` on a command line: a list or a quoted
// text as YAML has it, anything else is a plain scalar to its last letter.
// False, leaving a problem after `where`, when the YAML in it is broken.
bool parse_inline_value(const std::string& text, std::string_view where,
                        RawValue& value, Problems& problems);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_YAML_FILE_H_
