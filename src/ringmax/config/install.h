// Where the config files that come with RingMax are.
#ifndef RINGMAX_CONFIG_INSTALL_H_
#define RINGMAX_CONFIG_INSTALL_H_

#include <string>
#include <vector>

namespace ringmax::config {

// The directory that holds base.yml and models/: configs or
// share/ringmax/configs in one of the three directories above the binary's, or
// in the source tree that the binary was built from. Throws kNotFound naming
// where it looked.
const std::string& config_directory();

// Names of the presets in a config directory, sorted.
std::vector<std::string> preset_names(const std::string& directory);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_INSTALL_H_
