// For tests: a Llama that computes in no time, in float32.
#ifndef RINGMAX_MODEL_TESTING_SMALL_OPTIONS_H_
#define RINGMAX_MODEL_TESTING_SMALL_OPTIONS_H_

#include "ringmax/model/options.h"

namespace ringmax::model {

inline ModelOptions small_options() {
  ModelOptions o;
  o.base_emb_dim = 32;
  o.base_num_query_heads = 4;
  o.base_num_kv_heads = 2;
  o.head_dim = 16;
  o.base_mlp_dim = 64;
  o.base_num_decoder_layers = 2;
  o.vocab_size = 64;
  o.dtype = DType::kF32;
  return o;
}

}  // namespace ringmax::model

#endif  // RINGMAX_MODEL_TESTING_SMALL_OPTIONS_H_
