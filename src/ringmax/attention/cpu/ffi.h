// The native kernels' door to XLA: what a program calls by name.
//
//   ringmax_splash_forward(q, k, v, q_positions, kv_positions
//                          [, q_segments, kv_segments] [, tile])
//     -> (out f32, sum f32, max f32)
//   ringmax_splash_backward(the same, dout, lse, delta [, dq, dk, dv])
//     -> (dq, dk, dv) f32, in place where the compiler shares the buffers
//
// And for the devices of a ring that make one call (together.h), always with
// tokens first:
//   ringmax_splash_share(q, k, v, q_positions, kv_positions
//                        [, q_segments, kv_segments] [, tile]
//                        [, dout, lse, delta]) -> (ticket s64[1])
//   ringmax_splash_forward_together(tickets s64[parts], index s32)
//     -> (out f32, sum f32, max f32)
//   ringmax_splash_backward_together(tickets, index) -> (dq, dk, dv) f32
// tickets are those of all the ring's devices, index the caller's place among
// them.
//
// Shapes and meaning are those of KernelOperands (attention/backend.h), or with
// tokens before heads (CallAttributes::tokens_first). What the arrays do not
// say comes as attributes. A call whose
// buffers or attributes do not fit is answered with an error that names the
// operand, never run.
#ifndef RINGMAX_ATTENTION_CPU_FFI_H_
#define RINGMAX_ATTENTION_CPU_FFI_H_

#include <cstdint>
#include <span>
#include <string>

#include "ringmax/attention/mask.h"

namespace ringmax::attention::cpu {

inline constexpr char kForwardTarget[] = "ringmax_splash_forward";
inline constexpr char kBackwardTarget[] = "ringmax_splash_backward";
inline constexpr char kShareTarget[] = "ringmax_splash_share";
inline constexpr char kForwardTogetherTarget[] =
    "ringmax_splash_forward_together";
inline constexpr char kBackwardTogetherTarget[] =
    "ringmax_splash_backward_together";

struct CallAttributes {
  Mask mask = Mask::full();
  double scale = 1;
  double soft_cap = 0;
  std::int64_t block_q = 0, block_kv = 0;  // 0: the kernel's own
  bool segments = false;
  bool tile = false;
  // q, out, dout and dq are [B,S,K,G,*], k, v, dk and dv [B,T,K,*]. Statistics
  // are [B,K,G,S] all the same.
  bool tokens_first = false;
  // Backward: there are no gradients so far to add to.
  bool fresh = false;
  // Devices of the program that share this process' cores.
  std::int64_t devices = 1;
  // Devices that make the call together; a tile has the keys of all of them.
  std::int64_t parts = 1;
  // Share: dout, lse and delta come too.
  bool gradient = false;
};

// As MLIR text: {mask = "causal", scale = ... : f64, ...}.
std::string attributes_text(const CallAttributes& attributes);

struct FfiHandler {
  const char* name;
  void* handler;  // an XLA_FFI_Handler*
};
std::span<const FfiHandler> ffi_handlers();
std::span<const FfiHandler> together_handlers();

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_FFI_H_
