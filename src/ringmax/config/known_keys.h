// Settings of MaxText that RingMax does not have: their names, so that they are
// not taken for misspellings, and the values that ask for nothing, so that a
// MaxText config is accepted as long as it asks for nothing that is missing.
// Source: MaxText's configuration schema (names and defaults).
#ifndef RINGMAX_CONFIG_KNOWN_KEYS_H_
#define RINGMAX_CONFIG_KNOWN_KEYS_H_

#include <span>
#include <string_view>

namespace ringmax::config {

struct KnownKey {
  std::string_view name;
  // As a file would have it; `a|b` when either is neutral, `-` when the key
  // must be left out.
  std::string_view neutral;
};

// nullptr for a key that MaxText does not have, or that RingMax has.
const KnownKey* find_known_key(std::string_view name);
// MaxText's default of a setting that RingMax has with another default.
const KnownKey* find_other_default(std::string_view name);
std::span<const KnownKey> known_keys();

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_KNOWN_KEYS_H_
