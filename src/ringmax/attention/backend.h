// The interface of attention kernels, and the choice among them.
//
// A kernel sees one query shard and one key/value shard, local sizes, no mesh
// and no ring: attend() calls it once a ring step inside a manual computation
// and merges the partial results. Sinks, layouts, collectives
// and the dtype of what leaves attend() are attend()'s business; blocks,
// padding to blocks and lanes, soft cap and masks are the kernel's.
//
// To add a kernel: derive from Backend in a folder of its own and name it in
// the one list of backend.cc, which says in which order `auto` tries them.
//
// Shape letters: B batch, K kv heads, G query heads per kv head, S queries, T
// keys, D head_dim of query and key, V head_dim of value. All are local sizes.
#ifndef RINGMAX_ATTENTION_BACKEND_H_
#define RINGMAX_ATTENTION_BACKEND_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringmax/attention/mask.h"
#include "ringmax/base/dtype.h"
#include "ringmax/graph/graph.h"
#include "ringmax/hw/target.h"

namespace ringmax::attention {

// What is known before any value exists.
struct KernelRequest {
  // The law on positions; never holds a dense part (see `tile`).
  Mask mask = Mask::full();
  double scale = 1;
  // logit = soft_cap * tanh(score * scale / soft_cap); 0: no cap.
  double soft_cap = 0;
  std::int64_t batch = 1;      // B
  std::int64_t kv_heads = 1;   // K
  std::int64_t groups = 1;     // G
  std::int64_t queries = 1;    // S
  std::int64_t keys = 1;       // T
  std::int64_t head_dim = 1;   // D
  std::int64_t value_dim = 1;  // V
  DType dtype = DType::kF32;   // of q, k, v and dout: f32 or bf16
  bool segments = false;       // operands carry segment ids
  bool tile = false;           // operands carry a dense visibility
  // Of the S x T pairs of a call, those that the mask shows the busiest device,
  // on average over the ring's steps: for cost estimates.
  double visible_share = 1;
  // Wanted block lengths in slots, >= 1; a kernel may use smaller ones, or
  // others where its hardware asks for it (its log line says so).
  struct BlockLengths {
    std::int64_t q = 512;
    std::int64_t kv = 512;
    // Keys of one block that are computed with at a time; at most kv.
    std::int64_t kv_compute = 512;
  };
  BlockLengths forward_blocks;
  BlockLengths backward_blocks;
  // Of the target: its chip, and the memory on chip for one kernel, 0 where
  // there is none.
  std::string chip = {};
  std::int64_t vmem_bytes = 0;
};

// A query slot sees a key slot when mask.visible(their positions), and their
// segments are equal (where there are segments), and the tile is true there
// (where there is one), and neither slot is padding: position -1 or segment 0.
struct KernelOperands {
  graph::Value q_BKGSD;
  graph::Value k_BKTD;
  graph::Value v_BKTV;
  // int32: the sequence position of every slot, in any order; -1 is padding.
  // They are data, other ones in every ring step and on every device.
  graph::Value q_positions_S;
  graph::Value kv_positions_T;
  // int32, >= 0; invalid without request.segments.
  graph::Value q_segments_BS;
  graph::Value kv_segments_BT;
  // bool; invalid without request.tile.
  graph::Value tile_ST;
};

// Attention over this shard's keys alone. A row that sees none of them: out 0,
// sum 0, max -inf. Nothing is NaN, whatever finite values come in. The sum is
// relative to the maximum: near a logit of 60000 a float32 log-sum-exp is wrong
// by 0.002, which would be an error of as much in what merges by it.
struct KernelPartial {
  graph::Value out_BKGSV;  // f32, normalised
  graph::Value sum_BKGS;   // f32, of exp(logit - max)
  graph::Value max_BKGS;   // f32, the largest logit, after scale and cap
};

// f32; running sums over the ring steps.
struct KernelGradients {
  graph::Value dq_BKGSD;
  graph::Value dk_BKTD;
  graph::Value dv_BKTV;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // As the setting `kernel` spells it.
  virtual std::string_view name() const = 0;
  // Whether kernel=auto thinks of it there: not of a proof of another kernel,
  // nor of one for another platform.
  virtual bool automatic(const hw::Target&) const { return true; }
  // Whether devices that share memory can make one call of it together, as
  // attention/native.h has it.
  virtual bool works_together() const { return false; }
  // Block lengths it was measured best with; nothing when any machine's cost
  // model may choose.
  virtual std::optional<KernelRequest::BlockLengths> own_blocks() const {
    return std::nullopt;
  }
  // Why it cannot compute the request on the target; nothing when it can. Also
  // asked for requests that only differ in sizes from ring step to ring step.
  virtual std::optional<std::string> refusal(
      const KernelRequest& request, const hw::Target& target) const = 0;

  virtual KernelPartial forward(const KernelRequest& request,
                                const KernelOperands& operands) const = 0;
  // Returns `so_far` plus this pair of shards' part. dout_BKGSV has the
  // request's dtype. Probabilities are p = exp(logit - lse), d logit = p *
  // (dout . v - delta), dv = p * dout, with lse and delta f32: the global
  // log-sum-exp, sinks included, and the row sum of out * dout. (attend() may
  // take a factor out of p and give it to dout and delta, so p is at most 1,
  // but need not sum up to it.) Rows that see no key of any shard arrive with
  // dout 0, lse 0 and delta 0; a row may still see none of this shard's.
  virtual KernelGradients backward(const KernelRequest& request,
                                   const KernelOperands& operands,
                                   graph::Value dout_BKGSV,
                                   graph::Value lse_BKGS,
                                   graph::Value delta_BKGS,
                                   const KernelGradients& so_far) const = 0;
};

// All there are, best first.
std::span<const Backend* const> backends();

struct BackendChoice {
  const Backend* backend = nullptr;
  // Why better ones were not taken: "native: no FFI on this plugin".
  std::vector<std::string> refused;
};

// `kernel` is a backend's name or "auto": the first that supports the request.
// `setting` is what the caller's user calls it.
// Throws kInvalidArgument for an unknown name (naming the valid ones) and for a
// named backend that refuses (naming its reason).
BackendChoice choose_backend(std::string_view kernel,
                             const KernelRequest& request,
                             const hw::Target& target,
                             std::string_view setting = "kernel");

// Throws kInternal unless operands have the shapes and dtypes that the request
// promises; for the head of a kernel's forward and backward.
void check_operands(const KernelRequest& request,
                    const KernelOperands& operands);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_BACKEND_H_
