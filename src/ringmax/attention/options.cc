#include "ringmax/attention/options.h"

namespace ringmax::attention {

void declare_options(OptionSet& set, AttentionOptions& options) {
  set.section("Attention");
  set.choice("attention", &options.attention, kAttentionKinds,
             "algorithm; both are blockwise splash attention",
             {"dot_product", "cudnn_flash_te", "cudnn_flash_jax", "paged",
              "vllm_rpa", "vllm_batched_rpa"});
  set.flag("use_tokamax_splash", &options.use_tokamax_splash,
           "asks for splash attention; RingMax's own is used either way");
  set.flag("record_max_logits", &options.record_max_logits,
           "put the largest attention logit of every layer into the metrics");
  set.choice("context_parallel_strategy", &options.context_parallel_strategy,
             kContextStrategies,
             "how keys and values meet all queries; auto: the cheapest by "
             "RingMax's estimate");
  set.flag("context_parallel_load_balance",
           &options.context_parallel_load_balance,
           "lay tokens out so that every device has as much to do");
  set.choice("context_parallel_reorder_strategy",
             &options.context_parallel_reorder_strategy, kReorderStrategies,
             "layout for load balance; auto and dual_chunk_swap: zigzag");
  set.text("context_sharding", &options.context_sharding,
           "mesh axis that the sequence is sharded over; context only so far");
  set.integer("ring_scan_unroll", &options.ring_scan_unroll,
              "ring steps in one pass of the ring's loop; 0: all, no loop; -1: "
              "one, where the ring allows a loop",
              {.min = -1});
  set.choice(
      "ring_transport", &options.ring_transport, kRingTransports,
      "how keys go round a ring; collective: sent from device to device; "
      "memory: devices of one process read them where they lie; auto: "
      "memory where the devices and the kernel can");
  constexpr IntRange tokens = {.min = 1, .max = 2147483647};
  constexpr IntRange tokens_or_none = {.min = 0, .max = 2147483647};
  set.integer("sa_block_q", &options.sa_block_q,
              "queries of one attention block, in tokens; 0: chosen",
              tokens_or_none);
  set.integer("sa_block_kv", &options.sa_block_kv,
              "keys of one attention block, in tokens; 0: chosen",
              tokens_or_none);
  set.integer("sa_block_kv_compute", &options.sa_block_kv_compute,
              "keys of a block that are worked on at once, in tokens", tokens);
  set.integer(
      "sa_block_q_dkv", &options.sa_block_q_dkv,
      "queries of one block of the backward pass, in tokens; 0: as forward",
      tokens_or_none);
  set.integer(
      "sa_block_kv_dkv", &options.sa_block_kv_dkv,
      "keys of one block of the backward pass, in tokens; 0: as forward",
      tokens_or_none);
  set.integer("sa_block_kv_dkv_compute", &options.sa_block_kv_dkv_compute,
              "keys of a backward block that are worked on at once, in tokens",
              tokens);
  set.integer("sa_block_q_dq", &options.sa_block_q_dq,
              "queries of one block of a separate dQ kernel, in tokens",
              tokens);
  set.integer("sa_block_kv_dq", &options.sa_block_kv_dq,
              "keys of one block of a separate dQ kernel, in tokens", tokens);
  set.choice("sa_q_layout", &options.sa_q_layout, kOperandLayouts,
             "minor dimension of queries in a TPU kernel");
  set.choice("sa_k_layout", &options.sa_k_layout, kOperandLayouts,
             "minor dimension of keys in a TPU kernel");
  set.choice("sa_v_layout", &options.sa_v_layout, kOperandLayouts,
             "minor dimension of values in a TPU kernel");
  set.integer("use_max_logit_estimate", &options.use_max_logit_estimate,
              "a bound of the logits in place of each row's maximum; -1: none",
              {.min = -1, .max = 2147483647});
  set.integer("dq_reduction_steps", &options.dq_reduction_steps,
              "partial dQ sums of the backward pass: 0 or 3", {.min = 0});
}

std::int64_t sequence_shards(const mesh::Mesh& mesh) {
  return mesh.size("context") * mesh.size("context_usp_ulysses");
}

}  // namespace ringmax::attention
