// Whether a command may write a file where it is told to, asked before the
// work and not after it.
#ifndef RINGMAX_CLI_OUTPUT_PATH_H_
#define RINGMAX_CLI_OUTPUT_PATH_H_

#include <string>
#include <string_view>
#include <vector>

namespace ringmax::cli {

// Throws kInvalidArgument, naming the option and the path, unless it is a new
// or a regular file in a directory that can be written, and none of `taken`,
// the other files of the command. Files are replaced as a whole, so a device
// or a pipe would be lost.
void check_output_path(std::string_view option, const std::string& path,
                       const std::vector<std::string>& taken = {});

// The same of a folder that files go into, which need not be there yet: makes
// nothing.
void check_output_folder(std::string_view option, const std::string& path);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_OUTPUT_PATH_H_
