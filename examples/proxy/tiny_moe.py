"""A Mixture-of-Experts model of 0.9 million random weights, to try the proxy on real vLLM nodes.

    python tiny_moe.py OUT TEXT...

writes model and tokenizer to OUT, the tokenizer trained on the TEXT files. It needs the packages
that vLLM brings along (torch, transformers, tokenizers), and no download. Every run writes the same
weights, so that prefill and decode nodes that load it agree.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2MoeConfig, Qwen2MoeForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% if not (loop.last and continue_final_message) %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of 2,000 tokens with a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=SPECIAL, initial_alphabet=alphabet
    )
    tokenizer.train(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        chat_template=TEMPLATE,
    )


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2MoeForCausalLM:
    """Two layers, four experts, weights wide enough apart that greedy answers do not repeat."""
    torch.manual_seed(7)
    config = Qwen2MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
        max_position_embeddings=2048,
        initializer_range=0.3,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2MoeForCausalLM(config).to(torch.float32)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    trained = train_tokenizer(sys.argv[2:])
    trained.save_pretrained(out)
    make_model(trained).save_pretrained(out)
