// What follows from the settings together, and whether they fit together: the
// mesh and its devices, the global batch, divisibility. Only config::load
// calls this.
#ifndef RINGMAX_CONFIG_DERIVE_H_
#define RINGMAX_CONFIG_DERIVE_H_

#include <set>
#include <string>

#include "ringmax/base/problems.h"
#include "ringmax/config/config.h"

namespace ringmax::config {

// Fills the derived part of `config` and its notes. A check is left out when a
// setting it looks at was `refused` already, so that one slip is one problem.
void derive(Config& config, const DeviceFacts& facts,
            const std::set<std::string>& refused, Problems& problems);

}  // namespace ringmax::config

#endif  // RINGMAX_CONFIG_DERIVE_H_
