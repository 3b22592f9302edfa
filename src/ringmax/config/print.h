// A resolved config as text: a table for people, JSON for programs. And the
// descriptors as text: configs/base.yml and docs/config.md are made here, so
// that neither can drift from the code.
#ifndef RINGMAX_CONFIG_PRINT_H_
#define RINGMAX_CONFIG_PRINT_H_

#include <string>

#include "ringmax/config/config.h"

namespace ringmax::config {

// name, value and source of every setting, by section, then the notes.
std::string to_table(const Config& config);

// {"settings": {NAME: {"value": ..., "source": ...}}, "notes": [...]} in the
// same order, values with their JSON type. Indented, ends with a newline.
std::string to_json(const Config& config);

// The text of configs/base.yml: every setting with its default and its help.
std::string defaults_yaml();

// The text of docs/config.md: every setting, what is valid, its default.
std::string reference_markdown();

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_PRINT_H_
