// What settings leave open and a CPU is faster with.
#ifndef RINGMAX_TRAIN_SPEED_H_
#define RINGMAX_TRAIN_SPEED_H_

#include <cstdint>
#include <string>

#include "ringmax/config/config.h"

namespace ringmax::train {

// On the CPU, where nothing else is asked for: remat_policy=none when the step
// then takes at most half of `memory_bytes`, and with it scan_layers=false, up
// to a depth that compiles soon. Neither changes what is computed. Returns what
// to tell the user; empty when nothing changed.
std::string choose_for_speed(config::Config& config, std::int64_t memory_bytes);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_SPEED_H_
