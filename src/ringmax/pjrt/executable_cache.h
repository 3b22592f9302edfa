// Compiled programs on disk, so that a second run starts at once.
//
// The key covers the program text, the options, the plugin file's sha256, the
// platform's version, the devices (kinds, ids, processes) and the host's CPU
// features: XLA:CPU executables hold machine code. A file that is damaged, or
// that the plugin refuses, is compiled again and replaced. A folder that cannot
// be written, or a plugin that cannot serialize, means no cache, never an
// error.
#ifndef RINGMAX_PJRT_EXECUTABLE_CACHE_H_
#define RINGMAX_PJRT_EXECUTABLE_CACHE_H_

#include <functional>
#include <string>
#include <string_view>

#include "ringmax/pjrt/client.h"

namespace ringmax::pjrt {

// What a compiled program must stand before it is kept. Programs are kept by
// the check's name too, so one that is found has stood it; the name changes
// when the check does.
struct ProgramCheck {
  std::string name;
  std::function<void(const Executable&)> run;  // throws to refuse
};

class ExecutableCache {
 public:
  // "" is the user's: $XDG_CACHE_HOME/ringmax/executables, else
  // ~/.cache/ringmax/executables, else none. "off" is none.
  explicit ExecutableCache(std::string directory);

  struct Loaded {
    LoadedExecutable executable;
    bool from_cache = false;
  };
  // A program that `check` refuses is not kept; what it throws passes through.
  Loaded load_or_compile(const Client& client, const std::string& stablehlo,
                         const CompileOptions& options,
                         const ProgramCheck& check = {}) const;

  // The file that a program is kept in; "" without a folder.
  std::string path_for(const Client& client, const std::string& stablehlo,
                       const CompileOptions& options,
                       std::string_view check_name = "") const;

 private:
  std::string directory_;
};

}  // namespace ringmax::pjrt

#endif  // RINGMAX_PJRT_EXECUTABLE_CACHE_H_
