// Where the config files that come with RingMax are.
#ifndef RINGMAX_CONFIG_INSTALL_H_
#define RINGMAX_CONFIG_INSTALL_H_

#include <string>
#include <vector>

namespace ringmax::config {

// The directory that holds base.yml and models/, the best of base's
// config_directories(). Throws kNotFound when none has a base.yml.
const std::string& config_directory();

// Names of the presets in a config directory, sorted.
std::vector<std::string> preset_names(const std::string& directory);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_INSTALL_H_
