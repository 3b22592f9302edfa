// Products with weights that the devices of a process share out among them, as
// a program calls them by name. Each device owns E / devices columns of every
// weight [F, E], and its own tokens T; all is f32.
//
//   ringmax_share_weights(weights [Fi, E / devices]...) -> ticket s64[1]
//   ringmax_share_weights(weights [N, Fi, E / devices]...) -> tickets s64[N]
//   ringmax_release(tickets s64[n], x f32[]) -> x
//   ringmax_to_features(x [T, E], tickets s64[devices]) -> (x W^T [T, Fi])...
//   ringmax_from_features(y [T, Fi]..., tickets) -> sum of y W, [T, E]
//   ringmax_share_activations(x [T, E], y [T, Fi]...) -> ticket
//   ringmax_weight_gradients(tickets, index s32[]) -> (y^T x)[Fi, E / devices]
//     of all devices' tokens, in the order of the devices
//
// A device packs what it owns where all of them can read it, the tickets meet
// in a collective, and then every device reads from where it lies: no weight is
// ever whole, and no sum of a gradient travels. A ticket is for one call of
// every device, or for all of them until each has released it (exchange.h). No
// call waits for another device.
#ifndef RINGMAX_MODEL_CPU_FFI_H_
#define RINGMAX_MODEL_CPU_FFI_H_

#include <cstdint>
#include <span>
#include <string>

#include "ringmax/attention/cpu/ffi.h"

namespace ringmax::model::cpu {

inline constexpr char kShareWeights[] = "ringmax_share_weights";
inline constexpr char kRelease[] = "ringmax_release";
inline constexpr char kToFeatures[] = "ringmax_to_features";
inline constexpr char kFromFeatures[] = "ringmax_from_features";
inline constexpr char kShareActivations[] = "ringmax_share_activations";
inline constexpr char kWeightGradients[] = "ringmax_weight_gradients";

// Columns of E that a device owns are a multiple of this.
inline constexpr std::int64_t kColumnsUnit = 16;

// As MLIR text. `turned`: weights are shared for to_features, otherwise for
// from_features. `kept`: until they are released. `tokens`: of a device.
std::string share_attributes(std::int64_t devices, bool turned,
                             bool kept = false);
std::string attributes(std::int64_t devices);
std::string gradient_attributes(std::int64_t devices, std::int64_t tokens);

std::span<const attention::cpu::FfiHandler> ffi_handlers();

}  // namespace ringmax::model::cpu

#endif  // RINGMAX_MODEL_CPU_FFI_H_
