#!/usr/bin/env python3
"""Times the training step of a Llama in torch + transformers, on the CPU.

The oracle of bench/against_torch.py: the step that `ringmax bench step` times,
as its users would write it: forward, backward, clipping by the global norm,
AdamW, all in float32. Prints one JSON object.
"""

import argparse
import json
import statistics
import time

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("emb", "mlp", "layers", "q_heads", "kv_heads", "head_dim",
                 "vocab", "length", "repeats"):
        parser.add_argument(f"--{name}", type=int, required=True)
    a = parser.parse_args()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=a.emb, intermediate_size=a.mlp,
        num_hidden_layers=a.layers, num_attention_heads=a.q_heads,
        num_key_value_heads=a.kv_heads, head_dim=a.head_dim,
        vocab_size=a.vocab, max_position_embeddings=a.length,
        tie_word_embeddings=False, attn_implementation="sdpa",
        use_cache=False)
    model = transformers.LlamaForCausalLM(config).to(torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5,
                                  betas=(0.9, 0.95), weight_decay=0.1)
    tokens = torch.randint(a.vocab, (1, a.length))

    def step():
        begin = time.perf_counter()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        return time.perf_counter() - begin

    step()  # allocates, and starts the pools
    times = [step() for _ in range(a.repeats)]
    median = statistics.median(times)
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()),
        "step_s": {"min": min(times), "median": median, "max": max(times)},
        "tokens_per_s": a.length / median,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }))


if __name__ == "__main__":
    main()
