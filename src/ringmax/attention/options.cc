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
  set.choice("context_parallel_strategy", &options.context_parallel_strategy,
             kContextStrategies,
             "how keys and values meet all queries; auto is ring",
             {"ulysses", "usp"});
  set.flag("context_parallel_load_balance",
           &options.context_parallel_load_balance,
           "balanced sequence layout; not there yet, contiguous is used");
  set.choice("context_parallel_reorder_strategy",
             &options.context_parallel_reorder_strategy, kReorderStrategies,
             "order of tokens for load balance",
             {"dual_chunk_swap", "striped"});
  set.text("context_sharding", &options.context_sharding,
           "mesh axis that the sequence is sharded over; context only so far");
  set.integer("sa_block_q", &options.sa_block_q,
              "queries of one attention block, in tokens", {.min = 1});
  set.integer("sa_block_kv", &options.sa_block_kv,
              "keys of one attention block, in tokens", {.min = 1});
}

}  // namespace ringmax::attention
