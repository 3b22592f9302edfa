// Where this program keeps what it brings along: configs and plugins.
//
// Not for user data: output directories, data sets and caches are settings.
//
// Everything is found relative to the executable, so that a build tree and an
// installation can both be moved: `PREFIX/bin/ringmax` looks in
// `PREFIX/share/ringmax/configs` and `PREFIX/lib/ringmax`; `SOURCE/build/...`
// looks in `SOURCE/configs` and `SOURCE/.deps/plugins`. A build folder outside
// of the source tree falls back to the paths CMake knew.
#ifndef RINGMAX_BASE_INSTALLATION_H_
#define RINGMAX_BASE_INSTALLATION_H_

#include <filesystem>
#include <string_view>
#include <vector>

namespace ringmax {

// "0.1.0".
std::string_view version();

// The running executable with links resolved.
std::filesystem::path executable_path();

// Folders that exist, best first, without duplicates; empty when there is none.
std::vector<std::filesystem::path> config_directories(
    const std::filesystem::path& executable = executable_path());
std::vector<std::filesystem::path> plugin_directories(
    const std::filesystem::path& executable = executable_path());

}  // namespace ringmax

#endif  // RINGMAX_BASE_INSTALLATION_H_
