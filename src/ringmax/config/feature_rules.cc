#include "ringmax/config/feature_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ringmax/base/option_value.h"
#include "ringmax/config/known_keys.h"

namespace ringmax::config {
namespace {

bool ring(const Asked& a) {
  const std::string strategy = a.text("context_parallel_strategy");
  return strategy == "ring" || strategy == "usp";
}
bool is_one_of(const std::string& text,
               std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// In the order in which problems are said.
constexpr FeatureRule kRules[] = {
    {"attention=dot_product", Verdict::kRefused, "attention",
     "attention=dot_product",
     "it holds a head's whole matrix of logits, which no device has when the "
     "sequence is spread; valid is flash or autoselected",
     [](const Asked& a) { return a.text("attention") == "dot_product"; }},
    {"use_tokamax_splash=False", Verdict::kNoted, "use_tokamax_splash",
     "use_tokamax_splash=False", "RingMax's own splash attention is used",
     [](const Asked& a) { return a.chosen("use_tokamax_splash"); }},
    {"JAX's splash kernel", Verdict::kRefused, "use_jax_splash",
     "use_jax_splash=True",
     "there is one splash attention here, RingMax's own; valid is false",
     [](const Asked& a) { return a.yes("use_jax_splash"); }},
    {"context axis of size 1 with ring", Verdict::kNoted,
     "ici_context_parallelism",
     "ici_context_parallelism=1 context_parallel_strategy=ring "
     "per_device_batch_size=1",
     "a ring of one device, nothing travels",
     [](const Asked& a) {
       return ring(a) && a.chosen("context_parallel_strategy") &&
              a.number("ici_context_parallelism", 0) == 1;
     }},
    {"context axis of size -1 with ring", Verdict::kComputed,
     "ici_context_parallelism",
     "ici_context_parallelism=-1 ici_fsdp_parallelism=1 cpu_device_count=4",
     "the devices that are left over make the ring",
     [](const Asked& a) {
       return ring(a) && a.number("ici_context_parallelism", 0) == -1;
     }},
    {"context_sharding other than context", Verdict::kRefused,
     "context_sharding", "context_sharding=expert",
     "the sequence is sharded over the context axis alone; valid is context",
     [](const Asked& a) { return a.text("context_sharding") != "context"; }},
    {"load balance", Verdict::kComputed, "context_parallel_load_balance",
     "context_parallel_load_balance=True", "zigzag layout, made by the data",
     [](const Asked& a) { return a.yes("context_parallel_load_balance"); }},
    {"striped layout", Verdict::kComputed, "context_parallel_reorder_strategy",
     "context_parallel_reorder_strategy=striped", "made by the data",
     [](const Asked& a) {
       return a.text("context_parallel_reorder_strategy") == "striped";
     }},
    {"packing", Verdict::kComputed, "packing", "packing=True",
     "documents are segments; blocks without a common one are skipped",
     [](const Asked& a) { return a.yes("packing"); }},
    {"sliding windows", Verdict::kComputed, "attention_type",
     "attention_type=local_sliding sliding_window_size=64",
     "keys behind the window are not sent",
     [](const Asked& a) {
       return a.text("attention_type") == "local_sliding";
     }},
    {"chunked attention", Verdict::kComputed, "attention_type",
     "attention_type=chunk chunk_attn_window_size=64",
     "keys of other chunks are not sent",
     [](const Asked& a) { return a.text("attention_type") == "chunk"; }},
    {"attention sinks", Verdict::kComputed, "attention_sink",
     "attention_sink=True", "applied once, after the last ring step",
     [](const Asked& a) { return a.yes("attention_sink"); }},
    {"soft cap", Verdict::kComputed, "attn_logits_soft_cap",
     "attn_logits_soft_cap=50", "with its gradient, in the kernel",
     [](const Asked& a) { return a.number("attn_logits_soft_cap", 0) > 0; }},
    {"largest logits", Verdict::kComputed, "record_max_logits",
     "record_max_logits=True", "one figure a layer in metrics.jsonl",
     [](const Asked& a) { return a.yes("record_max_logits"); }},
    {"length that the square of the ring does not divide", Verdict::kComputed,
     "max_target_length", "max_target_length=2056",
     "a multiple of the ring will do, of twice the ring for zigzag",
     [](const Asked& a) { return a.chosen("max_target_length"); }},
    {"odd rings", Verdict::kComputed, "ici_context_parallelism",
     "ici_context_parallelism=3 max_target_length=2046 "
     "per_device_batch_size=1",
     "in every layout",
     [](const Asked& a) {
       return std::fmod(a.number("ici_context_parallelism", 1), 2) == 1;
     }},
    {"ragged attention", Verdict::kRefused, "use_ragged_attention",
     "use_ragged_attention=True",
     "ragged attention reads the cache of a decoder; rows of training are "
     "equally long, and padding is skipped; valid is false",
     [](const Asked& a) { return a.yes("use_ragged_attention"); }},
    {"chunked prefill", Verdict::kRefused, "use_chunked_prefill",
     "use_chunked_prefill=True",
     "a prompt read piece by piece is inference; training reads whole "
     "sequences; valid is false",
     [](const Asked& a) { return a.yes("use_chunked_prefill"); }},
    {"keys and values of a previous chunk", Verdict::kRefused,
     "prefill_chunk_size", "prefill_chunk_size=512",
     "keys and values of a chunk read before belong to chunked prefill, which "
     "is inference; valid is to leave it out",
     [](const Asked& a) { return a.number("prefill_chunk_size", 256) != 256; }},
    {"sparse indexer masks", Verdict::kRefused, "use_indexer",
     "use_indexer=True",
     "a mask that a model picks key by key while it runs is not there yet; "
     "valid is false",
     [](const Asked& a) { return a.yes("use_indexer"); }},
    {"bidirectional masks (image tokens)", Verdict::kRefused, "attention_type",
     "attention_type=full",
     "queries that see the keys after them (image tokens, full, "
     "block_diffusion) are not there yet; valid is global, local_sliding or "
     "chunk",
     [](const Asked& a) {
       return is_one_of(a.text("attention_type"), {"full", "block_diffusion"});
     }},
    {"MLA", Verdict::kRefused, "attention_type", "attention_type=mla",
     "latent keys and values (MLA) are not there yet; valid is global, "
     "local_sliding or chunk",
     [](const Asked& a) {
       return is_one_of(a.text("attention_type"), {"mla", "compressed"});
     }},
    {"MoBA", Verdict::kRefused, "moba", "moba=True",
     "picking key blocks by a gate (MoBA) is not there yet; valid is false",
     [](const Asked& a) { return a.yes("moba"); }},
    {"multimodal", Verdict::kRefused, "use_multimodal", "use_multimodal=True",
     "images and sound, and the two-way masks they need, are not there yet; "
     "valid is false",
     [](const Asked& a) { return a.yes("use_multimodal"); }},
    {"QK-clip", Verdict::kRefused, "use_qk_clip", "use_qk_clip=True",
     "weights are not clipped by their logits yet; valid is false "
     "(record_max_logits=true shows the logits)",
     [](const Asked& a) { return a.yes("use_qk_clip"); }},
    {"dropout", Verdict::kRefused, "dropout_rate", "dropout_rate=0.1",
     "dropout is not there yet; valid is 0, or enable_dropout=false",
     [](const Asked& a) {
       return a.number("dropout_rate", 0) > 0 &&
              (a.find("enable_dropout") == nullptr || a.yes("enable_dropout"));
     }},
    {"dropout_rate with enable_dropout=False", Verdict::kComputed,
     "dropout_rate", "dropout_rate=0.1 enable_dropout=False", "without dropout",
     [](const Asked& a) {
       return a.number("dropout_rate", 0) > 0 &&
              a.text("enable_dropout") != "" && !a.yes("enable_dropout");
     }},
    {"multi-token prediction with load balance", Verdict::kRefused,
     "mtp_num_layers", "mtp_num_layers=1",
     "multi-token prediction is not there yet; under load balance a slot's "
     "neighbour is not its next token; valid is 0",
     [](const Asked& a) { return a.number("mtp_num_layers", 0) > 0; }},
    {"modes other than training", Verdict::kRefused, "model_call_mode",
     "model_call_mode=autoregressive",
     "autoregressive and prefill programs are not there yet; valid is to leave "
     "it out, which is training",
     [](const Asked& a) {
       const std::string mode = a.text("model_call_mode");
       return !mode.empty() && mode != "train";
     }},
    {"dq_reduction_steps other than 0 or 3", Verdict::kRefused,
     "dq_reduction_steps", "dq_reduction_steps=2",
     "valid is 0 or 3, as in the kernel that the setting is from; RingMax "
     "keeps no partial dQ sums either way",
     [](const Asked& a) {
       const double steps = a.number("dq_reduction_steps", 0);
       return steps != 0 && steps != 3;
     }},
    {"dq_reduction_steps=3", Verdict::kNoted, "dq_reduction_steps",
     "dq_reduction_steps=3",
     "no effect: dQ is summed in place, no partial sums are kept",
     [](const Asked& a) { return a.number("dq_reduction_steps", 0) == 3; }},
    {"sub-blocks of keys, forward", Verdict::kNoted, "sa_block_kv_compute",
     "sa_block_kv_compute=256",
     "no effect on a CPU: a block is worked on whole",
     [](const Asked& a) { return a.chosen("sa_block_kv_compute"); }},
    {"sub-blocks of keys, backward", Verdict::kNoted, "sa_block_kv_dkv_compute",
     "sa_block_kv_dkv_compute=256",
     "no effect on a CPU: a block is worked on whole",
     [](const Asked& a) { return a.chosen("sa_block_kv_dkv_compute"); }},
    {"query blocks of a dQ kernel", Verdict::kNoted, "sa_block_q_dq",
     "sa_block_q_dq=256", "no effect: one backward pass makes dQ, dK and dV",
     [](const Asked& a) { return a.chosen("sa_block_q_dq"); }},
    {"key blocks of a dQ kernel", Verdict::kNoted, "sa_block_kv_dq",
     "sa_block_kv_dq=256", "no effect: one backward pass makes dQ, dK and dV",
     [](const Asked& a) { return a.chosen("sa_block_kv_dq"); }},
    {"fused backward kernel", Verdict::kNoted, "sa_use_fused_bwd_kernel",
     "sa_use_fused_bwd_kernel=True",
     "one backward pass makes dQ, dK and dV either way",
     [](const Asked& a) { return a.yes("sa_use_fused_bwd_kernel"); }},
    {"megacore groups", Verdict::kNoted, "sa_bwd_dkv_megacore",
     "sa_bwd_dkv_megacore=True", "no effect: heads are not grouped",
     [](const Asked& a) { return a.yes("sa_bwd_dkv_megacore"); }},
    {"splash scheduler", Verdict::kNoted, "use_splash_scheduler",
     "use_splash_scheduler=True",
     "no effect: empty blocks are left out of the walk either way",
     [](const Asked& a) { return a.yes("use_splash_scheduler"); }},
    {"estimate of the largest logit", Verdict::kNoted, "use_max_logit_estimate",
     "use_max_logit_estimate=50",
     "no effect: every row's own maximum is used, which cannot overflow",
     [](const Asked& a) { return a.number("use_max_logit_estimate", -1) > 0; }},
    {"layout of queries", Verdict::kNoted, "sa_q_layout",
     "sa_q_layout=SEQ_MINOR",
     "no effect: the kernel chooses the layout of its operands",
     [](const Asked& a) { return a.text("sa_q_layout") == "SEQ_MINOR"; }},
    {"layout of keys", Verdict::kNoted, "sa_k_layout", "sa_k_layout=SEQ_MINOR",
     "no effect: the kernel chooses the layout of its operands",
     [](const Asked& a) { return a.text("sa_k_layout") == "SEQ_MINOR"; }},
    {"layout of values", Verdict::kNoted, "sa_v_layout",
     "sa_v_layout=SEQ_MINOR",
     "no effect: the kernel chooses the layout of its operands",
     [](const Asked& a) { return a.text("sa_v_layout") == "SEQ_MINOR"; }},
};

}  // namespace

Asked::Asked(std::span<const Assignment> layers) : layers_(layers) {}

const Assignment* Asked::find(std::string_view key) const {
  for (auto each = layers_.rbegin(); each != layers_.rend(); ++each) {
    if (each->key == key) return &*each;
  }
  return nullptr;
}

std::string Asked::text(std::string_view key) const {
  const Assignment* found = find(key);
  const bool word =
      found != nullptr && found->value.kind == RawValue::Kind::kScalar;
  return word ? found->value.text : std::string();
}

bool Asked::yes(std::string_view key) const {
  return parse_bool_text(text(key)) == true;
}

double Asked::number(std::string_view key, double fallback) const {
  return parse_number_text(text(key)).value_or(fallback);
}

bool Asked::chosen(std::string_view key) const {
  const Assignment* found = find(key);
  return found != nullptr && found->source.kind >= SourceKind::kFile;
}

std::span<const FeatureRule> feature_rules() { return kRules; }

std::set<std::string> apply_feature_rules(std::vector<Assignment>& layers,
                                          std::vector<std::string>& notes,
                                          Problems& problems) {
  const Asked asked(layers);
  std::set<std::string> refused, dealt_with;
  for (const FeatureRule& rule : kRules) {
    if (!rule.asked(asked)) continue;
    const std::string setting(rule.setting);
    const Assignment* by = asked.find(setting);
    const std::string value = by == nullptr ? "" : by->value.to_string();
    if (rule.verdict == Verdict::kRefused) {
      problems.add("{}: {}={}: {}", by == nullptr ? "" : by->source.where,
                   setting, value, rule.answer);
      refused.insert(setting);
    } else if (rule.verdict == Verdict::kNoted) {
      notes.push_back(fmt::format("{}={}: {}", setting, value, rule.answer));
    }
    if (find_known_key(setting) != nullptr) dealt_with.insert(setting);
  }
  std::erase_if(layers, [&](const Assignment& each) {
    return refused.count(each.key) > 0 || dealt_with.count(each.key) > 0;
  });
  return refused;
}

}  // namespace ringmax::config
