"""A Llama with PEFT's low-rank parts."""

import peft
import torch
import transformers
from common import GROUPED, train_on_words


def make():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED))
    parts = peft.LoraConfig(
        r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(model, parts)


def change(model):
    own = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(own, lr=1e-2)


train_on_words(make, change=change)
