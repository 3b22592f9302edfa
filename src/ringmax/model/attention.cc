#include "ringmax/model/attention.h"

#include <string_view>

#include "ringmax/mesh/axis_rules.h"

namespace ringmax::model {

attention::Mask attention_mask(const ModelOptions& o) {
  using attention::Mask;
  switch (o.attention_type) {
    case AttentionType::kGlobal:
      return Mask::causal();
    case AttentionType::kLocalSliding:
      // The query's own key is one of the window's.
      return Mask::local(o.sliding_window_size - 1, 0);
    case AttentionType::kChunk:
      return Mask::chunked(o.chunk_attn_window_size);
  }
  return Mask::causal();
}

attention::AttendSettings attend_settings(const ModelOptions& o,
                                          const attention::AttentionOptions& a,
                                          const attention::ContextPlan& plan,
                                          const mesh::Mesh& mesh,
                                          const hw::Target& target) {
  attention::AttendSettings s;
  s.mask = attention_mask(o);
  s.layout = plan.layout;
  s.soft_cap = o.attn_logits_soft_cap;
  s.strategy = attention::strategy_of(plan.strategy);
  // A loop whose collectives others may overtake is none for such a target.
  s.ring_scan_unroll = target.collectives_block() ? 0 : a.ring_scan_unroll;
  s.ring_transport = a.ring_transport;
  s.blocks.block_q = a.sa_block_q;
  s.blocks.block_kv = a.sa_block_kv;
  s.blocks.block_kv_compute = a.sa_block_kv_compute;
  s.blocks.block_q_dkv = a.sa_block_q_dkv;
  s.blocks.block_kv_dkv = a.sa_block_kv_dkv;
  s.blocks.block_kv_dkv_compute = a.sa_block_kv_dkv_compute;
  const auto spec = [&](std::string_view heads) {
    return mesh::logical_to_spec(
        {"activation_batch", "activation_length", heads, "activation_kv"},
        mesh::default_axis_rules(), mesh);
  };
  s.q_spec = spec("activation_heads");
  s.kv_spec = spec("activation_kv_heads");
  s.target = target;
  s.names = {.strategy = "context_parallel_strategy",
             .kernel = "attention",
             .soft_cap = "attn_logits_soft_cap",
             .block = "sa_block_"};
  return s;
}

}  // namespace ringmax::model
