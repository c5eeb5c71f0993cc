"""A Llama with PEFT's low-rank parts."""

import peft
import torch
import transformers
from common import tokens, train

torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
    num_key_value_heads=2,
)
model = transformers.LlamaForCausalLM(config)
model = peft.get_peft_model(
    model,
    peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)
optimizer = torch.optim.AdamW(
    [p for p in model.parameters() if p.requires_grad], lr=1e-2
)

x, mask = tokens()


def loss():
    return model(input_ids=x, attention_mask=mask, labels=x).loss


train(optimizer, loss)
